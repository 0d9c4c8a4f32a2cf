package store

import "errors"

// Sentinels that every store wraps, so that callers need not know which store it is.
var (
	// ErrNotExist: no file has that name.
	ErrNotExist = errors.New("no such file in the repository")
	// ErrShort: the file ends before the bytes that were asked for.
	ErrShort = errors.New("file in the repository is shorter than expected")
	// ErrNoSpace: the target is full, or a quota is reached.
	ErrNoSpace = errors.New("no space left on the target")
	// ErrGone: the target is not there any more (unmounted, disconnected, share removed).
	ErrGone = errors.New("the target has gone away")
	// ErrDenied: the target refuses access.
	ErrDenied = errors.New("access to the target denied")
	// ErrName: the name is not one that a store may hold. A mistake of the caller, never of the target.
	ErrName = errors.New("not a name of a stored file")
	// ErrTemporary marks a failure that may be over a moment later (a server that restarts, a handle that went stale).
	// It accompanies the error that says what happened; package retry tries again only on errors that wrap it.
	ErrTemporary = errors.New("temporary failure")
)
