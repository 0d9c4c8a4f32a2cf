package restore

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore/access"
	"github.com/tidemark-backup/tidemark/internal/restore/damage"
	"github.com/tidemark-backup/tidemark/internal/restore/removal"
	"github.com/tidemark-backup/tidemark/internal/restore/same"
	"github.com/tidemark-backup/tidemark/internal/restore/temp"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// file is a regular file on its way to the target. Its chunks come in any order, from several goroutines.
type file struct {
	dir  *dir
	node tree.Node
	path string
	temp string // the name it has until it is whole; empty: written under its own
	link *link  // other names of it wait

	theirs   bool // what is there under the name may be anything
	replaces bool // what is there under the name is to go

	left   atomic.Int64 // chunks not written, and one for the walk
	sparse atomic.Bool  // it has holes
	sized  bool         // it has its size when all its chunks are written

	failed atomic.Bool // asked by those who must not wait for mu, which is held while the file is made

	mu sync.Mutex
	w  *localfs.Writer
}

// file restores a regular file, or decides that it can stay as it is.
func (w *walker) file(ctx context.Context, d *dir, n *tree.Node) error {
	if w.isSmall(d, n) {
		if err := w.room(ctx); err != nil {
			return err
		}
		w.plan(d, n)
		return nil
	}
	f := &file{dir: d, node: *w.owned(n), path: d.at(n), link: w.firstName(d, n)}
	d.begin()
	f.left.Store(1)
	switch keep, err := w.meets(ctx, f); {
	case err != nil && context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case err != nil:
		w.fail(f, err)
		w.part(f)
		return nil
	case keep && f.theirs:
		w.vacate(f.link)
		w.end(d)
		return nil
	case keep:
		w.settle(f, true)
		w.end(d)
		return nil
	}
	if err := w.room(ctx); err != nil {
		return err
	}
	w.window.weight += fileWeight
	end := uint64(len(n.Content.Inline))
	data := end
	err := same.Chunks(ctx, w.repo.LoadBlob, &n.Content, func(c tree.Chunk, off uint64) error {
		if c.IsHole() {
			f.sparse.Store(true)
		} else {
			end = off + c.Len
			data += c.Len
		}
		if c.IsHole() || f.hopeless() {
			return nil
		}
		f.left.Add(1)
		return w.add(ctx, piece{ID: c.ID, To: owner{file: f}, Off: off, Len: uint32(c.Len)})
	})
	if err != nil {
		if stop := context.Cause(ctx); stop != nil || damage.Whole(err) {
			return errors.Join(stop, damage.Explain(err))
		}
		w.fail(f, err)
	}
	f.sized = end == n.Size
	if !f.hopeless() && data < n.Size {
		w.ledger.Bytes.Restored.Add(n.Size - data) // holes are in place as soon as the file has its size
	}
	if len(n.Content.Inline) > 0 {
		w.clock.Enter(report.Write)
		w.write(f, n.Content.Inline, 0)
	}
	w.clock.Enter(report.Attrs)
	w.part(f)
	w.clock.Enter(report.Unpack)
	return nil
}

// meets looks at what is there under the file's name. keep is true when nothing needs to be written.
func (w *walker) meets(ctx context.Context, f *file) (keep bool, err error) {
	defer w.clock.Enter(w.clock.Enter(report.Write))
	if f.node.Outcome >= tree.Skipped {
		return false, errNoContent
	}
	if len(f.node.Content.Chunks) > 1 || !f.node.Content.List.IsZero() || w.trusting() {
		f.temp = temp.Name(f.node.Name)
	}
	if !f.dir.there {
		return w.pretend(f), nil
	}
	if f.dir.fresh {
		return false, nil
	}
	err = w.in(f.dir, func(in *localfs.Dir) (err error) {
		keep, err = w.meetsIn(ctx, in, f)
		return err
	})
	return keep, err
}

