//go:build !linux

package local_test

import "errors"

func setImmutable(string, bool) error { return errors.ErrUnsupported }
