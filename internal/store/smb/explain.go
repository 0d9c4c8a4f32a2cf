package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

// explained reports whether err carries what callers look for already.
func explained(err error) bool {
	for _, done := range []error{
		store.ErrName, store.ErrShort, store.ErrGone, store.ErrTemporary, store.ErrNoSpace, store.ErrDenied,
		store.ErrNotExist, ErrLogon, ErrInsecure, ErrTorn, session.ErrClosed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, done) {
			return true
		}
	}
	return false
}

// explain gives an error of the server the sentinel of package store that callers look for, and a sentence that says what
// to do. Errors that carry a sentinel already, and those of ctx, pass as they are.
func (s *Store) explain(ctx context.Context, err error) error {
	if stop := context.Cause(ctx); err == nil || (stop != nil && errors.Is(err, stop)) || explained(err) {
		return err
	}
	where := s.Location()
	switch {
	case errors.Is(err, session.ErrDropped):
		return fmt.Errorf("%w: %w (%w): see whether the server of %s is up and reachable, and run the command again; what "+
			"was stored so far is kept and not sent twice", store.ErrTemporary, store.ErrGone, err, where)
	case errors.Is(err, fs.ErrNotExist):
		return s.missing(ctx, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (%w): let this user read and write the folder of %s, on the share and on the server's disk",
			store.ErrDenied, err, where)
	}
	switch session.Status(err) {
	case session.StatusDiskFull, session.StatusQuotaExceeded, session.StatusDiskQuotaExceeded:
		return fmt.Errorf("%w (%w): free some space for %s or raise the quota, or forget old snapshots and prune, and run "+
			"the command again; what was stored so far is kept and not sent twice", store.ErrNoSpace, err, where)
	case session.StatusWriteProtected:
		return fmt.Errorf("%w (%w): the share or the disk behind %s is read-only; allow writing to it",
			store.ErrDenied, err, where)
	case session.StatusNetworkAccessDenied:
		return fmt.Errorf("%w (%w): let this user use the share of %s", store.ErrDenied, err, where)
	case session.StatusBadNetworkName, session.StatusDeviceNotConnected:
		return s.lost(err)
	case session.StatusDeviceNotReady:
		return fmt.Errorf("%w: %w", store.ErrTemporary, s.lost(err))
	case session.StatusDeletePending:
		return s.missing(ctx, err)
	case session.StatusSharingViolation, session.StatusFileLockConflict:
		return fmt.Errorf("%w: another program has the file open: %w", store.ErrTemporary, err)
	case session.StatusInsufficientResources, session.StatusIOTimeout, session.StatusRequestNotAccepted, session.StatusTooManyOpenedFiles, session.StatusFileClosed,
		session.StatusInvalidHandle:
		return fmt.Errorf("%w: %w", store.ErrTemporary, err)
	}
	return err
}

// missing decides between a file that is not there and a target that is not there.
func (s *Store) missing(ctx context.Context, err error) error {
	if s.known.Load() && s.gone(ctx) {
		return s.lost(err)
	}
	return fmt.Errorf("%w (%w)", store.ErrNotExist, err)
}

func (s *Store) lost(err error) error {
	return fmt.Errorf("%w (%w): see whether the server still has the share and the disk of %s, and run the command again",
		store.ErrGone, err, s.Location())
}
