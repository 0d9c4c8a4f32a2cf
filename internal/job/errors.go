package job

import "errors"

var (
	// ErrSchedule: a schedule is malformed, or has no times.
	ErrSchedule = errors.New("invalid schedule")
	// ErrName: a name of a job is malformed or not unique.
	ErrName = errors.New("invalid name of a job")
	// ErrIncomplete: a job lacks sources or a repository.
	ErrIncomplete = errors.New("incomplete job")
	// ErrNoJob: there is no job of that name.
	ErrNoJob = errors.New("no such job")
	// ErrUnfinished: the option file ends within a line, as one does that is still written.
	ErrUnfinished = errors.New("its last line has no end, so it may be incomplete: end it with a line break")
	// ErrExists: there is a job of that name.
	ErrExists = errors.New("the job exists")
)
