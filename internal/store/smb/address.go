package smb

import (
	"io"

	"github.com/tidemark-backup/tidemark/internal/store/smb/address"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

// Scheme begins the addresses of this store.
const Scheme = address.Scheme

// Target is the address of a repository, without secrets.
type Target = address.Target

// Secret holds the credentials of a user.
type Secret = address.Secret

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

// Parse reads an address; see address.Parse.
func Parse(text string) (Target, error) { return address.Parse(text) }

// ParseCredentials reads a credentials file; see address.ParseCredentials.
func ParseCredentials(r io.Reader) (Secret, error) { return address.ParseCredentials(r) }
