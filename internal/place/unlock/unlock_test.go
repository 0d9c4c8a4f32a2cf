package unlock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/hook"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// script answers prompts in turn.
type script struct {
	answers []string
	asked   int
}

func (s *script) Ask(context.Context, string) (string, error) {
	s.asked++
	if s.asked > len(s.answers) {
		return "", errors.New("asked once more than expected")
	}
	return s.answers[s.asked-1], nil
}

func slot(method keyfile.Method) *keyfile.Slot { return &keyfile.Slot{Method: method} }

func open(t *testing.T, s *Sources, id string) func(keyfile.Method) []byte {
	unlock, err := s.Opener(t.Context(), id)
	require.NoError(t, err)
	return func(m keyfile.Method) []byte {
		secret, err := unlock(slot(m))
		require.NoError(t, err)
		return secret
	}
}

func TestAskedOnceForAllSlotsAndOnlyWhenNeeded(t *testing.T) {
	asker := &script{answers: []string{"hello"}}
	s := &Sources{Ask: asker.Ask, Machine: t.TempDir()}
	secret := open(t, s, "id")
	require.Nil(t, secret(keyfile.KeyFile))
	require.False(t, s.Asked())
	require.Nil(t, secret(keyfile.Recovery))
	require.Equal(t, []byte("hello"), secret(keyfile.Passphrase))
	require.Equal(t, []byte("hello"), secret(keyfile.Passphrase))
	require.Equal(t, 1, asker.asked)
	require.True(t, s.Asked())
}

func TestRecoveryKeyIsKnownByItself(t *testing.T) {
	text, want := keyfile.NewRecoveryKey()
	secret := open(t, &Sources{Keys: options.Keys{Password: options.Secret(text)}}, "id")
	require.Equal(t, want, secret(keyfile.Recovery))
	require.Equal(t, []byte(text), secret(keyfile.Passphrase), "it may be the passphrase of another repository")
}

func TestNamedSecretShutsOutOthers(t *testing.T) {
	machine := t.TempDir()
	_, err := MakeKeyFile(filepath.Join(machine, "id.key"))
	require.NoError(t, err)
	asker := &script{}
	secret := open(t, &Sources{Keys: options.Keys{Password: "x"}, Ask: asker.Ask, Machine: machine}, "id")
	require.Nil(t, secret(keyfile.KeyFile))
	require.Equal(t, []byte("x"), secret(keyfile.Passphrase))
	require.Zero(t, asker.asked)
}

func TestNoPromptWithoutASecret(t *testing.T) {
	unlock, err := (&Sources{Machine: t.TempDir()}).Opener(t.Context(), "id")
	require.NoError(t, err)
	_, err = unlock(slot(keyfile.Passphrase))
	require.ErrorIs(t, err, ErrNoSecret)
}

func TestMachineKeyIsFoundAgainAndPrivate(t *testing.T) {
	s := &Sources{Machine: filepath.Join(t.TempDir(), "keys")}
	made, err := s.Create(t.Context(), true)
	require.NoError(t, err)
	require.Len(t, made.Secrets, 1)
	path, err := made.Keep("id")
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Equal(t, made.Secrets[0].Value, open(t, s, "id")(keyfile.KeyFile))
	require.Nil(t, func() []byte {
		unlock, err := s.Opener(t.Context(), "another")
		require.NoError(t, err)
		secret, _ := unlock(slot(keyfile.KeyFile))
		return secret
	}())

	dropped, err := s.Create(t.Context(), true)
	require.NoError(t, err)
	dropped.Discard()
	entries, err := os.ReadDir(s.Machine)
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the first one is left")
}

func TestNewPassphraseIsTypedTwice(t *testing.T) {
	create := func(answers ...string) ([]repo.Secret, error) {
		s := &Sources{Ask: (&script{answers: answers}).Ask, Machine: t.TempDir()}
		made, err := s.Create(t.Context(), true)
		if err != nil {
			return nil, err
		}
		return made.Secrets, nil
	}
	got, err := create("a", "a")
	require.NoError(t, err)
	require.Equal(t, []repo.Secret{{Method: keyfile.Passphrase, Value: []byte("a")}}, got)
	got, err = create("a", "b", "c", "c")
	require.NoError(t, err, "asked again")
	require.Equal(t, []repo.Secret{{Method: keyfile.Passphrase, Value: []byte("c")}}, got)
	_, err = create("a", "b", "a", "b", "a", "b")
	require.ErrorContains(t, err, "the passphrases differ; nothing was changed")
	got, err = create("")
	require.NoError(t, err)
	require.Equal(t, keyfile.KeyFile, got[0].Method, "none wanted: a key file of this machine")
}

func TestPassphrase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p")
	require.NoError(t, os.WriteFile(file, []byte("\ufeff pass word \r\nsecond line"), 0o600))
	for _, k := range []options.Keys{
		{Password: " pass word "}, {PasswordFile: file}, {PasswordCommand: "cat " + file},
	} {
		text, err := Passphrase(t.Context(), k)
		require.NoError(t, err)
		require.Equal(t, " pass word ", text, "%+v", k)
	}
	text, err := Passphrase(t.Context(), options.Keys{})
	require.NoError(t, err)
	require.Empty(t, text)
	_, err = Passphrase(t.Context(), options.Keys{PasswordCommand: "echo"})
	require.ErrorIs(t, err, ErrEmpty)
	_, err = Passphrase(t.Context(), options.Keys{PasswordCommand: "false"})
	require.Error(t, err)
}

func TestKeyFileIsNeverOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	secret, err := MakeKeyFile(path)
	require.NoError(t, err)
	_, err = MakeKeyFile(path)
	require.ErrorIs(t, err, os.ErrExist)
	again, err := (&Sources{}).readOrMakeKeyFile(path)
	require.NoError(t, err)
	require.Equal(t, secret, again)
}

// The command of an option file runs as root only if no other user can change the file or the command.
func TestAPasswordCommandOfRootIsChecked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others run what they like")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	script, file := filepath.Join(dir, "script"), filepath.Join(dir, "opt")
	require.NoError(t, os.WriteFile(script, []byte("echo secret\n"), 0o755))
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	text := func() (string, error) {
		return secretText(t.Context(), options.Keys{PasswordCommand: "sh " + script, CommandFile: file})
	}
	got, err := text()
	require.NoError(t, err)
	require.Equal(t, "secret", got)
	for _, path := range []string{script, file} {
		require.NoError(t, os.Chown(path, 1, 1))
		_, err = text()
		require.ErrorIs(t, err, hook.ErrUnsafe, path)
		require.NoError(t, os.Chown(path, 0, 0))
	}
	require.NoError(t, os.Chown(script, 1, 1))
	got, err = secretText(t.Context(), options.Keys{PasswordCommand: "sh " + script}) // root wrote it in the command line
	require.NoError(t, err)
	require.Equal(t, "secret", got)
}
