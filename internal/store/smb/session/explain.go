package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/cloudsoda/go-smb2"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Status codes of a server, from [MS-ERREF] 2.3.1.
const (
	StatusInvalidHandle          = 0xC0000008
	StatusInvalidParameter       = 0xC000000D
	statusMoreProcessing         = 0xC0000016 // no error: the logon continues
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

// Status returns the server's status in err; 0: none.
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

// again ends the advice about a temporary failure.
const again = "and " + store.RunAgain

// unreachable explains why there is no connection. Its text contains host and port only.
func unreachable(ctx context.Context, l Login, err error) error {
	return unreachableOn(ctx, runtime.GOOS, l, err)
}

func unreachableOn(ctx context.Context, system string, l Login, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p := &store.Problem{Cause: stalled(err), Kinds: []error{store.ErrTemporary, store.ErrGone}}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		p.What = fmt.Sprintf("there is no host %q", l.Host)
		p.Cause, p.Kinds = nil, append(p.Kinds, err)
		p.Do = "correct the name, or write its address instead"
	case errors.As(err, &dns):
		p.What = fmt.Sprintf("the address of %s could not be resolved", l.Host)
		p.Do = "see whether this machine is on the network, or write the address instead of the name, " + again
	case errors.Is(err, syscall.ECONNREFUSED):
		p.What = fmt.Sprintf("%s refuses connections on port %d", l.Host, l.Port)
		p.Cause, p.Kinds = nil, append(p.Kinds, err)
		p.Do = "switch on sharing by SMB there, or correct the port, " + again
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		p.What = fmt.Sprintf("there is no way to %s", l.Host)
		p.Do = "see whether it is switched on, and this machine on its network, " + again
		if system == "darwin" && errors.Is(err, syscall.EHOSTUNREACH) { // also without the permission, from macOS 15 on
			p.Do = "see whether it is switched on, and this machine on its network, and whether tidemark is allowed in " +
				"System Settings, Privacy & Security, Local Network, " + again
		}
	case silence(p.Cause):
		p.What = fmt.Sprintf("%s does not answer on port %d", l.Host, l.Port)
		p.Cause, p.Kinds = nil, append(p.Kinds, p.Cause)
		p.Do = "see whether it is switched on, on this network, and not behind a firewall, " + again
	default:
		p.What = fmt.Sprintf("%s cannot be reached on port %d", l.Host, l.Port)
		p.Do = "see whether it is switched on, on this network, and shares files by SMB, " + again
	}
	return p
}

// stoppedOr returns the cause of ctx if it has ended, else err. A timeout means that the KDC does not answer.
func stoppedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, errStalled) {
		return &store.Problem{
			What: "the KDC does not answer", Do: "see whether this machine is on its network, " + again,
			Kinds: []error{store.ErrTemporary, store.ErrGone, err},
		}
	}
	return err
}

// stalled replaces the error of an internal timeout, so that it is not taken for the end of the caller's context.
func stalled(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errStalled
	}
	return err
}

// silence reports whether err says that nothing was answered in time.
func silence(err error) bool {
	var late net.Error
	return errors.Is(err, errStalled) || errors.As(err, &late) && late.Timeout()
}

// loginError explains why a session did not start on an existing connection.
func loginError(ctx context.Context, l Login, w *wire, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err = stalled(err)
	if own := w.because(); own != nil {
		err = own
	}
	var mount *mountError
	if errors.As(err, &mount) && !unsigned(err) {
		return shareError(l, err)
	}
	err = hungUp(err)
	if p := brokenOff(l, err); p != nil {
		return p
	}
	switch {
	case errors.Is(err, ErrInsecure):
		return &store.Problem{
			What:  err.Error(),
			Do:    fmt.Sprintf("allow SMB 3 and encryption on %s, or do without --smb-encrypt", l.Host),
			Kinds: []error{err},
		}
	case errors.Is(err, ErrLogon) && strings.EqualFold(l.User, "guest"):
		return &store.Problem{
			What: "the server lets " + l.User + " in as a guest only, and guests can neither sign nor encrypt",
			Do: "name a user with a password; or, with --smb-sign if-offered and without --smb-encrypt, accept that " +
				"anybody on the network can change what is sent, and each file is read back",
			Kinds: []error{ErrLogon, ErrInsecure, err},
		}
	case errors.Is(err, ErrLogon):
		return &store.Problem{
			What: err.Error(),
			Do: fmt.Sprintf("check the user %q, or write smb://guest@... and add --smb-sign if-offered if guests are meant",
				l.User),
			Kinds: []error{err},
		}
	}
	status := w.status.Load()
	if l.Tickets != nil && status != 0 && status != statusMoreProcessing {
		return &store.Problem{
			What: "the server refused the Kerberos ticket",
			Do: fmt.Sprintf("see whether %s is a member of the realm, takes Kerberos as cifs/%[1]s, knows the user, and has "+
				"the right time; or log on with a password", l.Host),
			Kinds: []error{ErrLogon, err},
		}
	}
	if why := refused(status); why != "" {
		return &store.Problem{
			What: ErrLogon.Error(), Do: fmt.Sprintf(why, l.User, l.Host), Kinds: []error{ErrLogon, err},
		}
	}
	if errors.Is(err, os.ErrPermission) {
		return &store.Problem{
			What: ErrLogon.Error(), Do: unpermitted(l, w.cipher), Kinds: []error{ErrLogon, err},
		}
	}
	if invalid := (*smb2.InvalidResponseError)(nil); status != 0 && errors.As(err, &invalid) {
		err = &smb2.ResponseError{Code: status} // the library names the ones that it expects as well
	}
	return &store.Problem{
		What: l.Host + " broke off the logon", Cause: err,
		Do:    fmt.Sprintf("see whether it speaks SMB 2 or later on port %d, %s", l.Port, again),
		Kinds: []error{store.ErrTemporary, store.ErrGone},
	}
}

