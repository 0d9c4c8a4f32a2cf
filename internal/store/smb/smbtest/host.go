package smbtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Host stands in for a test, so that the servers of this package can run in a program: what would end a test ends Guard.
// What it does not have of testing.TB, this package does not use. Its zero value is ready.
type Host struct {
	testing.TB
	tidy []func()
	said []error
}

// Helper does nothing.
func (*Host) Helper() {}

// Name is what package require calls what it ends.
func (*Host) Name() string { return "program" }

// Cleanup has f called by Close, those that came last first.
func (h *Host) Cleanup(f func()) { h.tidy = append(h.tidy, f) }

// Errorf has Guard return an error.
func (h *Host) Errorf(format string, args ...any) {
	h.said = append(h.said, fmt.Errorf(format, args...))
}

// FailNow ends what Guard has called.
func (*Host) FailNow() { panic(ErrStopped) }

// Fatal is Errorf and FailNow.
func (h *Host) Fatal(args ...any) {
	h.said = append(h.said, errors.New(fmt.Sprint(args...)))
	h.FailNow()
}

// Fatalf is Errorf and FailNow.
func (h *Host) Fatalf(format string, args ...any) {
	h.Errorf(format, args...)
	h.FailNow()
}

// Skip is Fatal: a measurement that cannot be done is an error.
func (h *Host) Skip(args ...any) { h.Fatal(args...) }

// Skipf is Fatalf.
func (h *Host) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

// Guard calls f and returns what f, or this package within it, found wrong.
func (h *Host) Guard(f func() error) (err error) {
	defer func() {
		switch r := recover(); {
		case r == nil:
		case r == any(ErrStopped):
			err = ErrStopped
		default:
			panic(r)
		}
		err = errors.Join(append(h.said, err)...)
		h.said = nil
	}()
	return f()
}

// Close undoes what was begun.
func (h *Host) Close() {
	for _, f := range slices.Backward(h.tidy) {
		f()
	}
	h.tidy = nil
}
