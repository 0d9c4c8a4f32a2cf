package shared

import "errors"

var (
	// ErrUnsafe: others could read or write what lies in the runtime directory, or it is not what it should be.
	ErrUnsafe = errors.New("not safe to share")
	// ErrNoRuntimeDir: there is no directory for the files of running processes.
	ErrNoRuntimeDir = errors.New("no runtime directory")
	// ErrFull: all slots of the file are taken by processes that live.
	ErrFull = errors.New("too many processes share this device")
	// ErrBusy: another process kept the directory locked.
	ErrBusy = errors.New("the runtime directory is locked by another process")
	// ErrNoProcess: there is no process of that id.
	ErrNoProcess = errors.New("no such process")
	// ErrCut: somebody has truncated the file while it was in use.
	ErrCut = errors.New("the shared file was cut")
	// ErrKey: the key of a device is empty.
	ErrKey = errors.New("no key for the device")

	// errReplace: there is no file, or one that is not understood and may be replaced.
	errReplace = errors.New("to be replaced")
)
