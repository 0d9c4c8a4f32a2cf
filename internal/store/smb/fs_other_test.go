//go:build !linux

package smb_test

import "errors"

func mountSmall(_, _ string) error { return errors.ErrUnsupported }

func remount(string, bool, string) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }
