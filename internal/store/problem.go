package store

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"unicode"
)

// FreeSpace returns what to do first about a full target. The command names the repository: another one may be the
// default. The word REPOSITORY stands for a location that would need quotes.
func FreeSpace(location string) string {
	odd := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`'"$&;()<>|*?\`, r) }
	if strings.ContainsFunc(location, odd) {
		location = "REPOSITORY"
	}
	return "free some space, with 'tidemark forget --repo " + location +
		" --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --prune' for example"
}

// RunAgain is what a person does who has done what a Problem says. The service says instead that it tries again.
const RunAgain = "run the command again"

// Problem is an error for users: what happened, and what to do. It wraps sentinels of this package and the cause.
type Problem struct {
	What  string  // "nas refuses connections on port 445"
	Cause error   // shown in brackets if it adds something; nil: none
	Do    string  // "switch on ..., and run the command again"
	Kinds []error // sentinels, and a cause that What contains already
}

// Error returns one sentence.
func (p *Problem) Error() string { return p.brief() + ": " + p.Do }

func (p *Problem) brief() string {
	if cause := shortly(p.Cause); cause != "" {
		return p.What + " (" + cause + ")"
	}
	return p.What
}

// Unwrap returns the cause and the kinds.
func (p *Problem) Unwrap() []error {
	if p.Cause == nil {
		return p.Kinds
	}
	return append([]error{p.Cause}, p.Kinds...)
}

// Brief returns what happened without what to do, for messages about an automatic retry.
func Brief(err error) error {
	var p *Problem
	if errors.As(err, &p) {
		return errors.New(p.brief())
	}
	return err
}

// shortly returns the innermost text of an error, without operations and paths.
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
	text, status := strings.CutPrefix(err.Error(), "response error: ")
	if status {
		text = filled(text)
	}
	return strings.TrimSuffix(text, ".")
}

// filled returns the title of a server's status in lower case, or its text if it has none. "{Device Timeout} The
// operation on %hs was not completed." has names for the server to fill in, which it never does.
func filled(text string) string {
	title, _, titled := strings.Cut(strings.TrimPrefix(text, "{"), "} ")
	switch {
	case titled && text[0] == '{':
		return strings.ToLower(title)
	case strings.Contains(text, "%"):
		return ""
	}
	return text
}

// NoSnapshots is the error for a repository without its folder of snapshots. Treating it as empty would let a prune
// remove all data.
func NoSnapshots(location string) error {
	return &Problem{
		What: "the folder of the snapshots is missing at " + location,
		Do: "bring it back; only if the repository never had a snapshot, make an empty folder " + Snapshot.Folder() +
			", which a copy may have left out",
		Kinds: []error{ErrGone},
	}
}
