package shared

import "errors"

var (
	// ErrUnsafe: other users could access the runtime directory or a file in it, or it has an unexpected type.
	ErrUnsafe = errors.New("not safe to share")
	// ErrNoRuntimeDir: there is no directory for the files of running processes.
	ErrNoRuntimeDir = errors.New("no runtime directory")
	// ErrFull: live processes have all slots of the file.
	ErrFull = errors.New("too many processes share this device")
	// ErrBusy: another process kept the directory locked.
	ErrBusy = errors.New("the runtime directory is locked by another process")
	// ErrNoProcess: there is no process with that ID.
	ErrNoProcess = errors.New("no such process")

	// errReplace: the file is missing or invalid, and may be replaced.
	errReplace = errors.New("to be replaced")
)
