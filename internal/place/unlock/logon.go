package unlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
)

// Logon finds the password for the server of a share: the one that the options name, or what a person types. It is
// found once and then kept, for those who connect several times. It is for one goroutine.
type Logon struct {
	Share   options.Share
	Tickets smb.Tickets // where they are, if Share says that they count
	// Ask is as in Sources.
	Ask func(ctx context.Context, prompt string) (string, error)

	found *smb.Secret
	asked bool // a person was asked
}

// Asked reports whether a person was asked, and so may have mistyped.
func (l *Logon) Asked() bool { return l.asked }

// Forget makes the next Secret find the password again.
func (l *Logon) Forget() { l.found = nil }

// Secret returns the user and the password for the server of t. A guest has no password unless the options name one.
func (l *Logon) Secret(ctx context.Context, t smb.Target) (smb.Secret, error) {
	if l.found != nil {
		return *l.found, nil
	}
	s, err := l.find(ctx, t)
	if err != nil {
		return smb.Secret{}, err
	}
	l.found = &s
	return s, nil
}

func (l *Logon) find(ctx context.Context, t smb.Target) (smb.Secret, error) {
	if l.Share.Kerberos {
		return smb.Secret{Tickets: &l.Tickets}, nil
	}
	if l.Share.Credentials != "" {
		return readCredentials(l.Share.Credentials)
	}
	text, err := secretText(ctx, l.Share.Keys)
	if errors.Is(err, ErrEmpty) {
		return smb.Secret{}, errors.New("the password for the server is empty; look at --smb-password-file and " +
			"--smb-password-command")
	}
	switch {
	case err != nil:
		return smb.Secret{}, fmt.Errorf("read password: %w", err)
	case text != "":
		return smb.Secret{Password: text}, nil
	case strings.EqualFold(t.User, "guest"):
		return smb.Secret{}, nil
	case l.Ask == nil:
		return smb.Secret{}, errors.New("no password for the server and no terminal to ask on; give it with " +
			"--smb-password-file, --smb-password-command, --smb-credentials or TIDEMARK_SMB_PASSWORD")
	}
	l.asked = true
	who := t.User
	if t.Domain != "" {
		who = t.Domain + `\` + t.User
	}
	text, err = l.Ask(ctx, fmt.Sprintf("Password of %s on the server %s: ", who, t.Host))
	return smb.Secret{Password: text}, err
}

// readCredentials reads a credentials file. Its errors name the file and nothing of what is in it.
func readCredentials(path string) (smb.Secret, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return smb.Secret{}, fmt.Errorf("read credentials: %w", err)
	}
	s, err := smb.ParseCredentials(bytes.NewReader(text))
	if err != nil {
		return smb.Secret{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
