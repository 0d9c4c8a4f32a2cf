//go:build !linux

package localfs

import "errors"

func supportsDirect(int) bool { return false }

func isInvalid(error) bool { return false }

func setDirectFlag(int, bool) error { return errors.ErrUnsupported }

func allocPages() []byte { return nil }

func freePages([]byte) error { return nil }