// brokenOff explains a connection on which no logon is possible now; nil: it is possible.
func brokenOff(l Login, err error) error {
	var older *olderError
	switch {
	case errors.Is(err, errForeign):
		return &store.Problem{
			What:  fmt.Sprintf("what listens on port %d of %s is not an SMB server", l.Port, l.Host),
			Do:    "correct the port (without one it is 445), or the host",
			Kinds: []error{store.ErrTemporary, store.ErrGone, err},
		}
	case errors.Is(err, errStalled):
		return &store.Problem{
			What: fmt.Sprintf("%s takes connections on port %d and does not answer", l.Host, l.Port),
			Do: "see whether its SMB service hangs, whether its disk has to start, and whether the port is that of SMB " +
				"(445), " + again,
			Kinds: []error{store.ErrTemporary, store.ErrGone, err},
		}
	case errors.Is(err, errLowered):
		return &store.Problem{
			What:  l.Host + " seems to speak an older SMB than it does",
			Cause: err,
			Do: "see what lies between this machine and the server, " + again + "; after the server was set to an older SMB " +
				"in the middle of a command, that is enough",
			Kinds: []error{store.ErrTemporary, store.ErrGone},
		}
	case errors.As(err, &older):
		return &store.Problem{
			What: err.Error(),
			Do: fmt.Sprintf("run the command again; if that does not help, see what lies between this machine and %s, "+
				"since an attacker there can cause this; if the server was set to an older SMB on purpose, remove the file "+
				"%s, %s", l.Host, older.file, again),
			Kinds: []error{err},
		}
	case unsigned(err):
		return &store.Problem{
			What: "the answers of " + l.Host + " are not signed, or were changed on the way",
			Do: "run the command again; if that does not help, let the server sign (Samba: server signing = auto), or accept " +
				"what is neither signed nor encrypted with --smb-sign if-offered",
			Kinds: []error{store.ErrTemporary, store.ErrGone, err},
		}
	}
	return nil
}

// unpermitted says what to do about a server that knows the user and lets it in no further. Servers that demand
// encryption do that where there can be none.
func unpermitted(l Login, cipher bool) string {
	permit := fmt.Sprintf("let %q log on to %s over the network", l.User, l.Host)
	switch {
	case strings.EqualFold(l.User, "guest"):
		return "if the server demands encryption, which guests cannot use, name a user with a password; otherwise " + permit
	case !cipher:
		return "if the server demands encryption, let it offer SMB 3; otherwise " + permit
	}
	return permit
}

// unsigned reports whether an answer had no valid signature. The library reports that only by its text.
func unsigned(err error) bool {
	var invalid *smb2.InvalidResponseError
	return errors.As(err, &invalid) && strings.Contains(invalid.Message, "signature verification")
}

// refused explains the status of a logon: %[1]q is the user, %[2]s the server. "": not a refusal.
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
		return &store.Problem{
			What: fmt.Sprintf("%s has no share %q now", l.Host, l.Share),
			// A server that starts offers its shares before their disks are mounted.
			Do: "check its name, and whether its disk is connected", Kinds: []error{store.ErrTemporary, store.ErrGone, err},
		}
	case errors.Is(err, os.ErrPermission) || Status(err) == StatusNetworkAccessDenied:
		encrypt := "let it offer SMB 3 as well"
		if strings.EqualFold(l.User, "guest") {
			encrypt = "name a user with a password, since guests cannot encrypt"
		}
		return &store.Problem{
			What:  fmt.Sprintf("the user %q may not use the share %q of %s", l.User, l.Share, l.Host),
			Do:    "allow it on the server; where the server demands encryption, " + encrypt,
			Kinds: []error{store.ErrDenied, err},
		}
	}
	var mount *mountError
	if errors.As(err, &mount) {
		err = hungUp(mount.err)
	}
	return &store.Problem{
		What: fmt.Sprintf("%s did not open the share %q", l.Host, l.Share), Cause: err,
		Do: "look at the log of the server, " + again, Kinds: []error{store.ErrTemporary, store.ErrGone},
	}
}
