package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// start is where the walk begins.
type start struct {
	dir  *dir
	root format.ID  // tree to restore into dir
	only *tree.Node // or the one object that was asked for
}

// root finds the selected part of the snapshot and opens the target.
func (j *job) root(ctx context.Context) (*start, error) {
	s := &start{root: j.sel.Tree, dir: &dir{path: "/"}}
	for _, name := range strings.FieldsFunc(j.sel.Sub, func(r rune) bool { return r == '/' }) {
		n, err := tree.Lookup(ctx, j.repo.LoadBlob, s.root, name)
		if err != nil {
			return nil, err
		}
		if n == nil || s.only != nil {
			return nil, fmt.Errorf("find %s: %w", j.sel.Sub, ErrNoPath)
		}
		s.dir.path = path.Join(s.dir.path, name)
		if n.Type == tree.Dir {
			s.root, s.dir.node = n.Subtree, n
		} else {
			s.only = n
		}
	}
	if s.only != nil {
		s.dir.node, s.dir.path = nil, path.Dir(s.dir.path)
	}
	if !j.to.DryRun {
		if err := os.MkdirAll(j.to.Path, 0o700); err != nil {
			return nil, fmt.Errorf("make target directory: %w", err)
		}
	}
	handle, err := localfs.OpenDir(j.to.Path)
	if err != nil && !(j.to.DryRun && errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	if err == nil {
		s.dir.handle, j.base = handle, handle
		handle.Retain() // for the links, to the end
	}
	return s, nil
}

// walker plans: it goes through the tree, makes what has no content and collects files in windows.
type walker struct {
	*job
	windows chan<- *window
	window  *window
	scopes  uint64
}

func (w *walker) run(ctx context.Context, s *start) error {
	s.dir.pending.Store(1)
	var err error
	if s.only != nil {
		err = w.entry(ctx, s.dir, s.only)
	} else {
		err = w.directory(ctx, s.dir, s.root)
	}
	w.end(s.dir)
	if err != nil {
		return err
	}
	return w.ship(ctx)
}

// ship passes the window on and begins another.
func (w *walker) ship(ctx context.Context) error {
	select {
	case w.windows <- w.window:
		w.window = newWindow()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// directory restores the entries of one tree into d.
func (w *walker) directory(ctx context.Context, d *dir, root format.ID) error {
	var keep map[string]bool
	if w.to.Delete && d.handle != nil {
		keep = map[string]bool{}
	}
	err := tree.Walk(ctx, w.repo.LoadBlob, root, func(n *tree.Node) error {
		if keep != nil {
			keep[n.Name] = true
		}
		return w.entry(ctx, d, n)
	})
	if err != nil {
		if stop := context.Cause(ctx); stop != nil || !damaged(err) {
			return err
		}
		// The rest of the snapshot can still be saved.
		w.ledger.Fail(d.path, "read tree", err)
		return nil
	}
	if keep != nil {
		return w.sweep(d, keep)
	}
	return nil
}

// entry restores one node into d.
func (w *walker) entry(ctx context.Context, d *dir, n *tree.Node) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	at := path.Join(d.path, n.Name)
	take, enter := true, true
	if w.sel.Take != nil {
		take, enter = w.sel.Take(at, n.Type)
	}
	if n.Type == tree.Dir {
		if !take && !enter {
			return nil
		}
		return w.subdirectory(ctx, d, n, at, take, enter)
	}
	if !take {
		return nil
	}
	w.ledger.Objects.Inspected.Add(1)
	if n.Type == tree.File {
		w.ledger.Objects.Files.Add(1)
		w.ledger.Bytes.Inspected.Add(n.Size)
	} else {
		w.ledger.Objects.Others.Add(1)
	}
	if n.Links > 1 && w.later(d, n, at) {
		return nil
	}
	if n.Type == tree.File {
		return w.file(ctx, d, n, at)
	}
	d.begin()
	w.special(d, n, at)
	w.end(d)
	return nil
}

// subdirectory makes the directory n in d and goes into it. One that is only on the way to something that is taken is
// made, but keeps its metadata if it exists.
func (w *walker) subdirectory(ctx context.Context, d *dir, n *tree.Node, at string, take, enter bool) error {
	sub := &dir{parent: d, name: n.Name, path: at, scope: d.scope, mount: n.Mount}
	if n.Mount {
		w.scopes++
		sub.scope = w.scopes
	}
	if take {
		node := *n
		sub.node = &node
		w.ledger.Objects.Inspected.Add(1)
		w.ledger.Objects.Dirs.Add(1)
	}
	if d.handle != nil {
		handle, err := w.makeDir(d, sub, n)
		if err != nil {
			w.ledger.Fail(at, "make directory", err)
			return nil
		}
		sub.handle = handle
	}
	if n.Outcome == tree.Unreadable {
		sub.partial = true
		w.ledger.Fail(at, "restore", errPartial)
	}
	d.begin()
	sub.pending.Store(1)
	w.window.dirs++
	var err error
	if enter {
		err = w.directory(ctx, sub, n.Subtree)
	}
	w.end(sub)
	return err
}

// makeDir opens the directory n of d, making it if need be. In a dry run nothing is made: nil stands for what is not
// there.
func (w *walker) makeDir(d, sub *dir, n *tree.Node) (*localfs.Dir, error) {
	var st localfs.Stat
	err := d.handle.Lstat(n.Name, &st)
	switch {
	case err == nil && st.Type == tree.Dir:
		sub.mounted = mounted(d.handle, &st)
		if sub.node != nil && !w.to.DryRun && st.Attr&(localfs.AttrImmutable|localfs.AttrAppend) != 0 {
			_ = d.handle.Unprotect(n.Name) // what is in it could not be replaced; its flags are set when it is finished
		}
		return d.handle.Open(n.Name)
	case err == nil && w.to.Overwrite == Never:
		return nil, errInTheWay
	case err != nil && !errors.Is(err, localfs.ErrVanished):
		return nil, err
	case w.to.DryRun:
		return nil, nil
	}
	if err == nil {
		if err := w.clear(d.handle, n.Name, &st); err != nil {
			return nil, err
		}
	}
	if err := d.handle.Mkdir(n.Name, 0o700); err != nil {
		return nil, err
	}
	handle, err := d.handle.Open(n.Name)
	if err != nil {
		return nil, err
	}
	handle.Prepare(n)
	return handle, nil
}

// special makes a symbolic link, fifo, socket or device.
func (w *walker) special(d *dir, n *tree.Node, at string) {
	if n.Outcome >= tree.Skipped {
		w.ledger.Fail(at, "restore", errNoContent)
		return
	}
	if w.to.DryRun || d.handle == nil {
		w.ledger.Objects.Restored.Add(1)
		return
	}
	if err := w.makeSpecial(d, n); err != nil {
		if errors.Is(err, errKept) {
			w.ledger.Objects.Kept.Add(1)
			return
		}
		w.ledger.Fail(at, "restore", err)
		return
	}
	w.problems(at, d.handle.Apply(n.Name, w.owned(n), w.to.Apply))
	w.ledger.Objects.Restored.Add(1)
}

func (w *walker) makeSpecial(d *dir, n *tree.Node) error {
	var st localfs.Stat
	switch err := d.handle.Lstat(n.Name, &st); {
	case err == nil:
		if !w.replaces(n, &st) {
			return errKept
		}
		if err := w.clear(d.handle, n.Name, &st); err != nil {
			return err
		}
	case !errors.Is(err, localfs.ErrVanished):
		return err
	}
	if n.Type == tree.Symlink {
		return d.handle.Symlink(n.Target, n.Name)
	}
	return d.handle.Mknod(n.Name, n.Type, 0o600, n.Device)
}

// damaged reports whether an error is about a part of the repository, so that other parts may still be readable.
func damaged(err error) bool { return errors.Is(err, format.ErrCorrupt) || isMissing(err) }
