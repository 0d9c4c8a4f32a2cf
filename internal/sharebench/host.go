package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/store/smb/smbtest"
)

// host stands in for a test, so that the servers of package smbtest can run in a program: what would end a test ends a
// measurement. What it does not have of testing.TB, package smbtest does not use.
type host struct {
	testing.TB
	scratch string
	tidy    []func()
	said    []error
	share   *smbtest.Server
}

// errStopped is what FailNow panics with; guard turns it into an error.
var errStopped = errors.New("cannot go on")

func (*host) Helper() {}

// Name is what package require calls what it ends.
func (*host) Name() string { return "sharebench" }

// Cleanup has f called by close, those that came last first.
func (h *host) Cleanup(f func()) { h.tidy = append(h.tidy, f) }

func (h *host) Errorf(format string, args ...any) {
	h.said = append(h.said, fmt.Errorf(format, args...))
}

func (*host) FailNow() { panic(errStopped) }

func (h *host) Fatal(args ...any) {
	h.said = append(h.said, errors.New(fmt.Sprint(args...)))
	h.FailNow()
}

func (h *host) Fatalf(format string, args ...any) {
	h.Errorf(format, args...)
	h.FailNow()
}

// Skip and Skipf: a measurement that cannot be done is an error here.
func (h *host) Skip(args ...any)                 { h.Fatal(args...) }
func (h *host) Skipf(format string, args ...any) { h.Fatalf(format, args...) }

// guard calls f and returns what f, or package smbtest within it, found wrong.
func (h *host) guard(f func() error) (err error) {
	defer func() {
		switch r := recover(); {
		case r == nil:
		case r == any(errStopped):
			err = errStopped
		default:
			panic(r)
		}
		err = errors.Join(append(h.said, err)...)
		h.said = nil
	}()
	return f()
}

func (h *host) close() error {
	for _, f := range slices.Backward(h.tidy) {
		f()
	}
	return os.RemoveAll(h.scratch)
}

// server starts the one Samba that all measurements use.
func (h *host) server() (*smbtest.Server, error) {
	if h.share != nil {
		return h.share, nil
	}
	folder, err := os.MkdirTemp(h.scratch, "share-")
	if err != nil {
		return nil, err
	}
	h.share = smbtest.Start(h, smbtest.Config{Folder: folder})
	return h.share, nil
}

// open makes a folder on the share and a store in it, spoken to at a port. The store is closed at the end.
func (h *host) open(ctx context.Context, port int, name string, o smb.Options) (*smb.Store, error) {
	o.Credentials = func(context.Context) (smb.Secret, error) { return smb.Secret{Password: smbtest.Password}, nil }
	o.Patience.Request = 2 * time.Minute
	st, err := smb.Create(ctx, smb.Target{
		User: h.share.User, Host: "127.0.0.1", Port: port, Share: smbtest.Share, Path: name,
	}, o)
	if err != nil {
		return nil, err
	}
	h.Cleanup(func() { _ = st.Close() })
	return st, nil
}
