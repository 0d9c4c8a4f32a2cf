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
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// start is where the walk begins: dir with the tree root, or a single object.
type start struct {
	dir  *dir
	root format.ID
	only *tree.Node
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
	return s, j.openTarget(ctx, s.dir)
}

// openTarget opens the target, making it if necessary.
func (j *job) openTarget(ctx context.Context, d *dir) error {
	ioctx := localfs.IOContext{Ctx: ctx, Pass: j.to.Gate.Pass(nil, j.to.Path)}
	if err := j.refuseRepository(ctx, ioctx.Pass); err != nil {
		return err
	}
	handle, err := ioctx.OpenDir(j.to.Path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && j.to.DryRun:
		return nil
	case missing:
		_, err = ioctx.Pass.Do(ctx, iopolicy.Op{Kind: iopolicy.Metadata}, func(int) (int, error) {
			return 0, os.MkdirAll(j.to.Path, firstDirMode)
		})
		if err != nil {
			return fmt.Errorf("make target directory: %w", err)
		}
		handle, err = ioctx.OpenDir(j.to.Path)
	}
	if err != nil {
		return err
	}
	j.handles.base = handle
	st, err := handle.Fstat()
	if err != nil {
		return err
	}
	d.there, d.dev, d.ino, d.shared = true, st.Dev, st.Ino, isShared(&st)
	// Another program may have made it between the two calls.
	d.fresh = missing && st.Mode&0o777 == firstDirMode && st.UID == uint32(os.Geteuid())
	d.plain, d.shared = d.fresh && handle.Plain(), d.shared && !d.fresh
	return nil
}

// walker walks the tree, makes objects without content and collects the chunks of files in batches.
type walker struct {
	*job
	batches chan<- *batch
	free    <-chan *batch
	batch   *batch        // nil before the first chunk
	limit   int           // of the next batch, in bytes
	clock   *report.Clock // normally in Unpack, for loading trees
	scopes  uint64
}

// end is entryDone, timed as Attrs.
func (w *walker) end(d *dir) {
	defer w.clock.Enter(w.clock.Enter(report.Attrs))
	w.job.entryDone(d)
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
	return w.submit(ctx)
}

// directory restores the entries of one tree into d.
func (w *walker) directory(ctx context.Context, d *dir, root format.ID) error {
	var keep map[string]bool
	if w.to.Delete && d.there && !d.fresh {
		keep = map[string]bool{}
	}
	if !d.fresh {
		d.names = func(yield func(string)) error { return w.snapshotNames(ctx, d, root, yield) }
	}
	err := tree.Walk(ctx, w.repo.LoadBlob, root, func(n *tree.Node) error {
		if keep != nil {
			keep[n.Name] = true
		}
		return w.entry(ctx, d, n)
	})
	if err != nil {
		if stop := context.Cause(ctx); stop != nil || !isPartialDamage(err) {
			return explainUnreachable(err)
		}
		// The rest of the snapshot can still be restored.
		w.damaged.addPack(err)
		w.ledger.Fail(d.path, "read tree", err)
		return nil
	}
	if keep != nil {
		w.removeExtra(d, keep)
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
		take, enter = w.sel.Take(d.pathOf(n), n.Type)
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
	if isTempName(n.Name) && !d.fresh {
		w.failRestore(d.pathOf(n), "restore", errOurName)
		return nil
	}
	if n.Links > 1 && w.survey == nil && w.addLinkName(d, n, d.pathOf(n)) {
		return nil
	}
	if n.Type == tree.File {
		return w.file(ctx, d, n)
	}
	d.addEntry()
	w.special(d, n, d.pathOf(n))
	w.end(d)
	return nil
}

// subdirectory makes the directory n in d and descends into it. A directory that is not selected itself is made when
// one of its entries is, and keeps its metadata if it exists.
func (w *walker) subdirectory(ctx context.Context, d *dir, n *tree.Node, take, enter bool) error {
	if err := w.ensureBatch(ctx); err != nil {
		return err
	}
	w.batch.cost += dirCost
	at := d.pathOf(n)
	sub := &dir{parent: d, name: n.Name, path: at, scope: d.scope, mount: n.Mount,
		incomplete: n.Outcome == tree.Unreadable}
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
	if sub.later != nil && d.there { // Delete applies to existing ones
		_ = w.withDir(d, func(h *localfs.Dir) error { return w.enterExisting(h, sub) })
	}
	if take && n.Outcome == tree.Unreadable {
		w.ledger.Fail(at, "restore", errPartial)
	}
	d.addEntry()
	sub.pending.Store(1)
	var err error
	if enter && (w.survey == nil || sub.there) {
		err = w.directory(ctx, sub, n.Subtree)
	}
	w.end(sub)
	return err
}

// ensure makes d and its ancestors, if they were postponed. False: it could not be made, which is reported.
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
	err := w.withDir(d.parent, func(h *localfs.Dir) error { return w.makeDir(h, d, n) })
	if err != nil {
		d.broken = true
		w.failRestore(d.path, "make directory", err)
	}
	return !d.broken
}

