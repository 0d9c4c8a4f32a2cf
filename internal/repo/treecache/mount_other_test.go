//go:build !linux

package treecache

import "errors"

func mountSmall(string, string) error {
	return errors.New("no file system in memory that a test can mount")
}
