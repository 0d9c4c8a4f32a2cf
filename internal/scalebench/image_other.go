//go:build !linux

package main

import (
	"context"
	"errors"
)

var errNoImages = errors.New("images are made on Linux only; use -image none")

func makeImage(context.Context, string, int) error { return errNoImages }

func mountImage(context.Context, string, string) (func(), error) { return nil, errNoImages }
