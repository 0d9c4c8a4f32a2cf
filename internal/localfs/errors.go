package localfs

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// What an entry turned out to be when it was opened. Each is wrapped together with the errno behind it, where there is
// one, so errors.Is works for both.
var (
	// ErrVanished: the entry was there when the directory was read, and is not any more, if the file system is to be
	// believed: see Dir.Gone.
	ErrVanished = errors.New("vanished while we looked")
	// ErrNotRegular: the entry is not a regular file (any more); nothing was read from it.
	ErrNotRegular = errors.New("not a regular file")
	// ErrReplaced: the file is not the one that was known, or not any more what was known of it.
	ErrReplaced = errors.New("replaced or changed since it was looked at")
	// ErrNotDir: the entry is not a directory (any more); a symbolic link to one is not followed.
	ErrNotDir = errors.New("not a directory")
	// ErrBadName: the name would leave the directory ("", ".", "..", a name with '/' or NUL).
	ErrBadName = errors.New("not the name of a directory entry")
	// ErrNoProc: the kernel is too old to do this without /proc, and /proc is not there.
	ErrNoProc = errors.New("needs /proc on this kernel: mount it and try again")
	// ErrNotKept: the platform or file system has no such property, or stored something else than what was asked.
	ErrNotKept = errors.New("not kept by the target")
	// ErrStopped: the call was not made, as the context of the Door had ended. It says nothing about the object; the cause
	// is wrapped beside it.
	ErrStopped = errors.New("called off")
)

// Problem is one property of one object that could not be restored. The object itself stands; the caller reports it.
type Problem struct {
	What string // "owner", "mode", "xattr user.x", "times", "flags", "acl"
	Err  error
}

// String is the form shown to people.
func (p Problem) String() string { return p.What + ": " + p.Err.Error() }

// Unsupported reports whether err says that the file system or platform has no such thing, in contrast to a refusal.
func Unsupported(err error) bool {
	return !stopped(err) && (errors.Is(err, ErrNotKept) || errors.Is(err, unix.ENOTSUP) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOSYS))
}

// failed wraps what a call on the entry name returned. A name that is gone, also on a network file system whose server
// has forgotten it, is ErrVanished.
func failed(verb, name string, err error) error {
	if !stopped(err) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESTALE)) {
		return fmt.Errorf("%s %q: %w (%w)", verb, name, ErrVanished, err)
	}
	return fmt.Errorf("%s %q: %w", verb, name, err)
}
