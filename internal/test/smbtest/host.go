package smbtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// Host replaces a test, so that a program can run the servers of this package. What would end a test ends Guard. It has
// only the methods of testing.TB that this package uses. The zero value is ready.
type Host struct {
	testing.TB
	tidy []func()
	said []error
}

// Helper does nothing.
func (*Host) Helper() {}

// Name returns a name for messages.
func (*Host) Name() string { return "program" }

// Cleanup registers f for Close, which calls the last one first.
func (h *Host) Cleanup(f func()) { h.tidy = append(h.tidy, f) }

// Errorf makes Guard return an error.
func (h *Host) Errorf(format string, args ...any) {
	h.said = append(h.said, fmt.Errorf(format, args...))
}

// FailNow ends the function that Guard called.
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

// Guard calls f and returns its failures.
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

// Close calls the functions of Cleanup.
func (h *Host) Close() {
	for _, f := range slices.Backward(h.tidy) {
		f()
	}
	h.tidy = nil
}
