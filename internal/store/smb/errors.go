package smb

import (
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

var (
	// ErrTarget: not an SMB address. It never holds the address itself, in which a password may stand.
	ErrTarget = errors.New("not an address of an SMB share")
	// ErrLogon: the server does not accept the user or the password.
	ErrLogon = session.ErrLogon
	// ErrInsecure: the server does not offer what was required of it: encryption or signatures.
	ErrInsecure = session.ErrInsecure
	// ErrTorn: a file on the server is not what was sent, again and again.
	ErrTorn = errors.New("the server does not keep what it is sent")

	// errPassword: somebody wrote a password into an address.
	errPassword = fmt.Errorf("%w: it holds a password, which others could read in the list of processes; leave it "+
		"out, and give it by --smb-password-file, --smb-password-command or TIDEMARK_SMB_PASSWORD, or at the prompt (an @ in "+
		"the name of a folder is written %%40)", ErrTarget)
	// errHeld: somebody has the file open that is to be replaced.
	errHeld = errors.New("the file that is to be replaced is open")
	// errStop: whoever listed has seen enough.
	errStop = errors.New("enough")
)
