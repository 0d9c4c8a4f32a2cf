package smb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Secret holds the credentials of a user. It is masked when it is printed or marshalled.
type Secret struct {
	User     string // "": that of the Target
	Domain   string // "": that of the Target
	Password string
	Tickets  *Tickets // log on by Kerberos instead; nil: by the password
}

// redacted replaces a Secret in output.
const redacted = "(secret)"

// String hides the secret.
func (Secret) String() string { return redacted }

// GoString hides the secret.
func (Secret) GoString() string { return redacted }

// MarshalText hides the secret, in JSON as well.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// ParseCredentials reads a credentials file in the form of mount.cifs: lines "username=", "password=" and "domain=",
// "user=", "pass=" and "dom=" for short, "username=DOMAIN\user" and "username=user%password" as well. What follows the
// sign is taken literally. Lines of another form are an error with their number and without their content.
func ParseCredentials(r io.Reader) (Secret, error) {
	var s Secret
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		trimmed := strings.TrimLeft(line, " \t")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(trimmed, "=")
		if !ok {
			return Secret{}, fmt.Errorf("line %d of the credentials is not of the form name=value", n)
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "username", "user":
			s.setUser(value)
		case "password", "pass":
			s.Password = value
		case "domain", "dom", "workgroup":
			s.Domain = value
		default:
			return Secret{}, fmt.Errorf("line %d of the credentials sets none of username, password, domain", n)
		}
	}
	if lines.Err() != nil {
		return Secret{}, errors.New("the credentials cannot be read: a line is too long, or reading failed")
	}
	return s, nil
}

func (s *Secret) setUser(value string) {
	if user, password, ok := strings.Cut(value, "%"); ok {
		value, s.Password = user, password
	}
	if domain, user, ok := strings.Cut(value, `\`); ok {
		value, s.Domain = user, domain
	}
	s.User = value
}
