package smb

import (
	"errors"

	"github.com/tidemark-backup/tidemark/internal/store/smb/address"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

var (
	// ErrTarget: not an SMB address. It never holds the address itself, in which a password may stand.
	ErrTarget = address.ErrTarget
	// ErrLogon: the server does not accept the user or the password.
	ErrLogon = session.ErrLogon
	// ErrInsecure: the server does not offer what was required of it: encryption or signatures.
	ErrInsecure = session.ErrInsecure
	// ErrTorn: a file on the server is not what was sent, again and again.
	ErrTorn = errors.New("the server does not keep what it is sent")

	// errReplaced: there is a repository where ours was.
	errReplaced = errors.New("another repository, or a copy, has taken its place")
	// errHeld: somebody has the file open that is to be replaced.
	errHeld = errors.New("the file that is to be replaced is open")
	// errStop: whoever listed has seen enough.
	errStop = errors.New("enough")
)
