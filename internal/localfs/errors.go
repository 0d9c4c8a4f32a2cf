package localfs

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Results of opening an entry. Each wraps the errno behind it, if there is one.
var (
	// ErrVanished: the entry does not exist any more, according to the file system; see Dir.Gone.
	ErrVanished = errors.New("vanished while we looked")
	// ErrNotRegular: the entry is not a regular file; nothing was read from it.
	ErrNotRegular = errors.New("not a regular file")
	// ErrReplaced: the file is not the known one, or has changed.
	ErrReplaced = errors.New("replaced or changed since it was looked at")
	// ErrDataless: the content of the file is not on this machine, and reading it would fetch it.
	ErrDataless = errors.New("its content is only in the cloud: have the provider download it, and try again")
	// ErrNotDir: the entry is not a directory; symbolic links are not followed.
	ErrNotDir = errors.New("not a directory")
	// ErrBadName: the name would leave the directory ("", ".", "..", a name with '/' or NUL).
	ErrBadName = errors.New("not the name of a directory entry")
	// ErrNoProc: on this kernel the call needs /proc, which is not mounted.
	ErrNoProc = errors.New("needs /proc on this kernel: mount it and try again")
	// ErrNotKept: the platform or file system has no such property, or stored another value.
	ErrNotKept = errors.New("not kept by the target")
	// ErrStopped: the call was not made, because the context of the IOContext had ended; the cause is wrapped too.
	ErrStopped = errors.New("called off")
)

var (
	errNotMacACL = errors.New("not an access control list of macOS")
	// errNoCopy: noDevMounts cannot copy the mount of a directory. The errno is wrapped too.
	errNoCopy = errors.New("the mount cannot be copied")
)

// Problem is one property of one object that could not be restored. The object itself exists; the caller reports the
// problem.
type Problem struct {
	What string // "owner", "mode", "xattr user.x", "times", "flags", "acl"
	Err  error
}

func (p Problem) String() string { return p.What + ": " + p.Err.Error() }

// Unsupported reports whether err says that the file system or platform lacks a feature, in contrast to a refusal.
func Unsupported(err error) bool {
	return !isStopped(err) && (errors.Is(err, ErrNotKept) || errors.Is(err, unix.ENOTSUP) ||
		errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOSYS))
}

// wrap adds the operation and the name to an error, if there is one. A missing name, or one that a network server
// has forgotten, is ErrVanished.
func wrap(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	if !isStopped(err) && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESTALE)) {
		return fmt.Errorf("%s %q: %w (%w)", verb, name, ErrVanished, err)
	}
	return fmt.Errorf("%s %q: %w", verb, name, err)
}
