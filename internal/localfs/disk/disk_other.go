//go:build !linux

package disk

import "errors"

// direct: no file system is known to.
func direct(int) bool { return false }

func invalid(error) bool { return false }

// Direct returns an error: elsewhere there are other ways past the page cache.
func Direct(int, bool) error { return errors.ErrUnsupported }

func get() []byte { return nil }

func release([]byte) error { return nil }
