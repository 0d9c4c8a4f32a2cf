// Package webdav serves a tree of package view to file managers and to systems without FUSE.
//
// WebDAV has folders and files only. The links of the view (latest, hosts, tags) are followed; links, devices, pipes
// and sockets of the snapshots are left out.
package webdav

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/net/webdav"

	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// User is the name that goes with the password.
const User = "tidemark"

// Handler serves root to those who give User and the password. failed receives what could not be read.
func Handler(root view.Entry, load tree.Load, password string, failed func(path string, err error)) http.Handler {
	dav := &webdav.Handler{
		FileSystem: &files{root: root, load: view.Recent(load), failed: failed}, LockSystem: webdav.NewMemLS(),
	}
	want := sha256.Sum256([]byte(User + "\x00" + password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, given, _ := r.BasicAuth()
		got := sha256.Sum256([]byte(name + "\x00" + given))
		switch {
		case subtle.ConstantTimeCompare(want[:], got[:]) == 0:
			w.Header().Set("WWW-Authenticate", `Basic realm="tidemark"`)
			http.Error(w, "give the name and the password that tidemark printed", http.StatusUnauthorized)
		case r.Method == "PROPFIND" && r.Header.Get("Depth") != "0" && r.Header.Get("Depth") != "1":
			http.Error(w, "list one folder at a time: Depth 0 or 1", http.StatusForbidden)
		case r.Method == "PROPFIND", r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
			dav.ServeHTTP(w, r)
		default:
			http.Error(w, "snapshots do not change", http.StatusMethodNotAllowed)
		}
	})
}

// files implements webdav.FileSystem.
type files struct {
	root   view.Entry
	load   tree.Load
	failed func(string, error)
}

func (f *files) Mkdir(context.Context, string, os.FileMode) error { return fs.ErrPermission }
func (f *files) RemoveAll(context.Context, string) error          { return fs.ErrPermission }
func (f *files) Rename(context.Context, string, string) error     { return fs.ErrPermission }
func (f *files) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	e, err := f.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return info{e}, nil
}

// find resolves a path, also through the links of the view.
func (f *files) find(ctx context.Context, name string) (view.Entry, error) {
	e, at := f.root, ""
	for part := range strings.SplitSeq(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if part == "" {
			break
		}
		if e.Folder == nil {
			return e, f.failure(name, view.ErrAbsent)
		}
		below, err := e.Folder.Find(ctx, part)
		if err == nil && below.Node.Type == tree.Symlink && below.Moves {
			below, err = f.find(ctx, path.Join(at, below.Node.Target))
		}
		if err == nil && !shown(below) {
			err = view.ErrAbsent
		}
		if err != nil {
			return e, f.failure(path.Join("/", at, part), err)
		}
		e, at = below, path.Join(at, part)
	}
	return e, nil
}

func (f *files) failure(name string, err error) error {
	switch {
	case errors.Is(err, view.ErrAbsent):
		return fs.ErrNotExist // the library answers 404
	case !view.Interrupted(err):
		f.failed(name, err)
	}
	return fmt.Errorf("%s: %w", name, err) // not fs.ErrNotExist itself, which may be in it
}

// shown reports whether WebDAV has a form for an object.
func shown(e view.Entry) bool {
	return e.Node.Type == tree.Dir || e.Node.Type == tree.File || e.Node.Type == tree.Symlink && e.Moves
}

func (f *files) OpenFile(ctx context.Context, name string, flag int, _ os.FileMode) (webdav.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC) != 0 {
		return nil, fs.ErrPermission
	}
	e, err := f.find(ctx, name)
	if err != nil {
		return nil, err
	}
	open := &file{of: f, ctx: ctx, name: name, entry: e}
	open.SectionReader = io.NewSectionReader(open, 0, 0)
	if e.Folder == nil {
		open.SectionReader = io.NewSectionReader(open, 0, int64(e.Node.Size))
		if open.content, err = view.NewFile(f.load, e.Node); err != nil {
			return nil, f.failure(name, err)
		}
	}
	return open, nil
}

// file implements webdav.File.
type file struct {
	*io.SectionReader // of the content; empty for a folder

	of      *files
	ctx     context.Context // of the request
	name    string
	entry   view.Entry
	content *view.File // nil: a folder
	next    uint64     // number of the next entry of a folder
}

func (f *file) Write([]byte) (int, error)  { return 0, fs.ErrPermission }
func (f *file) Stat() (fs.FileInfo, error) { return info{f.entry}, nil }
func (f *file) Close() error {
	if f.content != nil {
		f.content.Close()
	}
	return nil
}

// ReadAt is what the SectionReader reads by.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.content.ReadAt(f.ctx, p, uint64(off))
	if err != nil && !errors.Is(err, io.EOF) {
		err = f.of.failure(f.name, err)
	}
	return n, err
}

// Readdir returns the next entries, all of them if count is not positive.
func (f *file) Readdir(count int) (all []fs.FileInfo, err error) {
	if f.entry.Folder == nil {
		return nil, fs.ErrInvalid
	}
	err = f.entry.Folder.List(f.ctx, f.next, func(e view.Entry) bool {
		f.next = e.Number + 1
		if !shown(e) {
			return true
		}
		if e.Node.Type == tree.Symlink {
			to, err := f.of.find(f.ctx, path.Join(f.name, e.Node.Target))
			if err != nil {
				return true // it has gone since
			}
			named := *to.Node
			named.Name = e.Node.Name
			to.Node = &named
			e = to
		}
		all = append(all, info{e})
		return count <= 0 || len(all) < count
	})
	if err == nil && count > 0 && len(all) == 0 {
		err = io.EOF
	}
	return all, err
}

// info implements fs.FileInfo, webdav.ETager and webdav.ContentTyper.
type info struct{ e view.Entry }

func (i info) Name() string { return i.e.Node.Name }
func (i info) Size() int64  { return int64(i.e.Node.Size) }
func (i info) IsDir() bool  { return i.e.Folder != nil }
func (i info) Sys() any     { return nil }
func (i info) ModTime() time.Time {
	return i.e.Node.ModTime.Std()
}
func (i info) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// ETag is made of what identifies the content, so that a client keeps what it has read.
func (i info) ETag(context.Context) (string, error) {
	n := i.e.Node
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %x %x", n.Size, len(n.Content.Chunks), n.Content.List, n.Content.Inline)
	for _, c := range n.Content.Chunks {
		fmt.Fprintf(h, " %x %d", c.ID, c.Len)
	}
	return `"` + hex.EncodeToString(h.Sum(nil)[:16]) + `"`, nil
}

// ContentType goes by the name, so that a listing opens no file.
func (i info) ContentType(context.Context) (string, error) {
	if kind := mime.TypeByExtension(path.Ext(i.e.Node.Name)); kind != "" {
		return kind, nil
	}
	return "application/octet-stream", nil
}