func (w *walker) meetsIn(ctx context.Context, in *localfs.Dir, f *file) (keep bool, err error) {
	var st localfs.Stat
	err = in.Lstat(f.node.Name, &st)
	switch {
	case errors.Is(err, localfs.ErrVanished):
		return w.to.DryRun && w.pretend(f), nil
	case err != nil:
		return false, err
	}
	if err := w.clash(f.dir, in, f.node.Name); err != nil {
		return false, err
	}
	switch {
	case !w.replaces(&f.node, &st):
		f.theirs = f.link != nil && w.trusting() && (st.Type != tree.File || st.Mtime != f.node.ModTime || !w.identical(ctx, in, &f.node))
		w.kept(f)
		return true, nil
	case w.is(ctx, in, f, &st):
		return true, nil
	case w.to.DryRun:
		return w.pretend(f), nil
	}
	f.temp, f.replaces = temp.Name(f.node.Name), true
	if st.Type == tree.Dir {
		return false, w.clear(in, f.node.Name, &st)
	}
	return false, removal.Unprotect(in, f.node.Name) // it stays until there is something to put in its place
}

// is reports whether f is there already, of which st tells, and gives it the metadata that it lacks. A file with more
// names than it had may be somebody else's as well: then it is ours no more, whatever is in it. So it is if one with
// several names has other metadata, since giving it ours would change theirs; what only root can set does not count.
func (w *walker) is(ctx context.Context, in *localfs.Dir, f *file, st *localfs.Stat) bool {
	n := &f.node
	if st.Type != tree.File || st.Size != n.Size || st.Links > max(n.Links, 1) {
		return false
	}
	differ := same.Metadata(in, n.Name, n, st, w.to.Apply)
	if st.Links > 1 && differ != 0 && (differ != same.Owner || os.Geteuid() == 0) || !w.identical(ctx, in, n) {
		return false
	}
	if st.Links > 1 && differ == same.Owner {
		w.problems(f.path, []localfs.Problem{{What: "owner", Err: errNotOwner}})
		differ = 0
	}
	if differ != 0 && st.Attr&(localfs.AttrImmutable|localfs.AttrAppend) != 0 && !w.to.DryRun {
		_ = removal.Unprotect(in, n.Name) // its flags come back with the rest
	}
	if w.adjust(in, n.Name, f.path, n, differ) {
		w.ledger.Objects.Restored.Add(1)
		w.ledger.Bytes.Restored.Add(n.Size)
	} else {
		w.kept(f)
	}
	return true
}

// adjust gives the entry name of in those parts of n's metadata in which it differs, and reports whether that changed
// anything: what could not be set did not.
func (j *job) adjust(in *localfs.Dir, name, at string, n *tree.Node, differ same.Parts) bool {
	if j.to.DryRun || differ == 0 {
		return differ != 0
	}
	ps := in.Apply(name, n, differ.Only(j.to.Apply))
	j.problems(at, ps)
	return differ.Without(ps) != 0
}

func (j *job) kept(f *file) {
	j.ledger.Objects.Kept.Add(1)
	j.ledger.Bytes.Restored.Add(f.node.Size)
}

// trusting reports whether a file that is there may be left as it is without a look at its content, however new it is.
// Then not even a small one may grow under its own name: half of it would be taken for the file if we are killed now
// and run again. The other rules notice that its time is not that of the snapshot, and save the rename.
func (j *job) trusting() bool { return j.to.Overwrite == Never || j.to.Overwrite == IfNewer }

// pretend books a file of a dry run.
func (w *walker) pretend(f *file) bool {
	w.ledger.Objects.Restored.Add(1)
	w.ledger.Bytes.Restored.Add(f.node.Size)
	return true
}

// identical reports whether the file n of a directory has the content of the snapshot, by reading it.
func (j *job) identical(ctx context.Context, in *localfs.Dir, n *tree.Node) bool {
	f, err := access.Open(in, n.Name)
	if err != nil {
		return false
	}
	defer f.Close()
	return same.Content(ctx, j.repo.LoadBlob, f, n, j.repo.Keys().Hasher()) == nil
}

func (f *file) hopeless() bool { return f.failed.Load() }

// fail books the first failure of f; what else happens to it does not matter any more.
func (j *job) fail(f *file, err error) {
	if !f.failed.Swap(true) {
		j.failed(f.path, "restore", err)
	}
}

