package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/cloudsoda/go-smb2"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Status codes of a server, from [MS-ERREF] 2.3.1.
const (
	StatusInvalidHandle          = 0xC0000008
	StatusInvalidParameter       = 0xC000000D
	StatusNoSuchUser             = 0xC0000064
	StatusSharingViolation       = 0xC0000043
	StatusQuotaExceeded          = 0xC0000044
	StatusFileLockConflict       = 0xC0000054
	StatusDeletePending          = 0xC0000056
	StatusWrongPassword          = 0xC000006A
	StatusLogonFailure           = 0xC000006D
	StatusAccountRestriction     = 0xC000006E
	StatusInvalidLogonHours      = 0xC000006F
	StatusInvalidWorkstation     = 0xC0000070
	StatusPasswordExpired        = 0xC0000071
	StatusAccountDisabled        = 0xC0000072
	StatusDiskFull               = 0xC000007F
	StatusInsufficientResources  = 0xC000009A
	StatusDeviceNotConnected     = 0xC000009D
	StatusDeviceNotReady         = 0xC00000A3
	StatusWriteProtected         = 0xC00000A2
	StatusIOTimeout              = 0xC00000B5
	StatusNetworkNameDeleted     = 0xC00000C9
	StatusNetworkAccessDenied    = 0xC00000CA
	StatusBadNetworkName         = 0xC00000CC
	StatusRequestNotAccepted     = 0xC00000D0
	StatusTooManyOpenedFiles     = 0xC000011F
	StatusFileClosed             = 0xC0000128
	StatusLogonTypeNotGranted    = 0xC000015B
	StatusAccountExpired         = 0xC0000193
	StatusUserSessionDeleted     = 0xC0000203
	StatusConnectionDisconnected = 0xC000020C
	StatusConnectionReset        = 0xC000020D
	StatusPasswordMustChange     = 0xC0000224
	StatusAccountLockedOut       = 0xC0000234
	StatusSessionExpired         = 0xC000035C
	StatusDiskQuotaExceeded      = 0xC0000802
)

// Status returns the server's status within err; 0: there is none.
func Status(err error) uint32 {
	var answer *smb2.ResponseError
	if errors.As(err, &answer) {
		return answer.Code
	}
	if errors.Is(err, smb2.ErrRequestNotAccepted) {
		return StatusRequestNotAccepted
	}
	return 0
}

// unreachable explains why there is no connection. Its text holds host and port only.
func unreachable(ctx context.Context, l Login, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = stalled(err)
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fmt.Errorf("%w: %w (%w): nobody knows a host %q; check its name, or write its address instead",
			store.ErrTemporary, store.ErrGone, err, l.Host)
	}
	return fmt.Errorf("%w: %w (%w): see whether %s is switched on, on this network, and shares files by SMB on port %d",
		store.ErrTemporary, store.ErrGone, err, l.Host, l.Port)
}

// stalled replaces the end of our own patience, which must not be taken for that of the caller's context.
func stalled(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errStalled
	}
	return err
}

// loginError explains why a session did not begin on a connection that there was.
func loginError(ctx context.Context, l Login, w *wire, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = stalled(err)
	if own := w.because(); own != nil {
		err = own
	}
	var mount *mountError
	if errors.As(err, &mount) {
		return shareError(l, err)
	}
	switch {
	case errors.Is(err, ErrInsecure):
		return fmt.Errorf("%w: allow SMB 3 and encryption on %s, or do without --smb-encrypt", err, l.Host)
	case errors.Is(err, ErrLogon):
		return fmt.Errorf("%w: check the user %q, or write smb://guest@... if guests are meant", err, l.User)
	}
	if why := refused(w.status.Load()); why != "" {
		return fmt.Errorf("%w (%w): %s", ErrLogon, err, fmt.Sprintf(why, l.User, l.Host))
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w (%w): %s does not let %q log on over the network", ErrLogon, err, l.Host, l.User)
	}
	return fmt.Errorf("%w: %w (%w): %s broke off the logon; see whether it speaks SMB 2 or later on port %d",
		store.ErrTemporary, store.ErrGone, err, l.Host, l.Port)
}

// refused says what a server's status for a logon means: %[1]q is the l.User, %[2]s the server. "": not a refusal.
func refused(status uint32) string {
	switch status {
	case StatusLogonFailure, StatusWrongPassword, StatusNoSuchUser:
		return "check the user %[1]q, the password and the domain for %[2]s"
	case StatusPasswordExpired, StatusPasswordMustChange:
		return "the password of %[1]q has expired; set a new one on %[2]s"
	case StatusAccountDisabled, StatusAccountExpired:
		return "the account %[1]q is disabled or has expired; enable it on %[2]s"
	case StatusAccountLockedOut:
		return "the account %[1]q is locked after too many wrong passwords; unlock it on %[2]s, or wait"
	case StatusAccountRestriction, StatusInvalidLogonHours, StatusInvalidWorkstation, StatusLogonTypeNotGranted:
		return "the account %[1]q may not log on now, from here, or without a password; change that on %[2]s"
	}
	return ""
}

// shareError explains why a share could not be opened by a user who is logged on.
func shareError(l Login, err error) error {
	switch {
	case Status(err) == StatusBadNetworkName:
		return fmt.Errorf("%w (%w): %s has no share %q now; check its name, and whether its disk is connected",
			store.ErrGone, err, l.Host, l.Share)
	case errors.Is(err, os.ErrPermission) || Status(err) == StatusNetworkAccessDenied:
		return fmt.Errorf("%w (%w): let the user %q use the share %q of %s; if the server demands encryption, that it "+
			"offers SMB 3 as well", store.ErrDenied, err, l.User, l.Share, l.Host)
	}
	return fmt.Errorf("%w: %w (%w): %s did not open the share %q", store.ErrTemporary, store.ErrGone, err, l.Host, l.Share)
}
