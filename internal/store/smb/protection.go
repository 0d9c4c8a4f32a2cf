package smb

import "github.com/tidemark-backup/tidemark/internal/store/smb/session"

// Tickets locates the Kerberos tickets of a user.
type Tickets = session.Tickets

// Protection is the protection of requests on the network; see session.Protection.
type Protection = session.Protection

// TCP configures the connections.
type TCP = session.TCP

// The protections.
const (
	Protected = session.Protected
	Signed    = session.Signed
	Encrypted = session.Encrypted
	AsOffered = session.AsOffered
)
