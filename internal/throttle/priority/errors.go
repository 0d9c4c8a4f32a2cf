package priority

import "errors"

var (
	// ErrNoProcess: no process has that number, or it has ended.
	ErrNoProcess = errors.New("no such process")
	// ErrNotPermitted: the process belongs to another user.
	ErrNotPermitted = errors.New("not permitted: it belongs to another user, so only root may change it")
	// ErrNotFound: there is no such program.
	ErrNotFound = errors.New("command not found")
	// ErrNotExecutable: the file is there and cannot be run.
	ErrNotExecutable = errors.New("cannot be executed")
)
