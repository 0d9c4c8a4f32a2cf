// Package reread reads unchanged files again and compares them with the snapshot. A file that differs although its
// change time is the same was changed without a trace, or its disk returns other bytes than were written.
//
// The walk follows the tree of the snapshot from a cursor, so its memory is one page for each level.
package reread

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Config describes the snapshot to compare with and the part of it to read.
type Config struct {
	Load   tree.Load
	Hasher *seal.Hasher
	Tree   format.ID        // of the snapshot
	Root   *scan.SourceTree // where its sources lie
	Gate   localfs.Gates
	Part   Part
}

// Part is the part of a snapshot that one walk reads.
type Part struct {
	After  string    // the walk begins behind this path of the snapshot; "": at its start
	Budget uint64    // in units of Result.Cost: the walk ends with the file that exceeds it
	Until  time.Time // no file is begun after this moment
	Times  *Window   // read only files with one of their times in it; nil: all files
}

// Window is a span of time, both ends included.
type Window struct{ From, Until time.Time }

// holds reports whether the content or the status of a file last changed inside the window.
func (w *Window) holds(n *tree.Node) bool {
	return w.covers(n.ModTime) || w.covers(n.Changed)
}

func (w *Window) covers(at tree.Time) bool {
	moment := at.Std()
	return !moment.Before(w.From) && !moment.After(w.Until)
}

// Result is what a walk found.
type Result struct {
	Files, Bytes uint64
	Cost         uint64
	Reached      string   // path of the last object that was visited, at first Part.After; "": the walk reached the end
	Differing    []string // paths of files whose content is not that of the snapshot, at most MaxDiffering
	Unreadable   []error
}

const (
	// ObjectCost is the cost of an object beside its bytes, directories aside: what a disk reads in the time of one seek.
	ObjectCost = 16 << 10
	// SkipCost is the cost of an object outside Part.Times: its entry in the tree was loaded and nothing else.
	SkipCost = 256
	// MaxDiffering bounds Result.Differing and Result.Unreadable. The walk ends when one of them is full.
	MaxDiffering = 100
)

// errEnough ends the walk.
var errEnough = errors.New("the budget of this walk is spent")

type walker struct {
	Config
	result Result
}

// Run reads files until the budget is spent, or to the end of the tree.
func Run(ctx context.Context, cfg Config) (Result, error) {
	w := &walker{Config: cfg, result: Result{Reached: cfg.Part.After}}
	var after []string
	if cfg.Part.After != "" {
		after = strings.Split(cfg.Part.After, "/")
	}
	err := w.pick(ctx, cfg.Root, cfg.Tree, "", after)
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case err == nil:
		w.result.Reached = ""
	}
	return w.result, err
}

