package store

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
)

// FreeSpace is what to do first about a full target.
const FreeSpace = "free some space, with 'tidemark forget --prune' for example"

// Problem is an error in words for a person: what happened, and what to do. Callers find in it the sentinels of this
// package, and what caused it.
type Problem struct {
	What  string  // "nas refuses connections on port 445"
	Cause error   // shown in brackets, as far as it says more; nil: What says all
	Do    string  // "switch on ..., and run the command again"
	Kinds []error // what it is to callers
}

// Error is one sentence.
func (p *Problem) Error() string { return p.brief() + ": " + p.Do }

func (p *Problem) brief() string {
	if cause := shortly(p.Cause); cause != "" {
		return p.What + " (" + cause + ")"
	}
	return p.What
}

// Unwrap returns all that it is.
func (p *Problem) Unwrap() []error {
	if p.Cause == nil {
		return p.Kinds
	}
	return append([]error{p.Cause}, p.Kinds...)
}

// Brief returns what happened without what to do, for those who are told that it is being done already.
func Brief(err error) error {
	var p *Problem
	if errors.As(err, &p) {
		return errors.New(p.brief())
	}
	return err
}

// shortly is the innermost part of an error that people understand: what was called, and on what, is left out.
func shortly(err error) string {
	var inner error
	var path *fs.PathError
	var link *os.LinkError
	var call *os.SyscallError
	var network *net.OpError
	switch {
	case err == nil || err.Error() == "":
		return ""
	case errors.As(err, &network):
		inner = network.Err
	case errors.As(err, &link):
		inner = link.Err
	case errors.As(err, &path):
		inner = path.Err
	case errors.As(err, &call):
		inner = call.Err
	}
	if inner != nil && inner != err { //nolint:errorlint // whether it is this very one
		return shortly(inner)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.Err
	}
	return strings.TrimSuffix(strings.TrimPrefix(err.Error(), "response error: "), ".")
}

// NoSnapshots says that the folder of the snapshots is missing at a location, where there is a repository. An empty one would
// say that there are none, and that what they need may be removed.
func NoSnapshots(location string) error {
	return &Problem{
		What: "the folder of the snapshots is missing at " + location,
		Do: "bring it back; only if the repository never had a snapshot, make an empty folder " + Snapshot.Folder() +
			", which a copy may have left out",
		Kinds: []error{ErrGone},
	}
}
