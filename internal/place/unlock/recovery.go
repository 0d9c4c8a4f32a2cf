package unlock

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/setup"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// ErrOtherKey: a typed group is not the last one of the recovery key.
var ErrOtherKey = errors.New("this is not the last group of the recovery key; if the key is lost, make a new " +
	"one with 'tidemark key recovery'")

// ErrNotPending: this machine has no recovery key that waits for its confirmation.
var ErrNotPending = errors.New("no unconfirmed recovery key is recorded on this machine: nothing to confirm")

// Pending is the file that records a recovery key that was shown and is not confirmed yet, beside the key files of this
// machine. It holds a digest of the last group, which is the key's checksum. "": nothing is recorded.
type Pending string

// Pending returns the file for a repository.
func (s *Sources) Pending(id string) Pending {
	if s.Machine == "" || id == "" {
		return ""
	}
	return Pending(filepath.Join(s.Machine, id+".unconfirmed"))
}

// Exists reports whether a recovery key waits for its confirmation.
func (p Pending) Exists() bool {
	_, err := os.Lstat(string(p))
	return p != "" && err == nil
}

// Record records a recovery key that is about to be shown. It replaces an earlier record.
func (p Pending) Record(key string) error {
	if p == "" {
		return nil
	}
	digest, err := p.digest(key)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(string(p)), 0o700)
	}
	if err == nil {
		err = os.WriteFile(string(p), []byte(digest+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("record that the recovery key is unconfirmed: %w", err)
	}
	return nil
}

// Confirm compares what a person typed, the last group or the whole key, and removes the record if it is right.
func (p Pending) Confirm(typed string) error {
	want, err := os.ReadFile(string(p))
	if p == "" || errors.Is(err, fs.ErrNotExist) {
		return ErrNotPending
	}
	if err != nil {
		return fmt.Errorf("confirm the recovery key: %w", err)
	}
	digest, err := p.digest(typed)
	if err != nil {
		return err
	}
	if digest != strings.TrimSpace(string(want)) {
		return ErrOtherKey
	}
	return p.Remove()
}

// Remove removes the record.
func (p Pending) Remove() error {
	if err := os.Remove(string(p)); p != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("confirm the recovery key: %w", err)
	}
	return nil
}

// digest returns the digest of the last group, for this repository.
func (p Pending) digest(key string) (string, error) {
	group, err := keyfile.LastGroup(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(filepath.Base(string(p)) + " " + group))
	return hex.EncodeToString(sum[:]), nil
}

// Unnamed returns the key files of this machine whose repository is not known: a run ended while it created one. It
// returns none if the key file of the repository id exists, or if the options name a secret.
func (s *Sources) Unnamed(id string) []string {
	if s.Machine == "" || s.explicit() {
		return nil
	}
	if _, err := os.Lstat(s.MachineFile(id)); err == nil {
		return nil
	}
	all, _ := filepath.Glob(filepath.Join(setup.EscapeGlob(s.Machine), "new-*.key")) // the pattern is valid
	return all
}

// Name gives such a key file the name under which it is found for a repository.
func (s *Sources) Name(path, id string) error {
	_, err := (&New{sources: s, pending: path}).Keep(id)
	return err
}
