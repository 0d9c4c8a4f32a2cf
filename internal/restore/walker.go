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
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore/access"
	"github.com/tidemark-backup/tidemark/internal/restore/damage"
	"github.com/tidemark-backup/tidemark/internal/restore/same"
	"github.com/tidemark-backup/tidemark/internal/restore/temp"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
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
	if err := j.findSources(ctx); err != nil {
		return nil, err
	}
	return s, j.openTarget(ctx, s.dir)
}

// openTarget opens the target, which may have to be made.
func (j *job) openTarget(ctx context.Context, d *dir) error {
	door := localfs.Door{Ctx: ctx, Pass: j.to.Gate.Pass(nil, j.to.Path)}
	handle, err := door.OpenDir(j.to.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && j.to.DryRun:
		return nil
	case missing:
		_, err = door.Pass.Do(ctx, iopolicy.Op{Kind: iopolicy.Metadata}, func(int) (int, error) {
			return 0, os.MkdirAll(j.to.Path, firstDirMode)
		})
		if err != nil {
			return fmt.Errorf("make target directory: %w", err)
		}
		handle, err = door.OpenDir(j.to.Path)
	}
	if err != nil {
		return err
	}
	j.handles.base = handle
	st, err := handle.Fstat()
	if err != nil {
		return err
	}
	d.there, d.dev, d.ino = true, st.Dev, st.Ino
	// Between two calls, somebody else may have made it: then it is not ours alone.
	d.fresh = missing && st.Mode&0o777 == firstDirMode && st.UID == uint32(os.Geteuid())
	d.plain = d.fresh && handle.Plain()
	return nil
}

// walker plans: it goes through the tree, makes what has no content and collects files in windows.
type walker struct {
	*job
	windows chan<- *window
	free    <-chan *window
	window  *window       // nil: none yet
	limit   int           // of the window, in bytes
	clock   *report.Clock // in Unpack, for trees, unless something else is done
	scopes  uint64
}

