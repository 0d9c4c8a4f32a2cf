package unlock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// New is the secrets of a repository that is about to be made.
type New struct {
	Secrets []repo.Secret
	pending string // key file of this machine, not yet under its name
	sources *Sources
}

// Create returns the secrets for a new repository: those that the options name; else, if asking is allowed and there is
// a terminal, a passphrase; else a new key file of this machine. Call Keep or Discard afterwards.
func (s *Sources) Create(ctx context.Context, ask bool) (*New, error) {
	n := &New{sources: s}
	if s.Keys.KeyFile != "" {
		secret, err := s.readOrMakeKeyFile(s.Keys.KeyFile)
		if err != nil {
			return nil, err
		}
		n.Secrets = append(n.Secrets, repo.Secret{Method: keyfile.KeyFile, Value: secret})
	}
	text, err := Passphrase(ctx, s.Keys)
	if err != nil {
		return nil, err
	}
	if !s.explicit() && ask && s.Ask != nil {
		text, err = s.AskTwice(ctx, "New passphrase (empty: none, a key file is kept on this machine): ")
		if err != nil {
			return nil, err
		}
		s.typed = text
	}
	if text != "" {
		n.Secrets = append(n.Secrets, secretOf(text))
	}
	if len(n.Secrets) > 0 {
		return n, nil
	}
	if s.Machine == "" {
		return nil, errors.New("this user has no home directory to keep a key file in; give a passphrase or --key-file")
	}
	return n, n.machineKey(s.Machine)
}

// machineKey writes a key file before the repository is made, so that there is no moment at which it could not be
// opened. Its name holds the repository's ID, which is not known yet.
func (n *New) machineKey(dir string) error {
	text, secret := keyfile.NewSecretFile()
	if !n.sources.DryRun {
		if err := n.sources.flush(dir, func() error { return n.writeMachineKey(dir, text) }); err != nil {
			return err
		}
	}
	n.Secrets = append(n.Secrets, repo.Secret{Method: keyfile.KeyFile, Value: secret})
	return nil
}

func (n *New) writeMachineKey(dir string, text []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of key files: %w", err)
	}
	f, err := os.CreateTemp(dir, "new-*.key") // 0600
	if err != nil {
		return fmt.Errorf("make key file: %w", err)
	}
	n.pending = f.Name()
	if err := writeAndClose(f, text); err != nil {
		n.Discard()
		return fmt.Errorf("write key file: %w", err)
	}
	return nil
}

// Keep gives the key file of this machine, if one was made, the name under which it is found again, and returns its
// path.
func (n *New) Keep(id string) (path string, err error) {
	if n.pending == "" {
		return "", nil
	}
	path = n.sources.MachineFile(id)
	err = n.sources.flush(path, func() error {
		if err := os.Rename(n.pending, path); err != nil {
			path = ""
			return fmt.Errorf("name key file: %w; it is the only key but for the recovery key, keep %s", err, n.pending)
		}
		return syncDir(filepath.Dir(path))
	})
	return path, err
}

// Discard removes the key file of a repository that was not made.
func (n *New) Discard() {
	if n.pending != "" {
		_ = os.Remove(n.pending)
	}
}

// readOrMakeKeyFile returns the secret of the key file at path, which is made if it is not there.
func (s *Sources) readOrMakeKeyFile(path string) ([]byte, error) {
	secret, err := ReadKeyFile(path)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return secret, err
	case !s.DryRun:
		return MakeKeyFile(path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("make key file: %w", err)
	}
	_, secret = keyfile.NewSecretFile()
	return secret, nil
}

// MakeKeyFile writes a new key file that only this user can read, and returns its secret.
func MakeKeyFile(path string) ([]byte, error) {
	text, secret := keyfile.NewSecretFile()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make key file: %w", err)
	}
	if err := writeAndClose(f, text); err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("write key file: %w", err)
	}
	return secret, nil
}

func writeAndClose(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		err = pages.Sync(f, false)
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("make key file durable: %w", err)
	}
	defer d.Close()
	if err := pages.Sync(d, true); err != nil {
		return fmt.Errorf("make key file durable: %w", err)
	}
	return nil
}

// Added returns the secret of a key slot that is added: the one the options of the new key name, or one typed at the
// terminal.
func (s *Sources) Added(ctx context.Context) (repo.Secret, error) {
	if s.Keys.KeyFile != "" {
		secret, err := s.readOrMakeKeyFile(s.Keys.KeyFile)
		return repo.Secret{Method: keyfile.KeyFile, Value: secret}, err
	}
	text, err := Passphrase(ctx, s.Keys)
	if err != nil {
		return repo.Secret{}, err
	}
	if text == "" {
		if s.Ask == nil {
			return repo.Secret{}, errors.New("no terminal to ask on; give --new-password-file, --new-password-command " +
				"or --new-key-file")
		}
		if text, err = s.AskTwice(ctx, "New passphrase: "); err != nil {
			return repo.Secret{}, err
		}
	}
	if text == "" {
		return repo.Secret{}, ErrEmpty
	}
	return secretOf(text), nil
}
