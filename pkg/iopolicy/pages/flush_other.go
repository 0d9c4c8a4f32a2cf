//go:build !darwin

package pages

import (
	"os"

	"golang.org/x/sys/unix"
)

// Flush makes the open file or folder fd durable, and returns what it promises.
func Flush(fd int, folder bool) (Promise, error) {
	err := uninterrupted(func() error { return unix.Fsync(fd) })
	if folder && lacking(err) {
		return Nothing, nil
	}
	return Durable, err
}

// Sync makes a file or folder durable.
func Sync(f *os.File, folder bool) error {
	err := f.Sync()
	if folder && lacking(err) {
		return nil
	}
	return err
}
