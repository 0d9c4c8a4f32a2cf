package s3

import (
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
)

// Scheme begins all addresses.
const Scheme = "s3://"

// amazon is the endpoint of addresses without one.
const amazon = "s3.amazonaws.com"

// ErrTarget: an address cannot be used.
var ErrTarget = errors.New("invalid address of a bucket")

// Target is the address of a repository, without secrets.
type Target struct {
	Endpoint string // host or host:port
	Bucket   string
	Prefix   string // of all keys, without slashes at its ends; "": none
}

// directoryBucket is the end of the names of Amazon's directory buckets (S3 Express One Zone). A list of several
// folders relies on the order of keys, which these do not have.
const directoryBucket = "--x-s3"

// Parse reads s3://[endpoint/]bucket/prefix. The first name is an endpoint if it has a dot or a colon, or is localhost.
// Errors wrap ErrTarget and never quote the address, which may hold a key by mistake.
func Parse(text string) (Target, error) {
	const form = "write s3://bucket/prefix or s3://host[:port]/bucket/prefix"
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Target{}, fmt.Errorf("%w: it does not begin with %s; %s", ErrTarget, Scheme, form)
	}
	if strings.ContainsAny(rest, "@?#") {
		return Target{}, fmt.Errorf("%w: %s; keys are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from the "+
			"file of --s3-credentials", ErrTarget, form)
	}
	names := strings.FieldsFunc(rest, func(r rune) bool { return r == '/' })
	t := Target{Endpoint: amazon}
	if len(names) > 0 && (strings.ContainsAny(names[0], ".:") || names[0] == "localhost") {
		t.Endpoint, names = names[0], names[1:]
		if host, port, err := net.SplitHostPort(t.Endpoint); strings.Contains(t.Endpoint, ":") &&
			(err != nil || host == "" || strings.Trim(port, "0123456789") != "") {
			return Target{}, fmt.Errorf("%w: %s", ErrTarget, form)
		}
	}
	if len(names) == 0 {
		return Target{}, fmt.Errorf("%w: the name of the bucket is missing; %s", ErrTarget, form)
	}
	if b := names[0]; len(b) < 3 || len(b) > 63 || strings.Trim(b, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return Target{}, fmt.Errorf("%w: the name of a bucket has 3 to 63 lower-case letters, digits, dots and hyphens",
			ErrTarget)
	}
	if strings.HasSuffix(names[0], directoryBucket) {
		return Target{}, fmt.Errorf("%w: %s is a directory bucket, which lists its objects in no order; choose a general "+
			"purpose bucket", ErrTarget, names[0])
	}
	for _, name := range names[1:] {
		if name == "." || name == ".." || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\\' }) {
			return Target{}, fmt.Errorf("%w: %q cannot be part of a key; choose another name", ErrTarget, name)
		}
	}
	t.Bucket, t.Prefix = names[0], strings.Join(names[1:], "/")
	return t, nil
}

// String returns the address as Parse reads it.
func (t Target) String() string {
	text := Scheme
	if t.Endpoint != amazon || strings.Contains(t.Bucket, ".") {
		text += t.Endpoint + "/"
	}
	return text + path.Join(t.Bucket, t.Prefix)
}

// Host returns the name of the server, without a port.
func (t Target) Host() string {
	if host, _, err := net.SplitHostPort(t.Endpoint); err == nil {
		return host
	}
	return t.Endpoint
}

// key returns the key of a path below the prefix.
func (t Target) key(below string) string {
	if t.Prefix == "" {
		return below
	}
	return t.Prefix + "/" + below
}
