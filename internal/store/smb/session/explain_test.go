package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/cloudsoda/go-smb2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
)

func dialling(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

func code(status uint32) error { return &smb2.ResponseError{Code: status} }

// The sentences that people see when a session does not begin.
func TestSentences(t *testing.T) {
	l := Login{Host: "nas", Port: 445, Share: "backup", User: "me", Password: "geheim"}
	login := func(status uint32, err error) error {
		w := newWire(nil, AsOffered, false)
		w.status.Store(status)
		return loginError(context.Background(), l, w, err)
	}
	guest := func(err error) error {
		l := Login{Host: "nas", Share: "backup", User: "guest"}
		return loginError(t.Context(), l, newWire(nil, AsOffered, false), err)
	}
	_, unread := (&Tickets{Cache: "KEYRING:persistent:0"}).file()
	refusing := newWire(nil, AsOffered, false)
	refusing.status.Store(StatusLogonFailure)
	kerberos := loginError(t.Context(), Login{Host: "nas", Tickets: &Tickets{}}, refusing, errors.New("expected status"))
	gone := []error{store.ErrTemporary, store.ErrGone}
	for sentence, c := range map[string]struct {
		err   error
		kinds []error
	}{
		"nas refuses connections on port 445: switch on sharing by SMB there, or correct the port, and run the " +
			"command again": {
			unreachable(t.Context(), l, dialling(os.NewSyscallError("connect", syscall.ECONNREFUSED))), gone,
		},
		"there is no way to nas (no route to host): see whether it is switched on, and this machine on its network, and " +
			"run the command again": {
			unreachableOn(t.Context(), "linux", l, dialling(os.NewSyscallError("connect", syscall.EHOSTUNREACH))), gone,
		},
		"there is no way to nas (no route to host): see whether it is switched on, and this machine on its network, and " +
			"whether tidemark is allowed in System Settings, Privacy & Security, Local Network, and run the command again": {
			unreachableOn(t.Context(), "darwin", l, dialling(os.NewSyscallError("connect", syscall.EHOSTUNREACH))), gone,
		},
		"nas does not answer on port 445: see whether it is switched on, on this network, and not behind a firewall, and " +
			"run the command again": {
			unreachable(t.Context(), l, dialling(context.DeadlineExceeded)), gone,
		},
		`there is no host "nas": correct the name, or write its address instead`: {
			unreachable(t.Context(), l, dialling(&net.DNSError{Err: "no such host", Name: "nas", IsNotFound: true})), gone,
		},
		"the address of nas could not be resolved (server misbehaving): see whether this machine is on the network, or " +
			"write the address instead of the name, and run the command again": {
			unreachable(t.Context(), l, dialling(&net.DNSError{Err: "server misbehaving", Name: "nas", IsTemporary: true})),
			gone,
		},
		"nas cannot be reached on port 445 (permission denied): see whether it is switched on, on this network, and shares " +
			"files by SMB, and run the command again": {
			unreachable(t.Context(), l, dialling(os.NewSyscallError("connect", syscall.EACCES))), gone,
		},
		`the server refused the logon: check the user "me", the password and the domain for nas`: {
			login(StatusLogonFailure, errors.New("expected status")), []error{ErrLogon},
		},
		`the server refused the logon: the password of "me" has expired; set a new one on nas`: {
			login(StatusPasswordExpired, errors.New("expected status")), []error{ErrLogon},
		},
		`the server refused the logon: the account "me" is locked after too many wrong passwords; ` +
			`unlock it on nas, or wait`: {
			login(StatusAccountLockedOut, errors.New("expected status")), []error{ErrLogon},
		},
		`the server refused the logon: the account "me" is disabled or has expired; enable it on nas`: {
			login(StatusAccountDisabled, errors.New("expected status")), []error{ErrLogon},
		},
		`the server refused the logon: the account "me" may not log on now, from here, or without a password; change that ` +
			`on nas`: {
			login(StatusInvalidLogonHours, errors.New("expected status")), []error{ErrLogon},
		},
		`the server refused the logon: if the server demands encryption, let it offer SMB 3; otherwise let "me" log on to ` +
			`nas over the network`: {
			login(0, os.ErrPermission), []error{ErrLogon},
		},
		`the server refused the logon: if the server demands encryption, which guests cannot use, name a user with a ` +
			`password; otherwise let "guest" log on to nas over the network`: {
			guest(os.ErrPermission), []error{ErrLogon},
		},
		"the server lets guest in as a guest only, and guests can neither sign nor encrypt: name a user with a password; " +
			"or, with --smb-sign if-offered and without --smb-encrypt, accept that anybody on the network can change what " +
			"is sent, and each file is read back": {
			guest(ErrLogon), []error{ErrLogon, ErrInsecure},
		},
		`the user "guest" may not use the share "backup" of nas: allow it on the server; where the server demands ` +
			`encryption, name a user with a password, since guests cannot encrypt`: {
			guest(&mountError{os.ErrPermission}), []error{store.ErrDenied},
		},
		"nas seems to speak an older SMB than it does (the negotiation was changed on the way): see what lies between this " +
			"machine and the server, and run the command again; after the server was set to an older SMB in the middle of a " +
			"command, that is enough": {
			login(0, errLowered), gone,
		},
		"the server refused the Kerberos ticket: see whether nas is a member of the realm, takes Kerberos as cifs/nas, " +
			"knows the user, and has the right time; or log on with a password": {
			kerberos, []error{ErrLogon},
		},
		"the KDC does not answer: see whether this machine is on its network, and run the command again": {
			stoppedOr(t.Context(), errStalled), gone,
		},
		"Kerberos tickets of the kind KEYRING: cannot be read: get one in a file: KRB5CCNAME=FILE:/path kinit, and the " +
			"same KRB5CCNAME for tidemark": {
			unread, []error{ErrLogon},
		},
		`the server refused the logon: it would let anybody in: check the user "me", ` +
			`or write smb://guest@... and add --smb-sign if-offered if guests are meant`: {
			login(0, fmt.Errorf("%w: it would let anybody in", ErrLogon)), []error{ErrLogon},
		},
		"the connection is not as secure as required: no cipher: allow SMB 3 and encryption on nas, or do without " +
			"--smb-encrypt": {
			login(0, fmt.Errorf("%w: no cipher", ErrInsecure)), []error{ErrInsecure},
		},
		"the answers of nas are not signed, or were changed on the way: run the command again; if that does not help, let " +
			"the server sign (Samba: server signing = auto), or accept what is neither signed nor encrypted with --smb-sign " +
			"if-offered": {
			login(0, &mountError{&smb2.InvalidResponseError{Message: "packet failed signature verification"}}), gone,
		},
		"nas broke off the logon (the server closed it): see whether it speaks SMB 2 or later on port 445, and run the " +
			"command again": {
			login(0, io.EOF), gone,
		},
		"what listens on port 445 of nas is not an SMB server: correct the port (without one it is 445), or the host": {
			login(0, errForeign), gone,
		},
		"nas takes connections on port 445 and does not answer: see whether its SMB service hangs, whether its disk has to " +
			"start, and whether the port is that of SMB (445), and run the command again": {
			login(0, context.DeadlineExceeded), gone,
		},
		`nas has no share "backup" now: check its name, and whether its disk is connected`: {
			login(0, &mountError{code(StatusBadNetworkName)}), []error{store.ErrGone},
		},
		`the user "me" may not use the share "backup" of nas: allow it on the server; ` +
			`where the server demands encryption, let it offer SMB 3 as well`: {
			login(0, &mountError{os.ErrPermission}), []error{store.ErrDenied},
		},
		`nas did not open the share "backup" (the server closed it): look at the log of the server, and run the ` +
			`command again`: {
			login(0, &mountError{io.EOF}), gone,
		},
	} {
		require.EqualError(t, c.err, sentence)
		for _, kind := range c.kinds {
			require.ErrorIs(t, c.err, kind, sentence)
		}
		require.NotContains(t, sentence, "geheim")
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	require.Equal(t, stop, unreachable(ctx, l, io.EOF), "the end of the run is no fault of the server")
}
