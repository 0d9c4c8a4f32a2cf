//go:build !linux

package scale

import (
	"context"
	"errors"
)

var errNoImages = errors.New("images are made on Linux only; use -image none")

func makeImage(context.Context, string, int) error { return errNoImages }

// mounted is a mounted image; this system has none.
type mounted struct{}

func (*mounted) unmount() error { return nil }

func mountImage(context.Context, string, string) (*mounted, error) { return nil, errNoImages }
