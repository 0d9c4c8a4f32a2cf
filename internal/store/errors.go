package store

import "errors"

// Every store wraps these errors.
var (
	// ErrNotExist: no file has that name.
	ErrNotExist = errors.New("no such file in the repository")
	// ErrExists: a file has the name already.
	ErrExists = errors.New("a file of that name exists in the repository")
	// ErrFenced: another program has taken the name, so that no file can get it. Only a lease can be fenced.
	ErrFenced = errors.New("another program has fenced off this name")
	// ErrShort: the file ends before the bytes that were asked for.
	ErrShort = errors.New("file in the repository is shorter than expected")
	// ErrNoSpace: the target is full, or a quota is reached.
	ErrNoSpace = errors.New("no space left on the target")
	// ErrGone: the target is no longer there (unmounted, disconnected, share removed).
	ErrGone = errors.New("the target has gone away")
	// ErrDenied: the target refuses access.
	ErrDenied = errors.New("access to the target denied")
	// ErrName: the name is not valid. This is a mistake of the caller.
	ErrName = errors.New("not a name of a stored file")
	// ErrTemporary marks a failure that may be over a moment later (a restarting server, a stale handle). It accompanies
	// another error. Package retry retries only errors that wrap it.
	ErrTemporary = errors.New("temporary failure")
)
