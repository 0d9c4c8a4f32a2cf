package address

import (
	"errors"
	"fmt"
)

var (
	// ErrTarget: not an SMB address. It never holds the address itself, in which a password may stand.
	ErrTarget = errors.New("not an address of an SMB share")

	// errPassword: somebody wrote a password into an address.
	errPassword = fmt.Errorf("%w: it holds a password, which others could read in the list of processes; leave it "+
		"out, and give it by --smb-password-file, --smb-password-command or TIDEMARK_SMB_PASSWORD, or at the prompt (an @ in "+
		"the name of a folder is written %%40)", ErrTarget)
)
