package smb

import (
	"errors"

	"github.com/tidemark-backup/tidemark/internal/store/smb/address"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

var (
	// ErrTarget: not an SMB address. It never quotes the address, which may contain a password.
	ErrTarget = address.ErrTarget
	// ErrLogon: the server does not accept the user or the password.
	ErrLogon = session.ErrLogon
	// ErrInsecure: the server does not offer the required encryption or signatures.
	ErrInsecure = session.ErrInsecure
	// ErrTorn: a file on the server is not what was sent, after several attempts.
	ErrTorn = errors.New("the server does not keep what it is sent")

	// errReplaced: another repository lies in the folder.
	errReplaced = errors.New("another repository, or a copy, has taken its place")
	// errRemoved stands for the server's status, whose text mentions no removal.
	errRemoved = errors.New("another program is removing it")
	// errStop: the consumer of a list stopped.
	errStop = errors.New("enough")
)
