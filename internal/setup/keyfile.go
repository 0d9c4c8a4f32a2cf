package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
)

// KeyFile is an empty file for a recovery key.
type KeyFile struct {
	file *os.File
	made bool // by Reserve
}

// Reserve makes the file, or opens an empty one; nil for "". A file with content is never overwritten.
func Reserve(path string) (*KeyFile, error) {
	if path == "" {
		return nil, nil
	}
	k := &KeyFile{made: true}
	err := optionfile.Regular(path)
	if err == nil {
		k.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		k.made = false
		// A pipe that has replaced the file since does not block.
		k.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("make the file for the recovery key: %w", err)
	}
	info, err := k.file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = optionfile.ErrNotRegular
	case info.Size() > 0:
		err = errors.New("it exists and is not empty: name another file")
	default:
		err = k.file.Chmod(0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("make the file %s for the recovery key: %w", path, errors.Join(err, k.file.Close()))
	}
	return k, nil
}

// Write writes the key, flushes it and closes the file.
func (k *KeyFile) Write(key string) error {
	if err := optionfile.Finish(k.file, []byte(key+"\n")); err != nil {
		return fmt.Errorf("write the recovery key to %s: %w", k.file.Name(), err)
	}
	return nil
}

// Discard removes the file if Reserve has made it and no key was written to it.
func (k *KeyFile) Discard() {
	if k == nil {
		return
	}
	_ = k.file.Close() // nothing was written, or Write has closed it
	if info, err := os.Stat(k.file.Name()); k.made && err == nil && info.Size() == 0 {
		_ = os.Remove(k.file.Name())
	}
}
