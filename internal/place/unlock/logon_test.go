package unlock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
)

func nas() smb.Target { return smb.Target{Domain: "HOME", User: "me", Host: "nas", Share: "backup"} }

func TestLogonComesFromTheOptions(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for name, one := range map[string]struct {
		share options.Share
		want  smb.Secret
	}{
		"environment": {options.Share{Keys: options.Keys{Password: "geheim"}}, smb.Secret{Password: "geheim"}},
		"file": {options.Share{Keys: options.Keys{PasswordFile: write("pw", "a b%c \r\nmore\n")}},
			smb.Secret{Password: "a b%c "}},
		"command": {options.Share{Keys: options.Keys{PasswordCommand: "echo one; echo two"}}, smb.Secret{Password: "one"}},
		"credentials": {
			options.Share{Credentials: write("cred", "username=you\npassword=pw\ndomain=D\n")},
			smb.Secret{User: "you", Domain: "D", Password: "pw"},
		},
	} {
		got, err := (&Logon{Share: one.share}).Secret(t.Context(), nas())
		require.NoError(t, err, name)
		require.True(t, one.want == got, name) // what require.Equal prints is hidden
	}
	for name, share := range map[string]options.Share{
		"empty file":        {Keys: options.Keys{PasswordFile: write("empty", "\n")}},
		"no file":           {Keys: options.Keys{PasswordFile: filepath.Join(dir, "missing")}},
		"failing command":   {Keys: options.Keys{PasswordCommand: "echo geheim; exit 1"}},
		"bad credentials":   {Credentials: write("bad", "geheim\n")},
		"no credentials":    {Credentials: filepath.Join(dir, "missing")},
		"nothing to ask on": {},
	} {
		_, err := (&Logon{Share: share}).Secret(t.Context(), nas())
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "geheim", name)
	}
	_, err := (&Logon{}).Secret(t.Context(), nas())
	require.ErrorContains(t, err, "no password for the server and no terminal to ask on; give it with --smb-password-file")
	guest, err := (&Logon{}).Secret(t.Context(), smb.Target{User: "Guest", Host: "nas"})
	require.NoError(t, err)
	require.Empty(t, guest.Password)
}

// prompts remembers what was shown.
type prompts struct {
	script
	shown []string
}

func (p *prompts) Ask(ctx context.Context, prompt string) (string, error) {
	p.shown = append(p.shown, prompt)
	return p.script.Ask(ctx, prompt)
}

func TestLogonIsAskedForOnceUntilForgotten(t *testing.T) {
	asker := &prompts{script: script{answers: []string{"wrong", "right"}}}
	l := &Logon{Ask: asker.Ask}
	require.False(t, l.Asked())
	for _, want := range []string{"wrong", "right"} {
		for range 3 {
			s, err := l.Secret(t.Context(), nas())
			require.NoError(t, err)
			require.Equal(t, want, s.Password)
		}
		require.True(t, l.Asked())
		l.Forget()
	}
	require.Equal(t, []string{`Password of HOME\me on the server nas: `, `Password of HOME\me on the server nas: `},
		asker.shown)
	_, err := l.Secret(t.Context(), nas())
	require.ErrorContains(t, err, "asked once more")
	_, err = (&Logon{Ask: failing{}.Ask}).Secret(t.Context(), nas())
	require.ErrorIs(t, err, errNoPrompt)
}

var errNoPrompt = errors.New("no prompt")

type failing struct{}

func (failing) Ask(context.Context, string) (string, error) { return "", errNoPrompt }

// A ticket precedes any password, and there is no prompt.
func TestLogonByTicket(t *testing.T) {
	l := &Logon{Share: options.Share{Kerberos: true, Keys: options.Keys{Password: "geheim"}},
		Tickets: smb.Tickets{Cache: "FILE:/x"}}
	got, err := l.Secret(t.Context(), nas())
	require.NoError(t, err)
	require.Equal(t, "FILE:/x", got.Tickets.Cache)
	require.Empty(t, got.Password)
	require.False(t, l.Asked())
}
