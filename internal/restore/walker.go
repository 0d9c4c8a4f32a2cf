package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// walker walks the tree, makes objects without content and collects the chunks of files in batches.
type walker struct {
	*job
	batches chan<- *batch
	free    <-chan *batch
	batch   *batch        // nil before the first chunk
	limit   int           // of the next batch, in bytes
	clock   *report.Clock // normally in Unpack, for loading trees
	scopes  uint64
	root    *dir       // the target
	only    *tree.Node // the one object that is restored into it; nil: the entries of its node
}

// begin finds the selected part of the snapshot and opens the target.
func (w *walker) begin(ctx context.Context) error {
	d := &dir{path: "/", node: tree.Node{Type: tree.Dir, Subtree: w.sel.Tree}}
	w.root = d
	nodes, err := tree.Follow(ctx, w.repo.LoadBlob, w.sel.Tree, w.sel.Sub)
	if err != nil {
		return err
	}
	if nodes == nil {
		return fmt.Errorf("find %s: %w", w.sel.Sub, ErrNoPath)
	}
	for _, n := range nodes[1:] {
		if n.Type == tree.Dir {
			d.node, d.taken, d.path = *w.mapOwners(n), true, d.pathOf(n)
		} else {
			w.only, d.node, d.taken = n, tree.Node{Type: tree.Dir}, false
		}
	}
	return w.openTarget(ctx, d)
}

// openTarget opens the target d, making it if necessary.
func (w *walker) openTarget(ctx context.Context, d *dir) error {
	ioctx := w.targetContext(ctx)
	if err := w.refuseRepository(ctx, ioctx.Pass); err != nil {
		return err
	}
	handle, err := ioctx.OpenDir(w.to.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return w.do.directory(ctx, d, &action{what: create, why: reasonMissing})
	}
	if err == nil {
		_, err = w.enterTarget(d, handle)
	}
	if err == nil && isEmpty(handle) {
		d.state = vacant
	}
	return err
}

func (w *walker) targetContext(ctx context.Context) localfs.IOContext {
	return localfs.IOContext{Ctx: ctx, Pass: w.to.Gate.Pass(nil, w.to.Path)}
}

// enterTarget records the open target d, and returns its status.
func (w *walker) enterTarget(d *dir, handle *localfs.Dir) (localfs.Stat, error) {
	w.handles.base = handle
	st, err := handle.Fstat()
	d.state, d.id, d.shared = occupied, identityOf(&st), isShared(&st)
	return st, err
}

// end is entryDone, timed as Attrs.
func (w *walker) end(d *dir) {
	defer w.clock.Enter(w.clock.Enter(report.Attrs))
	w.job.entryDone(d)
}

func (w *walker) run(ctx context.Context) error {
	d := w.root
	d.pending.Store(1)
	var err error
	if w.only != nil {
		err = w.entry(ctx, d, w.only)
	} else {
		err = w.directory(ctx, d)
	}
	w.end(d)
	if err != nil {
		return err
	}
	return w.submit(ctx)
}