// makeDir opens the directory d with node n, making it unless this is a dry run.
func (w *walker) makeDir(in *localfs.Dir, d *dir, n *tree.Node) error {
	if d.parent.fresh {
		if err := in.Mkdir(n.Name, firstDirMode); err == nil || !errors.Is(err, fs.ErrExist) {
			return w.made(in, d, n, err)
		}
	}
	var st localfs.Stat
	err := in.Lstat(n.Name, &st)
	if err == nil {
		if err := w.checkCaseClash(d.parent, in, n.Name); err != nil {
			return err
		}
	}
	switch {
	case err == nil && st.Type == tree.Dir:
		if d.node != nil && !w.to.DryRun && st.Attr&(localfs.AttrImmutable|localfs.AttrAppend) != 0 {
			_ = in.Unprotect(n.Name) // to replace its entries; finishDir sets the flags again
		}
		return w.enterExisting(in, d)
	case err == nil && !w.replaces(in, d.path, n, &st):
		return errInTheWay
	case err != nil && !errors.Is(err, localfs.ErrVanished):
		return err
	}
	if err == nil {
		if err := w.removeExisting(d.parent, in, n, &st); err != nil {
			return err
		}
		w.countReplaced(w.changedSince(&st))
	}
	if w.to.DryRun {
		return nil
	}
	return w.made(in, d, n, in.Mkdir(n.Name, firstDirMode))
}

// made opens the directory d with node n after Mkdir returned err.
func (w *walker) made(in *localfs.Dir, d *dir, n *tree.Node, err error) error {
	if err != nil {
		return err
	}
	if err := w.enter(in, d); err != nil {
		return err
	}
	if w.needsPrivateDir(d.parent, in) {
		if err := w.withDir(d, requirePrivate); err != nil {
			w.handles.drop(d)
			return err
		}
	}
	d.fresh, d.shared = true, false
	return w.withDir(d, func(h *localfs.Dir) error {
		d.plain = n.Flags == 0 && (d.parent.plain || h.Plain())
		h.Prepare(n)
		return nil
	})
}

// enter opens d and records its identity.
func (w *walker) enter(in *localfs.Dir, d *dir) error {
	h, err := w.handles.openWidened(in, d)
	if w.to.DryRun && isDenied(err) {
		return nil // a dry run does not widen permissions, so the content is unknown
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
		if w.to.DryRun && isDenied(err) {
			err = nil
		}
		return err
	}
	d.there, d.dev, d.ino, d.shared = true, st.Dev, st.Ino, isShared(&st)
	d.mounted = d.mountedIn(in, &st)
	if d.mounted {
		h.SetPass(w.to.Gate.Pass(h, d.hostPath(w.to.Path)))
	}
	w.handles.add(d, h)
	return nil
}
