package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/cloudsoda/go-smb2"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Status codes of a server, from [MS-ERREF] 2.3.1.
const (
	statusInvalidHandle          = 0xC0000008
	statusNoSuchUser             = 0xC0000064
	statusSharingViolation       = 0xC0000043
	statusQuotaExceeded          = 0xC0000044
	statusFileLockConflict       = 0xC0000054
	statusDeletePending          = 0xC0000056
	statusWrongPassword          = 0xC000006A
	statusLogonFailure           = 0xC000006D
	statusAccountRestriction     = 0xC000006E
	statusInvalidLogonHours      = 0xC000006F
	statusInvalidWorkstation     = 0xC0000070
	statusPasswordExpired        = 0xC0000071
	statusAccountDisabled        = 0xC0000072
	statusDiskFull               = 0xC000007F
	statusInsufficientResources  = 0xC000009A
	statusDeviceNotConnected     = 0xC000009D
	statusDeviceNotReady         = 0xC00000A3
	statusWriteProtected         = 0xC00000A2
	statusIOTimeout              = 0xC00000B5
	statusNetworkNameDeleted     = 0xC00000C9
	statusNetworkAccessDenied    = 0xC00000CA
	statusBadNetworkName         = 0xC00000CC
	statusRequestNotAccepted     = 0xC00000D0
	statusTooManyOpenedFiles     = 0xC000011F
	statusFileClosed             = 0xC0000128
	statusLogonTypeNotGranted    = 0xC000015B
	statusAccountExpired         = 0xC0000193
	statusUserSessionDeleted     = 0xC0000203
	statusConnectionDisconnected = 0xC000020C
	statusConnectionReset        = 0xC000020D
	statusPasswordMustChange     = 0xC0000224
	statusAccountLockedOut       = 0xC0000234
	statusSessionExpired         = 0xC000035C
	statusDiskQuotaExceeded      = 0xC0000802
)

// statusOf returns the server's status within err; 0: there is none.
func statusOf(err error) uint32 {
	var answer *smb2.ResponseError
	if errors.As(err, &answer) {
		return answer.Code
	}
	if errors.Is(err, smb2.ErrRequestNotAccepted) {
		return statusRequestNotAccepted
	}
	return 0
}

// explained reports whether err carries what callers look for already.
func explained(err error) bool {
	for _, done := range []error{
		store.ErrName, store.ErrShort, store.ErrGone, store.ErrTemporary, store.ErrNoSpace, store.ErrDenied,
		store.ErrNotExist, ErrLogon, ErrInsecure, ErrTorn, errClosed, context.Canceled, context.DeadlineExceeded,
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
	case errors.Is(err, errDropped):
		return fmt.Errorf("%w: %w (%w): see whether the server of %s is up and reachable, and run the command again; what "+
			"was stored so far is kept and not sent twice", store.ErrTemporary, store.ErrGone, err, where)
	case errors.Is(err, fs.ErrNotExist):
		return s.missing(ctx, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (%w): let this user read and write the folder of %s, on the share and on the server's disk",
			store.ErrDenied, err, where)
	}
	switch statusOf(err) {
	case statusDiskFull, statusQuotaExceeded, statusDiskQuotaExceeded:
		return fmt.Errorf("%w (%w): free some space for %s or raise the quota, or forget old snapshots and prune, and run "+
			"the command again; what was stored so far is kept and not sent twice", store.ErrNoSpace, err, where)
	case statusWriteProtected:
		return fmt.Errorf("%w (%w): the share or the disk behind %s is read-only; allow writing to it",
			store.ErrDenied, err, where)
	case statusNetworkAccessDenied:
		return fmt.Errorf("%w (%w): let this user use the share of %s", store.ErrDenied, err, where)
	case statusBadNetworkName, statusDeviceNotConnected:
		return s.lost(err)
	case statusDeviceNotReady:
		return fmt.Errorf("%w: %w", store.ErrTemporary, s.lost(err))
	case statusDeletePending:
		return s.missing(ctx, err)
	case statusSharingViolation, statusFileLockConflict:
		return fmt.Errorf("%w: another program has the file open: %w", store.ErrTemporary, err)
	case statusInsufficientResources, statusIOTimeout, statusRequestNotAccepted, statusTooManyOpenedFiles, statusFileClosed,
		statusInvalidHandle:
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

// unreachable explains why there is no connection. Its text holds host and port only.
func unreachable(ctx context.Context, t Target, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = stalled(err)
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fmt.Errorf("%w: %w (%w): nobody knows a host %q; check its name, or write its address instead",
			store.ErrTemporary, store.ErrGone, err, t.Host)
	}
	return fmt.Errorf("%w: %w (%w): see whether %s is switched on, on this network, and shares files by SMB on port %d",
		store.ErrTemporary, store.ErrGone, err, t.Host, t.Port)
}

// stalled replaces the end of our own patience, which must not be taken for that of the caller's context.
func stalled(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errStalled
	}
	return err
}

