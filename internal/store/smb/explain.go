package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

// explained reports whether err wraps a sentinel that callers test for.
func explained(err error) bool {
	return store.IsAny(err, store.ErrName, store.ErrExists, store.ErrFenced, store.ErrShort, store.ErrGone,
		store.ErrTemporary, store.ErrNoSpace, store.ErrDenied, store.ErrNotExist, ErrLogon, ErrInsecure, ErrTorn,
		session.ErrClosed, context.Canceled, context.DeadlineExceeded)
}

// explain adds to an error of the server the sentinel of package store, and what the user can do. It returns errors of
// ctx and those with a sentinel unchanged.
func (s *Store) explain(ctx context.Context, h *session.Session, err error) error {
	if stop := context.Cause(ctx); err == nil || (stop != nil && errors.Is(err, stop)) || explained(err) {
		return err
	}
	if p := (*store.Problem)(nil); errors.As(err, &p) {
		return err
	}
	switch {
	case errors.Is(err, session.ErrDropped):
		return &store.Problem{
			What: "the connection to " + s.target.Host + " was lost", Cause: reason(err),
			Do:    "check that it is up and reachable, " + goOn,
			Kinds: []error{err, store.ErrTemporary, store.ErrGone},
		}
	case errors.Is(err, fs.ErrNotExist):
		return s.missing(ctx, h, err)
	}
	if errors.Is(err, fs.ErrPermission) && s.known.Load() && s.moved(ctx, h) {
		return s.lost(err)
	}
	if p := s.refusal(err); p != nil {
		p.Cause = err
		return p
	}
	switch session.Status(err) {
	case 0:
		return err
	case session.StatusBadNetworkName, session.StatusDeviceNotConnected, session.StatusDeviceNotReady:
		return s.lost(err, store.ErrTemporary)
	case session.StatusDeletePending:
		return s.missing(ctx, h, err)
	case session.StatusSharingViolation, session.StatusFileLockConflict:
		return &store.Problem{
			What: "another program has a file open in " + s.Location(), Cause: err,
			Do: "end it (an antivirus, an indexer, a cloud client), " + goOn, Kinds: []error{store.ErrTemporary},
		}
	case session.StatusInsufficientResources, session.StatusIOTimeout, session.StatusRequestNotAccepted,
		session.StatusTooManyOpenedFiles, session.StatusFileClosed, session.StatusInvalidHandle:
		return &store.Problem{
			What: s.target.Host + " has too much to do", Cause: err, Do: "wait a little, " + goOn,
			Kinds: []error{store.ErrTemporary},
		}
	}
	return &store.Problem{
		What: s.target.Host + " did not do what it was asked", Cause: err, Do: "look at the log of the server, " + goOn,
	}
}

// moved reports whether access to the config is denied too, which was read before: Samba answers so to all requests
// when the folder of the share was moved.
func (s *Store) moved(ctx context.Context, h *session.Session) bool {
	_, err := s.stat(ctx, h, s.path(store.Name{Kind: store.Config}))
	return errors.Is(err, fs.ErrPermission)
}

// goOn ends the advice about a temporary failure during a run.
const goOn = "and " + store.RunAgain + "; what was stored so far is kept and not sent twice"

// refusal explains why the server refuses a request; nil: err is no refusal.
func (s *Store) refusal(err error) *store.Problem {
	where := s.Location()
	switch session.Status(err) {
	case session.StatusDiskFull:
		return &store.Problem{
			What: "no space left on the disk of " + where,
			Do:   store.FreeSpace(where) + ", or give it a larger disk, " + goOn, Kinds: []error{store.ErrNoSpace},
		}
	case session.StatusQuotaExceeded, session.StatusDiskQuotaExceeded:
		return &store.Problem{
			What: "the quota of this user is used up at " + where,
			Do:   "raise it on the server, or " + store.FreeSpace(where) + ", " + goOn, Kinds: []error{store.ErrNoSpace},
		}
	case session.StatusWriteProtected:
		return &store.Problem{
			What: where + " is read-only", Do: "allow writing: on the share, and to the server's disk",
			Kinds: []error{store.ErrDenied},
		}
	case session.StatusNetworkAccessDenied:
		return &store.Problem{
			What: "this user may not use the share of " + where, Do: "allow it on the server", Kinds: []error{store.ErrDenied},
		}
	}
	if errors.Is(err, fs.ErrPermission) {
		return &store.Problem{
			What:  "access to " + where + " is denied",
			Do:    "let this user read and write there: on the share, and in the folder on the server's disk",
			Kinds: []error{store.ErrDenied},
		}
	}
	return nil
}

// reason returns why a connection was lost, without the statement that it was.
func reason(err error) error {
	var all interface{ Unwrap() []error }
	if errors.As(err, &all) {
		for _, one := range all.Unwrap() {
			if !errors.Is(one, session.ErrDropped) {
				return one
			}
		}
	}
	return err
}

// missing decides whether a file is missing or the target. It returns the error of the check if that fails.
func (s *Store) missing(ctx context.Context, h *session.Session, err error) error {
	if session.Status(err) == session.StatusDeletePending {
		err = errRemoved
	}
	if s.known.Load() {
		if lost := s.checkPresent(ctx, h, err); lost != nil {
			return s.explain(ctx, h, lost)
		}
	}
	return fmt.Errorf("%w (%w)", store.ErrNotExist, err)
}

func (s *Store) lost(err error, more ...error) error {
	return &store.Problem{
		What: "the repository is not at " + s.Location() + " any more", Cause: err,
		Do:    "check that the server still has the share, and its disk, " + goOn,
		Kinds: append([]error{store.ErrGone}, more...),
	}
}