// pick walks the directory of the snapshot that p stands for.
func (w *walker) pick(ctx context.Context, p *scan.SourceTree, root format.ID, at string, after []string) error {
	if p.Children == nil {
		dir := w.open(p.Path)
		if dir == nil {
			return nil
		}
		defer dir.Release()
		return w.dir(ctx, dir, root, at, after)
	}
	for _, c := range p.Children {
		skip, rest := position(c.Name, after)
		if skip {
			continue
		}
		n, err := tree.Lookup(ctx, w.Load, root, c.Name)
		if err != nil {
			return err
		}
		if n == nil {
			continue
		}
		name := path.Join(at, c.Name)
		if n.Type == tree.Dir {
			if err := w.pick(ctx, c, n.Subtree, name, rest); err != nil {
				return err
			}
			continue
		}
		if len(rest) > 0 || len(after) > 0 && c.Name == after[0] {
			continue
		}
		if dir := w.open(filepath.Dir(c.Path)); dir != nil {
			err := w.object(ctx, dir, n, name)
			dir.Release()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens a directory by its path. It returns nil if that fails, which the next backup reports.
func (w *walker) open(at string) *localfs.Dir {
	dir, err := localfs.IOContext{Pass: w.Gate.Pass(nil, at)}.OpenDir(at)
	if err != nil {
		return nil
	}
	return dir
}

// position reports whether name lies before the cursor, and returns the part of the cursor below name.
func position(name string, after []string) (skip bool, rest []string) {
	if len(after) == 0 || name > after[0] {
		return false, nil
	}
	return name < after[0], after[1:]
}

func (w *walker) dir(ctx context.Context, dir *localfs.Dir, root format.ID, at string, after []string) error {
	return tree.Walk(ctx, w.Load, root, func(n *tree.Node) error {
		skip, rest := position(n.Name, after)
		if skip {
			return nil
		}
		name := path.Join(at, n.Name)
		if n.Type != tree.Dir {
			if len(after) > 0 && n.Name == after[0] {
				return nil // the cursor: it was visited
			}
			return w.object(ctx, dir, n, name)
		}
		sub, err := dir.Open(n.Name)
		if err != nil {
			return nil //nolint:nilerr // the next backup reports it
		}
		defer sub.Release()
		if n.Mount {
			sub.SetPass(w.Gate.Pass(sub, name))
		}
		return w.dir(ctx, sub, n.Subtree, name, rest)
	})
}

// object visits one object that is no directory, and ends the walk if the budget is spent.
func (w *walker) object(ctx context.Context, dir *localfs.Dir, n *tree.Node, at string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r := &w.result
	full := len(r.Differing) == MaxDiffering || len(r.Unreadable) == MaxDiffering
	if r.Cost >= w.Part.Budget || full || !time.Now().Before(w.Part.Until) {
		return errEnough
	}
	switch {
	case w.Part.Times != nil && !w.Part.Times.holds(n):
		r.Cost += SkipCost
	case n.Type == tree.File:
		r.Cost += ObjectCost + n.Size
		if err := w.file(ctx, dir, n, at); err != nil {
			return err
		}
	default:
		r.Cost += ObjectCost
	}
	r.Reached = at
	return nil
}

// file compares a file with its node if its status is the one in the node. A file that differs is read twice, since a
// fault of memory or of a connection is no change of the file.
func (w *walker) file(ctx context.Context, dir *localfs.Dir, n *tree.Node, at string) error {
	if n.Outcome > tree.Retried || n.Recheck || n.Size == 0 {
		return nil
	}
	f, err := dir.OpenFile(n.Name)
	if err != nil {
		return nil //nolint:nilerr // the next backup reports it
	}
	defer f.Close()
	if !f.Opened().Unchanged(n) {
		return nil
	}
	f.NoteCache()
	w.result.Files++
	for range 2 {
		same, err := w.compare(ctx, f, n)
		if stop := context.Cause(ctx); stop != nil {
			return stop
		}
		var lost *loadError
		switch {
		case errors.As(err, &lost):
			return lost.err
		case err != nil:
			w.result.Unreadable = append(w.result.Unreadable, err)
			return nil
		case same:
			return nil
		}
	}
	if now, err := f.Stat(); err == nil && now.Unchanged(n) {
		w.result.Differing = append(w.result.Differing, at)
	}
	return nil
}

// loadError is a failure of the repository, as opposed to one of the source.
type loadError struct{ err error }

func (e *loadError) Error() string { return e.err.Error() }

// compare reads a file and reports whether it has the content of the node.
func (w *walker) compare(ctx context.Context, f *localfs.File, n *tree.Node) (bool, error) {
	load := func(ctx context.Context, id format.ID) ([]byte, error) {
		p, err := w.Load(ctx, id)
		if err != nil {
			err = &loadError{err}
		}
		return p, err
	}
	err := view.Compare(ctx, load, w.Hasher, n, counted{f, &w.result.Bytes})
	if errors.Is(err, view.ErrDiffers) {
		return false, nil
	}
	return err == nil, err
}

// counted counts what is read of a file, past the page cache.
type counted struct {
	*localfs.File
	bytes *uint64
}

// ReadAt is that of the file.
func (c counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	*c.bytes += uint64(n)
	c.DropCache(off, int64(n))
	return n, err
}