// loginError explains why a session did not begin on a connection that there was.
func loginError(ctx context.Context, t Target, user string, w *wire, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = stalled(err)
	if own := w.because(); own != nil {
		err = own
	}
	var mount *mountError
	if errors.As(err, &mount) {
		return shareError(t, user, err)
	}
	switch {
	case errors.Is(err, ErrInsecure):
		return fmt.Errorf("%w: allow SMB 3 and encryption on %s, or do without --smb-encrypt", err, t.Host)
	case errors.Is(err, ErrLogon):
		return fmt.Errorf("%w: check the user %q, or write smb://guest@... if guests are meant", err, user)
	}
	if why := refused(w.status.Load()); why != "" {
		return fmt.Errorf("%w (%w): %s", ErrLogon, err, fmt.Sprintf(why, user, t.Host))
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w (%w): %s does not let %q log on over the network", ErrLogon, err, t.Host, user)
	}
	return fmt.Errorf("%w: %w (%w): %s broke off the logon; see whether it speaks SMB 2 or later on port %d",
		store.ErrTemporary, store.ErrGone, err, t.Host, t.Port)
}

// refused says what a server's status for a logon means: %[1]q is the user, %[2]s the server. "": not a refusal.
func refused(status uint32) string {
	switch status {
	case statusLogonFailure, statusWrongPassword, statusNoSuchUser:
		return "check the user %[1]q, the password and the domain for %[2]s"
	case statusPasswordExpired, statusPasswordMustChange:
		return "the password of %[1]q has expired; set a new one on %[2]s"
	case statusAccountDisabled, statusAccountExpired:
		return "the account %[1]q is disabled or has expired; enable it on %[2]s"
	case statusAccountLockedOut:
		return "the account %[1]q is locked after too many wrong passwords; unlock it on %[2]s, or wait"
	case statusAccountRestriction, statusInvalidLogonHours, statusInvalidWorkstation, statusLogonTypeNotGranted:
		return "the account %[1]q may not log on now, from here, or without a password; change that on %[2]s"
	}
	return ""
}

// shareError explains why a share could not be opened by a user who is logged on.
func shareError(t Target, user string, err error) error {
	switch {
	case statusOf(err) == statusBadNetworkName:
		return fmt.Errorf("%w (%w): %s has no share %q now; check its name, and whether its disk is connected",
			store.ErrGone, err, t.Host, t.Share)
	case errors.Is(err, os.ErrPermission) || statusOf(err) == statusNetworkAccessDenied:
		return fmt.Errorf("%w (%w): let the user %q use the share %q of %s; if the server demands encryption, that it "+
			"offers SMB 3 as well", store.ErrDenied, err, user, t.Share, t.Host)
	}
	return fmt.Errorf("%w: %w (%w): %s did not open the share %q", store.ErrTemporary, store.ErrGone, err, t.Host, t.Share)
}
