//go:build !linux

package main

import (
	"io/fs"
	"path/filepath"
)

// walk counts the objects below a directory, itself included.
func walk(root string) (objects uint64, err error) {
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			_, err = d.Info()
			objects++
		}
		return err
	})
	return objects, err
}
