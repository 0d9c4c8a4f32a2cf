package smb

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Scheme begins the addresses of this store.
const Scheme = "smb://"

// DefaultPort is that of SMB over TCP.
const DefaultPort = 445

// Target is the address of a repository, without secrets.
type Target struct {
	Domain string // of the user; "": the server's own users
	User   string // "": that of the Secret
	Host   string // name or address
	Port   int
	Share  string
	Path   string // below the share, with slashes between names; "": the root of the share
}

// Parse reads smb://[DOMAIN;]user@host[:port]/share/path. An address with a password is an error: it would be visible
// in the list of processes and in the history of the shell. Errors wrap ErrTarget and never quote the address.
func Parse(text string) (Target, error) {
	const form = "write smb://[DOMAIN;]user@host[:port]/share/path"
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Target{}, fmt.Errorf("%w: it does not begin with %s; %s", ErrTarget, Scheme, form)
	}
	if holdsPassword(rest) {
		return Target{}, errPassword
	}
	u, err := url.Parse(text) // its error quotes the address and is not passed on
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return Target{}, fmt.Errorf("%w: %s; other characters than letters, digits, -._~ as %%XX", ErrTarget, form)
	}
	if strings.ContainsAny(u.User.Username(), ":%") {
		return Target{}, errPassword
	}
	t := Target{User: u.User.Username(), Host: u.Hostname(), Port: DefaultPort}
	if domain, user, ok := strings.Cut(t.User, ";"); ok {
		t.Domain, t.User = domain, user
	}
	if p := u.Port(); p != "" {
		if t.Port, err = strconv.Atoi(p); err != nil || t.Port < 1 || t.Port > 65535 {
			return Target{}, fmt.Errorf("%w: a port is a number from 1 to 65535", ErrTarget)
		}
	}
	names := strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' })
	if len(names) == 0 {
		return Target{}, fmt.Errorf("%w: the name of the share is missing; %s", ErrTarget, form)
	}
	for _, name := range names {
		if err := checkName(name); err != nil {
			return Target{}, err
		}
	}
	t.Share, t.Path = names[0], strings.Join(names[1:], "/")
	if strings.EqualFold(t.Share, "IPC$") {
		return Target{}, fmt.Errorf("%w: the share IPC$ of a server holds no files; name another one", ErrTarget)
	}
	return t, nil
}

// holdsPassword reports whether the part after the scheme may contain a password: a user with a colon, or an @ where a
// valid address has none. A password with a slash in it looks like a host with a port; of two @, the first may be a
// typo for a colon.
func holdsPassword(rest string) bool {
	authority, _, _ := strings.Cut(rest, "/")
	last := strings.LastIndexByte(rest, '@')
	return last >= 0 && (strings.Contains(rest[:last], ":") || strings.Count(rest, "@") > 1 ||
		!strings.Contains(authority, "@"))
}

// checkName rejects names that no server accepts for a folder, or that mean another folder.
func checkName(name string) error {
	switch {
	case name == "." || name == "..":
		return fmt.Errorf("%w: %q is no name of a folder", ErrTarget, name)
	case strings.ContainsAny(name, `\:*?"<>|`) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
		return fmt.Errorf("%w: %q holds a character that SMB servers do not take; choose another folder", ErrTarget, name)
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return fmt.Errorf("%w: %q ends in a dot or a space, which some servers drop; choose another folder", ErrTarget, name)
	}
	return nil
}

// String returns the address as Parse reads it.
func (t Target) String() string {
	u := url.URL{Scheme: "smb", Host: t.Host, Path: "/" + t.Share}
	if strings.Contains(t.Host, ":") {
		u.Host = "[" + t.Host + "]"
	}
	if t.Port != DefaultPort && t.Port != 0 {
		u.Host = net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	}
	if t.Path != "" {
		u.Path += "/" + t.Path
	}
	switch {
	case t.Domain != "":
		u.User = url.User(t.Domain + ";" + t.User)
	case t.User != "":
		u.User = url.User(t.User)
	}
	u.RawPath = strings.ReplaceAll(u.EscapedPath(), "@", "%40") // so that no @ stands behind that of the user
	return u.String()
}
