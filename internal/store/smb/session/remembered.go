package session

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// remembered is the newest version of SMB that a server had in an earlier run. The negotiation of 3.1.1 is protected,
// unlike that of older versions, so an attacker can lower the version of the first session of a run unless it is known.
//
// An empty file for each server and version, such as "nas:445-smb-3.1.1", is the record: nothing in it can be damaged,
// and runs at the same time cannot lower it. A folder that cannot be read remembers nothing.
type remembered struct {
	prefix  string // of the path of a file; "": nothing is remembered
	dialect uint32 // 0: nothing
}

// remember reads what is known about the server of a login.
func remember(l Login) remembered {
	if l.Known == "" {
		return remembered{}
	}
	r := remembered{prefix: filepath.Join(l.Known, url.PathEscape(strings.ToLower(l.address()))) + "-smb-"}
	for _, d := range dialects() {
		if info, err := os.Lstat(r.path(d)); err == nil && info.Mode().IsRegular() {
			r.dialect = d
			break
		}
	}
	return r
}

func (r remembered) path(dialect uint32) string { return r.prefix + dialectName(dialect) }

// raise remembers the version of an authenticated session if it is newer. A failure costs the protection of later runs
// and nothing else.
func (r remembered) raise(dialect uint32) {
	if r.prefix == "" || dialect <= r.dialect {
		return
	}
	if err := os.MkdirAll(filepath.Dir(r.prefix), 0o700); err != nil {
		return
	}
	f, err := os.OpenFile(r.path(dialect), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return
	}
	if err == nil {
		_ = f.Close()
	}
	for _, d := range dialects() {
		if d < dialect {
			_ = os.Remove(r.path(d)) // so that one file has to be removed to accept an older version
		}
	}
}

// olderError: the server agreed on an older version than it had in an earlier run.
type olderError struct {
	got, had uint32
	file     string // that remembers it
}

func (e *olderError) Error() string {
	return fmt.Sprintf("the server speaks SMB %s now, and spoke SMB %s before", dialectName(e.got), dialectName(e.had))
}

func (e *olderError) Unwrap() error { return ErrInsecure }
