//go:build !linux

package local_test

import "errors"

func setImmutable(string, bool) error { return errors.ErrUnsupported }

func mountSmall(string) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }
