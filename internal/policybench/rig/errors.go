package rig

import "errors"

// ErrNoGates: a tidemark printed nothing about its gates.
var ErrNoGates = errors.New("tidemark told nothing about its gates")
