//go:build !linux

package main

import (
	"context"
	"errors"
)

func mountImage(context.Context, string, string, int) (func(), error) {
	return nil, errors.New("images are made on Linux only; use -image none")
}