// open makes the file when its first bytes arrive.
func (j *job) open(f *file) (*localfs.Writer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.w != nil {
		return f.w, nil
	}
	var w *localfs.Writer
	err := j.in(f.dir, func(in *localfs.Dir) (err error) {
		w, err = j.create(in, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	j.growing.Store(f.unfinished(), f)
	if f.node.Flags != 0 {
		w.Prepare(&f.node)
	}
	f.w = w
	if f.sparse.Load() {
		// XFS reserves space behind a file that grows, and what is reserved where a hole follows stays taken.
		if err := w.Truncate(int64(f.node.Size)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// create makes the file by the name it grows under.
func (j *job) create(in *localfs.Dir, f *file) (w *localfs.Writer, err error) {
	switch name := f.unfinished().name; {
	case f.dir.plain:
		w, err = j.maker.Create(in, name, &f.node)
	case f.temp != "":
		w, err = temp.Create(in, name)
	default:
		w, err = in.CreateFile(name)
	}
	return w, appeared(err)
}

// write puts verified bytes at their place.
func (j *job) write(f *file, p []byte, off uint64) {
	w, err := j.open(f)
	if err == nil {
		_, err = w.WriteAt(p, int64(off))
	}
	if err != nil {
		j.fail(f, err)
		return
	}
	j.ledger.Bytes.Restored.Add(uint64(len(p)))
}

// part ends one part of f, and f with the last of them.
func (j *job) part(f *file) { j.parts(f, 1) }

// parts ends n parts of f at once.
func (j *job) parts(f *file, n int64) {
	if f.left.Add(-n) > 0 {
		return
	}
	whole := !f.hopeless()
	if whole {
		if err := j.complete(f); err != nil {
			j.fail(f, err)
			whole = false
		}
	}
	if !whole {
		j.discard(f)
	} else {
		j.ledger.Objects.Restored.Add(1)
	}
	j.settle(f, whole)
	j.end(f.dir)
}

// complete gives the file its size, metadata and name.
func (j *job) complete(f *file) error {
	w, err := j.open(f) // an empty file, or one that is a single hole, has seen no write
	if err != nil {
		return err
	}
	if !f.sized {
		if err := w.Truncate(int64(f.node.Size)); err != nil {
			return err
		}
	}
	ps := j.setMeta(w, f)
	in, err := j.handles.get(f.dir)
	if err != nil {
		return err
	}
	defer in.Release()
	f.w = nil
	if err := w.Close(); err != nil {
		return err
	}
	if f.temp != "" {
		if err := f.dir.rename(in, f.temp, f.node.Name, f.replaces); err != nil {
			return err
		}
	}
	j.growing.Delete(f.unfinished())
	j.problems(f.path, append(ps, j.flag(in, &f.node)...))
	return nil
}

// flag sets the flags of an object that has everything else.
func (j *job) flag(in *localfs.Dir, n *tree.Node) []localfs.Problem {
	if n.Flags == 0 || j.to.Apply.SkipFlags {
		return nil
	}
	return in.Apply(n.Name, n, localfs.ApplyOptions{
		SkipOwner: true, SkipMode: true, SkipXattrs: true, SkipTimes: true, ForeignFlags: j.to.Apply.ForeignFlags,
	})
}

// setMeta sets all but the flags: an immutable file could not be renamed any more.
func (j *job) setMeta(w *localfs.Writer, f *file) []localfs.Problem {
	if f.dir.plain {
		return j.maker.Finish(w, &f.node)
	}
	what := j.to.Apply
	what.SkipFlags = true
	return w.SetMeta(&f.node, what)
}

// discard removes what was written of a file that cannot be completed: half a file under its real name would look like
// the file.
func (j *job) discard(f *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.w != nil {
		_ = f.w.Close()
		f.w = nil
	}
	at := f.unfinished()
	if _, there := j.growing.LoadAndDelete(at); there {
		j.remove(at, f)
	}
}

// leftover is a file that exists in the target and is not whole.
type leftover struct {
	dir  *dir
	name string
}

// unfinished is what f is before it has its name.
func (f *file) unfinished() leftover {
	if f.temp != "" {
		return leftover{f.dir, f.temp}
	}
	return leftover{f.dir, f.node.Name}
}

// remove removes a leftover of f, nil if that was to be made in one go.
func (j *job) remove(l leftover, f *file) {
	err := j.in(l.dir, func(in *localfs.Dir) error { return in.Remove(l.name, false) })
	if errors.Is(err, localfs.ErrStopped) {
		j.growing.Store(l, f) // Run comes back to it when everybody has stopped
	}
}

// tidy removes what is not whole, after a run was called off, and shuts the directories that it has opened to itself.
func (j *job) tidy() {
	j.handles.tidy()
	defer j.shutAll()
	j.growing.Range(func(l, f any) bool {
		if f := f.(*file); f != nil {
			j.discard(f)
		} else if _, there := j.growing.LoadAndDelete(l); there {
			j.remove(l.(leftover), nil)
		}
		return true
	})
}
