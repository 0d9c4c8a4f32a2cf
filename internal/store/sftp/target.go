package sftp

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Scheme begins all addresses.
const Scheme = "sftp://"

// DefaultPort is that of SSH.
const DefaultPort = 22

// ErrTarget: an address cannot be used.
var ErrTarget = errors.New("invalid address of an SFTP server")

// Target is the address of a repository, without secrets.
type Target struct {
	User string // "": as ssh chooses
	Host string // name, address, or an alias of ssh_config
	Port int    // 0: as ssh chooses
	Path string // absolute, or relative to the home folder of the user; "": the home folder
}

// form is how an address is written.
const form = "write sftp://user@host/path, or sftp://user@host/~/path for a folder below the home folder"

// Parse reads sftp://[user@]host[:port]/path. Errors wrap ErrTarget and never quote the address, which may hold a
// password by mistake.
func Parse(text string) (Target, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Target{}, fmt.Errorf("%w: it does not begin with %s; %s", ErrTarget, Scheme, form)
	}
	host, folder, found := strings.Cut(rest, "/")
	if !found {
		return Target{}, fmt.Errorf("%w: the folder is missing; %s", ErrTarget, form)
	}
	var t Target
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		t.User, host = host[:at], host[at+1:]
		if strings.Contains(t.User, ":") {
			return Target{}, fmt.Errorf("%w: leave out the password; use a key, or let ssh ask for it", ErrTarget)
		}
		if user, err := url.PathUnescape(t.User); err == nil {
			t.User = user
		}
		if !plain(t.User, "@._+\\") {
			return Target{}, fmt.Errorf("%w: the name of the user cannot be passed to ssh; %s", ErrTarget, form)
		}
	}
	if name, port, err := net.SplitHostPort(host); err == nil {
		host = name
		if t.Port, err = strconv.Atoi(port); err != nil || t.Port < 1 || t.Port > 65535 {
			return Target{}, fmt.Errorf("%w: the port is a number from 1 to 65535; %s", ErrTarget, form)
		}
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if !plain(host, "._:%") {
		return Target{}, fmt.Errorf("%w: the name of the host is missing or cannot be passed to ssh; %s", ErrTarget, form)
	}
	t.Host = host
	if strings.ContainsFunc(folder, func(r rune) bool { return r < ' ' }) {
		return Target{}, fmt.Errorf("%w: the folder has a control character; choose another name", ErrTarget)
	}
	below, home := strings.CutPrefix(folder+"/", "~/")
	t.Path = path.Clean("/" + below)
	if home {
		t.Path = t.Path[1:]
	} else if t.Path == "/" {
		return Target{}, fmt.Errorf("%w: the folder is missing; %s", ErrTarget, form)
	}
	return t, nil
}

// plain reports whether ssh and its configuration take a name for nothing but a name.
func plain(name, also string) bool {
	const usual = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
	return name != "" && name[0] != '-' && strings.Trim(name, usual+also) == ""
}

// String returns the address as Parse reads it.
func (t Target) String() string {
	text := Scheme
	if t.User != "" {
		text += url.PathEscape(t.User) + "@"
	}
	switch {
	case t.Port != 0:
		text += net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	case strings.Contains(t.Host, ":"):
		text += "[" + t.Host + "]"
	default:
		text += t.Host
	}
	if !path.IsAbs(t.Path) {
		return text + strings.TrimSuffix("/~/"+t.Path, "/")
	}
	return text + t.Path
}

// Up returns the address of the folder above; false: there is none.
func (t Target) Up() (Target, bool) {
	above := path.Dir(t.Path)
	if above == "." {
		above = ""
	}
	if t.Path == "" || above == "/" {
		return t, false
	}
	t.Path = above
	return t, true
}
