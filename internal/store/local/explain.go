package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// explain adds to a system error the sentinel of package store, and what the user can do. It returns errors of ctx and
// those with a sentinel unchanged.
func (s *Store) explain(ctx context.Context, err error) error {
	if stop := context.Cause(ctx); stop != nil && errors.Is(err, stop) || store.IsAny(err, store.ErrName, store.ErrExists,
		store.ErrFenced, store.ErrShort, store.ErrGone, store.ErrTemporary, context.Canceled, context.DeadlineExceeded) {
		return err
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		if errors.Is(err, fs.ErrNotExist) {
			return s.missing(ctx, err)
		}
		return err
	}
	switch errno {
	case unix.ENOENT:
		return s.missing(ctx, err)
	case unix.ENOSPC, unix.EDQUOT:
		return &store.Problem{
			What: store.ErrNoSpace.Error(), Cause: err,
			Do: fmt.Sprintf("%s, or move %s to a larger disk, and run the command again; what was stored so far is kept and "+
				"not sent twice", store.FreeSpace(s.root), s.root),
			Kinds: []error{store.ErrNoSpace},
		}
	case unix.EROFS:
		return fmt.Errorf("%w (%w): the file system of %s is mounted read-only; mount it for writing",
			store.ErrDenied, err, s.root)
	case unix.EACCES, unix.EPERM:
		return fmt.Errorf("%w (%w): run as the user who owns %s, or grant this user access to it",
			store.ErrDenied, err, s.root)
	case unix.ENODEV, unix.ENXIO:
		return s.lost(err)
	case unix.ENOTCONN, unix.ESHUTDOWN, unix.EHOSTDOWN, unix.EHOSTUNREACH, unix.ENETDOWN, unix.ENETUNREACH,
		unix.ECONNRESET, unix.ECONNABORTED, unix.ECONNREFUSED, unix.EPIPE:
		return s.lost(err, store.ErrTemporary) // a server may come back
	case unix.ESTALE, unix.ETIMEDOUT, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS:
		return &store.Problem{
			What: "the target does not respond correctly", Cause: err,
			Do:    fmt.Sprintf("check that the disk or share of %s is connected and mounted, and run the command again", s.root),
			Kinds: []error{store.ErrTemporary},
		}
	case unix.EIO:
		return &store.Problem{
			What: "the disk of " + s.root + " reports a failure", Cause: err,
			Do: "look at the log of the kernel, for example with 'dmesg', and at its cable; if it fails again, copy the " +
				"repository to another disk",
		}
	}
	return err
}

// missing decides whether a file is missing or the target. It returns the error of the check if that fails.
func (s *Store) missing(ctx context.Context, err error) error {
	if s.known.Load() {
		if lost := s.checkPresent(ctx, err); lost != nil {
			return s.explain(ctx, lost)
		}
	}
	return fmt.Errorf("%w (%w)", store.ErrNotExist, err)
}

func (s *Store) lost(err error, more ...error) error {
	return &store.Problem{
		What: store.ErrGone.Error(), Cause: err,
		Do:    fmt.Sprintf("connect or mount what holds %s and run the command again", s.root),
		Kinds: append([]error{store.ErrGone}, more...),
	}
}
