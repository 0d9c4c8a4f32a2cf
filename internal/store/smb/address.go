package smb

import (
	"io"

	"github.com/tidemark-backup/tidemark/internal/store/smb/address"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

// Scheme begins the addresses of this store.
const Scheme = address.Scheme

// Target says where a repository is, without any secret.
type Target = address.Target

// Secret is what proves who the user is.
type Secret = address.Secret

// Tickets say where the Kerberos tickets of a user are.
type Tickets = session.Tickets

// Parse reads an address; see address.Parse.
func Parse(text string) (Target, error) { return address.Parse(text) }

// ParseCredentials reads a credentials file; see address.ParseCredentials.
func ParseCredentials(r io.Reader) (Secret, error) { return address.ParseCredentials(r) }