// directory restores the entries of d.
func (w *walker) directory(ctx context.Context, d *dir) error {
	var keep map[string]bool
	if w.to.Delete && d.state == occupied {
		keep = map[string]bool{}
	}
	err := tree.Walk(ctx, w.repo.LoadBlob, d.node.Subtree, func(n *tree.Node) error {
		if keep != nil {
			keep[n.Name] = true
		}
		return w.entry(ctx, d, n)
	})
	if err != nil {
		if stop := context.Cause(ctx); stop != nil || !repo.IsPartial(err) {
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
	take, enter := w.sel.takes(d, n)
	if !take && (!enter || n.Type != tree.Dir) {
		return nil
	}
	w.mapOwners(n)
	if n.Type == tree.Dir {
		return w.subdirectory(ctx, &dir{parent: d, node: *n, path: d.pathOf(n), taken: take, scope: d.scope}, enter)
	}
	if !w.ensure(ctx, d) {
		return nil
	}
	w.ledger.Objects.Inspected.Add(1)
	if n.Type == tree.File {
		w.ledger.Objects.Files.Add(1)
		w.ledger.Bytes.Inspected.Add(n.Size)
	} else {
		w.ledger.Objects.Others.Add(1)
	}
	if isTempName(n.Name) && d.state != made {
		w.failRestore(d.pathOf(n), "restore", errOurName)
		return nil
	}
	if n.Links > 1 && w.survey == nil && w.addLinkName(d, n, d.pathOf(n)) {
		return nil
	}
	if w.isSmall(d, n) {
		if err := w.ensureBatch(ctx); err != nil {
			return err
		}
		w.addSmall(d, n)
		return nil
	}
	d.addEntry()
	return w.object(ctx, &entry{d, n, d.pathOf(n), w.firstName(d, n)})
}

// object restores anything but a directory or a small file.
func (w *walker) object(ctx context.Context, o *entry) error {
	was := w.clock.Enter(report.Write)
	defer w.clock.Enter(was)
	a, err := w.decide(ctx, o)
	defer a.close()
	if stop := context.Cause(ctx); err != nil && stop != nil {
		return stop
	}
	switch {
	case err != nil:
	case !a.makes():
		w.settle(o, &a)
	case o.node.Type == tree.File:
		w.planned(o.path, a.what, a.why)
		w.clock.Enter(was)
		node := *o.node
		f := &file{entry: entry{o.dir, &node, o.path, o.link}}
		f.chunksLeft.Store(1)
		return w.do.file(ctx, f, &a)
	default:
		w.planned(o.path, a.what, a.why)
		if err = w.do.special(o, &a); err == nil {
			w.ledger.Objects.Restored.Add(1)
		}
	}
	if err != nil {
		w.failRestore(o.path, "restore", err)
	}
	if a.foreign {
		w.releaseName(o.link)
	} else {
		w.finishLink(o.link, err == nil)
	}
	w.end(o.dir)
	return nil
}

// settle finishes an entry whose object exists. Only its metadata may be set.
func (w *walker) settle(o *entry, a *action) {
	changed := a.what == update && w.do.update(o, a)
	if a.notOurs {
		w.noteProblems(o.path, []localfs.Problem{{What: "owner", Err: errNotOwner}})
	}
	if !a.foreign {
		o.link.setIdentity(&a.old)
	}
	if changed {
		w.ledger.Objects.Restored.Add(1)
	} else {
		w.ledger.Objects.Kept.Add(1)
	}
	if o.node.Type == tree.File {
		w.ledger.Bytes.Restored.Add(o.node.Size)
	}
	w.planned(o.path, a.what, a.why)
}

// subdirectory makes the directory d and descends into it. A directory that is not selected itself is made when one of
// its entries is, and keeps its metadata if it exists.
func (w *walker) subdirectory(ctx context.Context, d *dir, enter bool) error {
	if err := w.ensureBatch(ctx); err != nil {
		return err
	}
	w.batch.cost += dirCost
	if d.node.Mount {
		w.scopes++
		d.scope = w.scopes
	}
	if d.taken {
		w.ledger.Objects.Inspected.Add(1)
		w.ledger.Objects.Dirs.Add(1)
		if !w.ensure(ctx, d) {
			return nil
		}
		if d.node.Outcome == tree.Unreadable {
			w.ledger.Fail(d.path, "restore", errPartial)
		}
	} else if d.parent.state == occupied { // Delete applies to existing ones
		if w.do.directory(ctx, d, &action{what: leave, why: reasonSame}) != nil {
			d.state = postponed
		}
	}
	d.parent.addEntry()
	d.pending.Store(1)
	var err error
	if enter && (w.survey == nil || d.there()) {
		err = w.directory(ctx, d)
	}
	w.end(d)
	return err
}

// ensure enters or makes d and its ancestors, if they were postponed. False: it could not be made, which is reported.
func (w *walker) ensure(ctx context.Context, d *dir) bool {
	if d.state != postponed {
		return d.state != failed
	}
	defer w.clock.Enter(w.clock.Enter(report.Write))
	d.state = failed
	if !w.ensure(ctx, d.parent) {
		return false
	}
	a, err := w.decide(ctx, &entry{dir: d.parent, node: &d.node, path: d.path})
	if err == nil {
		err = w.do.directory(ctx, d, &a)
	}
	if err != nil {
		d.state = failed
		w.failRestore(d.path, "make directory", err)
	}
	return err == nil
}

// enter opens d and records its identity.
func (w *walker) enter(in *localfs.Dir, d *dir) error {
	h, st, err := w.handles.enter(in, d)
	if err != nil {
		return err
	}
	d.id, d.shared, d.mounted = identityOf(&st), isShared(&st), d.mountedIn(in, &st)
	w.handles.addShared(d, h).Release()
	return nil
}

// mapOwners maps the owners of the node to this machine.
func (j *job) mapOwners(n *tree.Node) *tree.Node {
	if j.to.Owners != nil {
		n.UID, n.GID = j.to.Owners(n.UID, n.GID)
	}
	return n
}