// end is the job's, on the clock.
func (w *walker) end(d *dir) {
	defer w.clock.Enter(w.clock.Enter(report.Attrs))
	w.job.end(d)
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

// directory restores the entries of one tree into d.
func (w *walker) directory(ctx context.Context, d *dir, root format.ID) error {
	var keep map[string]bool
	if w.to.Delete && d.there && !d.fresh {
		keep = map[string]bool{}
	}
	if !d.fresh {
		d.names = func(yield func(string)) error { return w.names(ctx, d, root, yield) }
	}
	err := tree.Walk(ctx, w.repo.LoadBlob, root, func(n *tree.Node) error {
		if keep != nil {
			keep[n.Name] = true
		}
		return w.entry(ctx, d, n)
	})
	if err != nil {
		if stop := context.Cause(ctx); stop != nil || !damage.Partial(err) {
			return damage.Explain(err)
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
	take, enter := true, true
	if w.sel.Take != nil {
		take, enter = w.sel.Take(d.at(n), n.Type)
	}
	if n.Type == tree.Dir {
		if !take && !enter {
			return nil
		}
		return w.subdirectory(ctx, d, n, take, enter)
	}
	if !take || !w.ensure(d) {
		return nil
	}
	w.ledger.Objects.Inspected.Add(1)
	if n.Type == tree.File {
		w.ledger.Objects.Files.Add(1)
		w.ledger.Bytes.Inspected.Add(n.Size)
	} else {
		w.ledger.Objects.Others.Add(1)
	}
	if temp.Is(n.Name) && !d.fresh {
		w.failed(d.at(n), "restore", errOurName)
		return nil
	}
	if n.Links > 1 && w.later(d, n, d.at(n)) {
		return nil
	}
	if n.Type == tree.File {
		return w.file(ctx, d, n)
	}
	d.begin()
	w.special(d, n, d.at(n))
	w.end(d)
	return nil
}

// subdirectory makes the directory n in d and goes into it. One that is only on the way to something that may be taken
// is made when something is, and keeps its metadata if it exists.
func (w *walker) subdirectory(ctx context.Context, d *dir, n *tree.Node, take, enter bool) error {
	if err := w.room(ctx); err != nil {
		return err
	}
	w.window.weight += dirWeight
	at := d.at(n)
	sub := &dir{parent: d, name: n.Name, path: at, scope: d.scope, mount: n.Mount, partial: n.Outcome == tree.Unreadable}
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
	sub.later = n
	if take && (!w.ensure(d) || !w.ensure(sub)) {
		return nil
	}
	if sub.later != nil && d.there { // if it exists, --delete looks into it
		_ = w.in(d, func(h *localfs.Dir) error { return w.enter(h, sub) })
	}
	if take && n.Outcome == tree.Unreadable {
		w.ledger.Fail(at, "restore", errPartial)
	}
	d.begin()
	sub.pending.Store(1)
	var err error
	if enter {
		err = w.directory(ctx, sub, n.Subtree)
	}
	w.end(sub)
	return err
}

// ensure makes d and the directories above it that have been put off. False: it cannot be made, which has been told.
func (w *walker) ensure(d *dir) bool {
	if d.later == nil {
		return !d.broken
	}
	defer w.clock.Enter(w.clock.Enter(report.Write))
	n := d.later
	d.later = nil
	if d.broken = !w.ensure(d.parent); d.broken || !d.parent.there || d.there {
		return !d.broken
	}
	err := w.in(d.parent, func(h *localfs.Dir) error { return w.makeDir(h, d, n) })
	if err != nil {
		d.broken = true
		w.failed(d.path, "make directory", err)
	}
	return !d.broken
}

// makeDir opens the directory d, which n describes, making it if need be. In a dry run nothing is made.
func (w *walker) makeDir(in *localfs.Dir, d *dir, n *tree.Node) error {
	if d.parent.fresh {
		if err := in.Mkdir(n.Name, firstDirMode); err == nil || !errors.Is(err, fs.ErrExist) {
			return w.made(in, d, n, err)
		}
	}
	var st localfs.Stat
	err := in.Lstat(n.Name, &st)
	if err == nil {
		if err := w.clash(d.parent, in, n.Name); err != nil {
			return err
		}
	}
	switch {
	case err == nil && st.Type == tree.Dir:
		if d.node != nil && !w.to.DryRun && st.Attr&(localfs.AttrImmutable|localfs.AttrAppend) != 0 {
			_ = in.Unprotect(n.Name) // what is in it could not be replaced; its flags are set when it is finished
		}
		return w.enter(in, d)
	case err == nil && w.to.Overwrite == Never:
		return errInTheWay
	case err != nil && !errors.Is(err, localfs.ErrVanished):
		return err
	case w.to.DryRun:
		return nil
	}
	if err == nil {
		if err := w.clear(in, n.Name, &st); err != nil {
			return err
		}
	}
	return w.made(in, d, n, in.Mkdir(n.Name, firstDirMode))
}

// made opens the directory d, which n describes and which was made unless err says why not.
func (w *walker) made(in *localfs.Dir, d *dir, n *tree.Node, err error) error {
	if err != nil {
		return err
	}
	if err := w.enter(in, d); err != nil {
		return err
	}
	d.fresh = true
	return w.in(d, func(h *localfs.Dir) error {
		d.plain = n.Flags == 0 && (d.parent.plain || h.Plain())
		h.Prepare(n)
		return nil
	})
}

// enter opens d and remembers which directory it is.
func (w *walker) enter(in *localfs.Dir, d *dir) error {
	h, err := w.handles.open1(in, d)
	if w.to.DryRun && access.Denied(err) {
		return nil // a dry run does not open it to us, and cannot tell what is in it
	}
	if err != nil {
		return err
	}
	st, err := h.Fstat()
	if err == nil && w.to.DryRun {
		err = h.Lstat(".", &st)
	}
	if err != nil {
		h.Release()
		if w.to.DryRun && access.Denied(err) {
			err = nil
		}
		return err
	}
	d.there, d.dev, d.ino = true, st.Dev, st.Ino
	d.mounted = d.mountedIn(in, &st)
	if d.mounted {
		h.Through(w.to.Gate.Pass(h, d.place(w.to.Path)))
	}
	w.handles.add(d, h)
	return nil
}

// special makes a symbolic link, fifo, socket or device.
func (w *walker) special(d *dir, n *tree.Node, at string) {
	defer w.clock.Enter(w.clock.Enter(report.Write))
	if n.Outcome >= tree.Skipped {
		w.ledger.Fail(at, "restore", errNoContent)
		return
	}
	if !d.there { // in a dry run
		w.ledger.Objects.Restored.Add(1)
		return
	}
	w.owned(n)
	err := w.in(d, func(h *localfs.Dir) error {
		if !d.fresh {
			if done, err := w.meetsSpecial(d, h, n, at); done || err != nil {
				return err
			}
		}
		ps, err := w.makeSpecial(d, h, n)
		w.problems(at, ps)
		return err
	})
	switch {
	case errors.Is(err, errSame):
		w.ledger.Objects.Kept.Add(1)
	case errors.Is(err, errKept):
		if w.trusting() {
			w.vacate(w.firstName(d, n))
		}
		w.ledger.Objects.Kept.Add(1)
	case err != nil:
		w.failed(at, "restore", err)
	default:
		w.ledger.Objects.Restored.Add(1)
	}
}

// makeSpecial makes a special object with its metadata. Where a later run would take one without them for finished, it
// gets its name last.
func (w *walker) makeSpecial(d *dir, in *localfs.Dir, n *tree.Node) ([]localfs.Problem, error) {
	if !w.trusting() {
		if err := makeNode(in, n, n.Name); err != nil {
			return nil, appeared(err)
		}
		if d.plain {
			return w.maker.Entry(in, n.Name, n, firstNodeMode), nil
		}
		return in.Apply(n.Name, n, w.to.Apply), nil
	}
	as := temp.Name(n.Name)
	err := makeNode(in, n, as)
	if err != nil && in.Remove(as, false) == nil {
		err = makeNode(in, n, as)
	}
	if err != nil {
		return nil, err
	}
	what := w.to.Apply
	what.SkipFlags = true
	ps := in.Apply(as, n, what)
	if err := d.rename(in, as, n.Name, false); err != nil {
		_ = in.Remove(as, false)
		return ps, err
	}
	return append(ps, w.flag(in, n)...), nil
}

// meetsSpecial looks at what is there under the name of n. done is true when nothing needs to be made. An error says that
// it is n already (errSame), or may not be replaced (errKept); else what is in the way is removed.
func (w *walker) meetsSpecial(d *dir, in *localfs.Dir, n *tree.Node, at string) (done bool, err error) {
	var st localfs.Stat
	switch err := in.Lstat(n.Name, &st); {
	case errors.Is(err, localfs.ErrVanished):
		return w.to.DryRun, nil
	case err != nil:
		return false, err
	}
	if err := w.clash(d, in, n.Name); err != nil {
		return false, err
	}
	switch {
	case !w.replaces(n, &st):
		return false, errKept
	case isSpecial(in, n, &st):
		if !w.adjust(in, n.Name, at, n, same.Metadata(in, n.Name, n, &st, w.to.Apply)) {
			err = errSame
		}
		return true, err
	case w.to.DryRun:
		return true, nil
	}
	return false, w.clear(in, n.Name, &st)
}

// isSpecial reports whether an object, of which st tells, is n but for its metadata, and nobody else's too.
func isSpecial(in *localfs.Dir, n *tree.Node, st *localfs.Stat) bool {
	if st.Type != n.Type || st.Links > max(n.Links, 1) {
		return false
	}
	switch n.Type {
	case tree.Symlink:
		target, err := in.Readlink(n.Name)
		return err == nil && target == n.Target
	case tree.CharDevice, tree.BlockDevice:
		return st.Rdev == n.Device
	}
	return true
}

// firstNodeMode are the permissions with which a special file is made.
const firstNodeMode = 0o600

func makeNode(in *localfs.Dir, n *tree.Node, as string) error {
	if n.Type == tree.Symlink {
		return in.Symlink(n.Target, as)
	}
	return in.Mknod(as, n.Type, firstNodeMode, n.Device)
}
