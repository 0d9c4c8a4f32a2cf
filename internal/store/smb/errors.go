package smb

import (
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

var (
	// ErrTarget: not an SMB address. It never quotes the address, which may contain a password.
	ErrTarget = errors.New("not an address of an SMB share")
	// ErrLogon: the server does not accept the user or the password.
	ErrLogon = session.ErrLogon
	// ErrInsecure: the server does not offer the required encryption or signatures.
	ErrInsecure = session.ErrInsecure
	// ErrTorn: a file on the server is not what was sent, after several attempts.
	ErrTorn = errors.New("the server does not keep what it is sent")

	// errPassword: the address contains a password.
	errPassword = fmt.Errorf("%w: it holds a password, which others could read in the list of processes; leave it "+
		"out, and give it by --smb-password-file, --smb-password-command or TIDEMARK_SMB_PASSWORD, or at the "+
		"prompt (an @ in the name of a folder is written %%40)", ErrTarget)
	// errReplaced: another repository lies in the folder.
	errReplaced = errors.New("another repository, or a copy, has taken its place")
	// errRemoved stands for the server's status, whose text mentions no removal.
	errRemoved = errors.New("another program is removing it")
)
