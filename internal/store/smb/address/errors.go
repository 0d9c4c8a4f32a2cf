package address

import (
	"errors"
	"fmt"
)

var (
	// ErrTarget: not an SMB address. It never quotes the address, which may contain a password.
	ErrTarget = errors.New("not an address of an SMB share")

	// errPassword: the address contains a password.
	errPassword = fmt.Errorf("%w: it holds a password, which others could read in the list of processes; leave it "+
		"out, and give it by --smb-password-file, --smb-password-command or TIDEMARK_SMB_PASSWORD, or at the "+
		"prompt (an @ in the name of a folder is written %%40)", ErrTarget)
)
