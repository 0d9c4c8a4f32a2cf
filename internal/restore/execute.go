package restore

import (
	"context"
	"fmt"
	"os"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// executor carries out what was decided: really, or in a dry run (dry.go). An error says that an object could not be
// restored.
type executor interface {
	// directory enters d, or makes it. If d is the target itself, a creates.
	directory(ctx context.Context, d *dir, a *action) error
	// file makes a file. It reports failures itself, and finishes the entry; an error ends the run.
	file(ctx context.Context, f *file, a *action) error
	// special makes a symbolic link, fifo, socket or device.
	special(o *entry, a *action) error
	// name makes o a further name of the object of o.link.
	name(o *entry, a *action) error
	// update sets the metadata in which the existing object differs, and reports whether that changed anything.
	update(o *entry, a *action) (changed bool)
	// extra removes an entry of in that the snapshot does not have, with what is below it. It returns the number of
	// objects, also with an error.
	extra(in *localfs.Dir, name, at string) (uint64, error)
}

// real changes the target.
type real struct{ *walker }

func (x real) directory(ctx context.Context, d *dir, a *action) error {
	if d.parent == nil {
		return x.makeTarget(ctx, d)
	}
	return x.withDir(d.parent, func(in *localfs.Dir) error {
		switch a.what {
		case leave:
			if d.taken && a.old.Attr&(localfs.AttrImmutable|localfs.AttrAppend) != 0 {
				_ = in.Unprotect(d.node.Name) // to replace its entries; finishDir sets the flags again
			}
			return x.enterExisting(in, d)
		case replace:
			if err := x.clear(in, d.node.Name, a); err != nil {
				return err
			}
		}
		return x.makeDir(in, d)
	})
}

// makeTarget makes the directory of the target.
func (x real) makeTarget(ctx context.Context, d *dir) error {
	ioctx := x.targetContext(ctx)
	_, err := ioctx.Pass.Do(ctx, iopolicy.Op{Kind: iopolicy.Metadata}, func(int) (int, error) {
		return 0, os.MkdirAll(x.to.Path, firstDirMode)
	})
	if err != nil {
		return fmt.Errorf("make target directory: %w", err)
	}
	handle, err := ioctx.OpenDir(x.to.Path)
	if err != nil {
		return err
	}
	st, err := x.enterTarget(d, handle)
	// Another program may have made it between the two calls.
	if err == nil && st.Mode&0o777 == firstDirMode && ownedByUs(&st) {
		d.state, d.plain, d.shared = made, handle.Plain(), false
	}
	return err
}

// makeDir makes the directory d and opens it; in is its parent.
func (x real) makeDir(in *localfs.Dir, d *dir) error {
	if err := in.Mkdir(d.node.Name, firstDirMode); err != nil {
		return appeared(err)
	}
	if err := x.enter(in, d); err != nil {
		return err
	}
	if x.needsPrivateDir(d.parent, in) {
		if err := x.withDir(d, requirePrivate); err != nil {
			x.handles.drop(d)
			return err
		}
	}
	d.state, d.shared = made, false
	return x.withDir(d, func(h *localfs.Dir) error {
		d.plain = d.node.Flags == 0 && (d.parent.plain || h.Plain())
		h.Prepare(&d.node)
		return nil
	})
}

// file plans the reads of the file's chunks. Workers write them. After an error the file stays unfinished.
func (x real) file(ctx context.Context, f *file, a *action) error {
	n := f.node
	if a.what == replace {
		old := a.old
		f.replaces, f.newer, f.old = true, x.changedSince(&old), &old
		if err := x.makeRoom(f, a); err != nil {
			x.failFile(f, err)
			x.chunkDone(f)
			return nil
		}
	}
	a.close()
	if len(n.Content.Chunks) > 1 || !n.Content.List.IsZero() || x.keepsUnread() || f.replaces {
		f.temp = tempName(n.Name)
	}
	if err := x.ensureBatch(ctx); err != nil {
		return err
	}
	x.batch.cost += fileCost
	if err := x.planChunks(ctx, f); err != nil {
		return err
	}
	if len(n.Content.Inline) > 0 {
		x.clock.Enter(report.Write)
		x.write(f, n.Content.Inline, 0)
	}
	x.clock.Enter(report.Attrs)
	x.chunkDone(f)
	return nil
}

// makeRoom prepares the replacement of the existing object of a. A file stays until its replacement is complete.
func (x real) makeRoom(f *file, a *action) error {
	if a.old.Type != tree.Dir {
		return ignoreRefusal(a.held.Unprotect())
	}
	return x.withDir(f.dir, func(in *localfs.Dir) error { return x.removeExisting(in, f.node.Name, a) })
}

func (x real) special(o *entry, a *action) error {
	return x.withDir(o.dir, func(in *localfs.Dir) error {
		if err := x.clear(in, o.node.Name, a); err != nil {
			return err
		}
		ps, err := x.makeSpecial(in, o)
		x.noteProblems(o.path, ps)
		return err
	})
}

func (x real) name(o *entry, a *action) error {
	return x.withDir(o.link.dir, func(first *localfs.Dir) error {
		return x.withDir(o.dir, func(in *localfs.Dir) error {
			if err := x.clear(in, o.node.Name, a); err != nil {
				return err
			}
			return x.linkTo(first, in, o)
		})
	})
}

func (x real) update(o *entry, a *action) (changed bool) {
	if a.held.Stat().Attr&(localfs.AttrImmutable|localfs.AttrAppend) != 0 {
		_ = a.held.Unprotect() // its flags are set again with the rest
	}
	ps := a.held.Apply(o.node, a.differ.only(x.to.Apply))
	x.noteProblems(o.path, ps)
	return a.differ.without(ps) != 0
}

func (x real) extra(in *localfs.Dir, name, _ string) (uint64, error) {
	return removeTree(in, name, false)
}

// clear removes the existing object of a, if that is to be replaced. Afterwards a creates.
func (x real) clear(in *localfs.Dir, name string, a *action) error {
	if a.what != replace {
		return nil
	}
	if err := x.removeExisting(in, name, a); err != nil {
		return err
	}
	x.countReplaced(x.changedSince(&a.old))
	a.what = create
	return nil
}

// removeExisting removes the existing object of a. A directory is removed if it is empty or if Delete is set.
func (x real) removeExisting(in *localfs.Dir, name string, a *action) error {
	if err := unprotect(in, name); err != nil {
		return err
	}
	if a.old.Type != tree.Dir {
		return in.Remove(name, false)
	}
	if x.to.Delete {
		_, err := removeTree(in, name, false)
		return err
	}
	if err := in.Remove(name, true); err != nil {
		return fmt.Errorf("%w: %w", errNotEmpty, err)
	}
	return nil
}
