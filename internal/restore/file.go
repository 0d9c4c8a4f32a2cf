package restore

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// file is a large regular file that is being restored. Its chunks arrive in any order, from several goroutines.
type file struct {
	dir  *dir
	node tree.Node
	path string
	temp string // name until the file is complete; empty: it grows under its own name
	link *link  // set if the file has other names

	foreign  bool          // the existing object may be any other file
	replaces bool          // the existing object is to be replaced
	newer    bool          // and it was changed after the snapshot
	old      *localfs.Stat // of the existing object then

	chunksLeft atomic.Int64 // unwritten chunks, plus one for the walk
	sparse     atomic.Bool  // has holes
	sized      bool         // its last chunk ends at its size

	failed atomic.Bool // atomic, since mu is held while the file is made

	mu sync.Mutex
	w  *localfs.Writer
}

// file restores a regular file, or keeps the existing one.
func (w *walker) file(ctx context.Context, d *dir, n *tree.Node) error {
	if w.isSmall(d, n) {
		if err := w.ensureBatch(ctx); err != nil {
			return err
		}
		w.addSmall(d, n)
		return nil
	}
	f := &file{dir: d, node: *w.mapOwners(n), path: d.pathOf(n), link: w.firstName(d, n)}
	d.addEntry()
	f.chunksLeft.Store(1)
	switch keep, err := w.compareExisting(ctx, f); {
	case err != nil && context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case err != nil:
		w.failFile(f, err)
		w.chunkDone(f)
		return nil
	case keep && f.foreign:
		w.releaseName(f.link)
		w.end(d)
		return nil
	case keep:
		w.finishLink(f, true)
		w.end(d)
		return nil
	}
	if err := w.ensureBatch(ctx); err != nil {
		return err
	}
	w.batch.cost += fileCost
	end := uint64(len(n.Content.Inline))
	data := end
	err := eachChunk(ctx, w.repo.LoadBlob, &n.Content, func(c tree.Chunk, off uint64) error {
		if c.IsHole() {
			f.sparse.Store(true)
		} else {
			end = off + c.Len
			data += c.Len
		}
		if c.IsHole() || f.hasFailed() {
			return nil
		}
		f.chunksLeft.Add(1)
		return w.addChunk(ctx, chunk{ID: c.ID, To: destination{file: f}, Off: off, Len: uint32(c.Len)})
	})
	if err != nil {
		if stop := context.Cause(ctx); stop != nil || isUnreachable(err) {
			return errors.Join(stop, explainUnreachable(err))
		}
		w.damaged.addPack(err)
		w.failFile(f, err)
	}
	f.sized = end == n.Size
	if !f.hasFailed() && data < n.Size {
		w.ledger.Bytes.Restored.Add(n.Size - data) // holes exist as soon as the file has its size
	}
	if len(n.Content.Inline) > 0 {
		w.clock.Enter(report.Write)
		w.write(f, n.Content.Inline, 0)
	}
	w.clock.Enter(report.Attrs)
	w.chunkDone(f)
	w.clock.Enter(report.Unpack)
	return nil
}

// compareExisting compares f with the existing object of its name. keep is true if nothing is to be written.
func (w *walker) compareExisting(ctx context.Context, f *file) (keep bool, err error) {
	defer w.clock.Enter(w.clock.Enter(report.Write))
	if f.node.Outcome >= tree.Skipped {
		return false, errNoContent
	}
	if len(f.node.Content.Chunks) > 1 || !f.node.Content.List.IsZero() || w.keepsUnread() {
		f.temp = tempName(f.node.Name)
	}
	if !f.dir.there {
		return true, w.countDryRun(ctx, f, actionRestore, reasonMissing)
	}
	if f.dir.fresh {
		return false, nil
	}
	err = w.withDir(f.dir, func(in *localfs.Dir) (err error) {
		keep, err = w.compareExistingIn(ctx, in, f)
		return err
	})
	return keep, err
}

func (w *walker) compareExistingIn(ctx context.Context, in *localfs.Dir, f *file) (keep bool, err error) {
	if w.to.Overwrite != Always || w.survey != nil { // usually one stat is enough to keep it
		var st localfs.Stat
		if in.Lstat(f.node.Name, &st) == nil && !w.replaces(in, f.path, &f.node, &st) {
			return true, w.keepExisting(ctx, in, f, &st)
		}
	}
	e, err := in.Pin(f.node.Name, tree.File)
	switch {
	case errors.Is(err, localfs.ErrVanished):
		if w.to.DryRun {
			return true, w.countDryRun(ctx, f, actionRestore, reasonMissing)
		}
		return false, nil
	case err != nil:
		return false, err
	}
	defer e.Close()
	if err := w.checkCaseClash(f.dir, in, f.node.Name); err != nil {
		return false, err
	}
	switch {
	case !w.replaces(in, f.path, &f.node, e.Stat()):
		return true, w.keepExisting(ctx, in, f, e.Stat())
	case w.matches(ctx, e, f):
		return true, nil
	case w.to.DryRun:
		if err := w.removeExisting(f.dir, in, &f.node, e.Stat()); err != nil {
			return false, err
		}
		w.countReplaced(w.changedSince(e.Stat()))
		return true, w.countDryRun(ctx, f, actionReplace, reasonDiffers(&f.node, e.Stat()))
	}
	f.temp, f.replaces, f.newer = tempName(f.node.Name), true, w.changedSince(e.Stat())
	if err := w.permits(f.dir, in, &f.node, e.Stat()); err != nil {
		return false, err
	}
	old := *e.Stat()
	f.old = &old
	if e.Stat().Type == tree.Dir {
		return false, w.removeExisting(f.dir, in, &f.node, e.Stat())
	}
	return false, ignoreRefusal(e.Unprotect()) // it stays until its replacement is complete
}

// keepExisting keeps a file with status st because of the overwrite rule. Other names of f become links to it, unless
// it turns out to be another file.
func (w *walker) keepExisting(ctx context.Context, in *localfs.Dir, f *file, st *localfs.Stat) error {
	if err := w.checkCaseClash(f.dir, in, f.node.Name); err != nil {
		return err
	}
	if f.link != nil && w.keepsUnread() && w.survey == nil {
		f.foreign = st.Type != tree.File || st.Mtime != f.node.ModTime
		if e, err := in.Pin(f.node.Name, tree.File); err == nil {
			f.foreign = f.foreign || !w.sameContent(ctx, e, &f.node)
			st = e.Stat()
			e.Close()
		}
	}
	f.link.setIdentity(st)
	w.countKept(f)
	w.planned(f.path, actionLeave, reasonRule)
	return nil
}

// matches reports whether the existing entry e has the content of f, and corrects its metadata. A file with more links
// than in the snapshot may be shared with other programs and does not match. Neither does a file with several links and
// other metadata, since a correction would change all its names. Without root, a different owner is accepted.
func (w *walker) matches(ctx context.Context, e *localfs.Entry, f *file) bool {
	n, st := &f.node, e.Stat()
	if st.Type != tree.File || st.Size != n.Size || st.Links > max(n.Links, 1) {
		return false
	}
	if _, err := openReadable(e); err != nil {
		return false
	}
	differ := compareMetadata(e, n, st, w.to.Apply)
	if st.Links > 1 && differ != 0 && (differ != partOwner || os.Geteuid() == 0) || !w.sameContent(ctx, e, n) {
		return false
	}
	if st.Links > 1 && differ == partOwner {
		w.noteProblems(f.path, []localfs.Problem{{What: "owner", Err: errNotOwner}})
		differ = 0
	}
	if differ != 0 && st.Attr&(localfs.AttrImmutable|localfs.AttrAppend) != 0 && !w.to.DryRun {
		_ = e.Unprotect() // its flags are set again with the rest
	}
	f.link.setIdentity(st)
	if w.fixMetadata(e, f.path, n, differ) {
		w.ledger.Objects.Restored.Add(1)
		w.ledger.Bytes.Restored.Add(n.Size)
		w.planned(f.path, actionUpdate, reasonMetadata(differ))
	} else {
		w.countKept(f)
		w.planned(f.path, actionLeave, reasonSame)
	}
	return true
}

// fixMetadata sets those parts of n's metadata in which an object differs. It reports whether that changed anything.
func (j *job) fixMetadata(e *localfs.Entry, at string, n *tree.Node, differ metadataParts) bool {
	if j.to.DryRun || differ == 0 {
		return differ != 0
	}
	ps := e.Apply(n, differ.only(j.to.Apply))
	j.noteProblems(at, ps)
	return differ.without(ps) != 0
}

func (j *job) countKept(f *file) {
	j.ledger.Objects.Kept.Add(1)
	j.ledger.Bytes.Restored.Add(f.node.Size)
}

// sameContent reads an object and reports whether it is a file with the content of n.
func (j *job) sameContent(ctx context.Context, e *localfs.Entry, n *tree.Node) bool {
	f, err := openReadable(e)
	return err == nil && compareContent(ctx, j.repo.LoadBlob, f, n, j.repo.Keys().Hasher()) == nil
}

func (f *file) hasFailed() bool { return f.failed.Load() }

// failFile records the first failure of f; later ones are ignored.
func (j *job) failFile(f *file, err error) {
	if !f.failed.Swap(true) {
		j.failRestore(f.path, "restore", err)
	}
}

// open makes the file when its first chunk arrives.
func (j *job) open(f *file) (*localfs.Writer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.w != nil {
		return f.w, nil
	}
	var w *localfs.Writer
	err := j.withDir(f.dir, func(in *localfs.Dir) (err error) {
		w, err = j.create(in, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	j.partials.Store(f.partial(), f)
	if f.node.Flags != 0 {
		w.Prepare(&f.node)
	}
	f.w = w
	if f.sparse.Load() {
		// XFS preallocates space behind a growing file, and keeps it where a hole follows.
		if err := w.Truncate(int64(f.node.Size)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// create makes the file under its temporary name.
func (j *job) create(in *localfs.Dir, f *file) (w *localfs.Writer, err error) {
	switch name := f.partial().name; {
	case f.dir.plain:
		w, err = j.maker.Create(in, name, &f.node)
	case f.temp != "":
		w, err = createTemp(in, name)
	default:
		w, err = in.CreateFile(name)
	}
	return w, appeared(err)
}

// write writes verified bytes.
func (j *job) write(f *file, p []byte, off uint64) {
	w, err := j.open(f)
	if err == nil {
		_, err = w.WriteAt(p, int64(off))
	}
	if err != nil {
		j.failFile(f, err)
		return
	}
	j.ledger.Bytes.Restored.Add(uint64(len(p)))
	j.ledger.Bytes.Written.Add(uint64(len(p)))
}

// chunkDone finishes one chunk of f.
func (j *job) chunkDone(f *file) { j.chunksDone(f, 1) }

// chunksDone finishes n chunks of f, and f after the last one.
func (j *job) chunksDone(f *file, n int64) {
	if f.chunksLeft.Add(-n) > 0 {
		return
	}
	whole := !f.hasFailed()
	if whole {
		if err := j.finishFile(f); err != nil {
			j.failFile(f, err)
			whole = false
		}
	}
	if !whole {
		j.discardPartial(f)
	} else {
		j.ledger.Objects.Restored.Add(1)
		if f.replaces {
			j.countReplaced(f.newer)
		}
	}
	j.finishLink(f, whole)
	j.entryDone(f.dir)
}

// finishFile sets the file's size, metadata and name.
func (j *job) finishFile(f *file) error {
	w, err := j.open(f) // nothing was written to an empty file or a single hole
	if err != nil {
		return err
	}
	if !f.sized {
		if err := w.Truncate(int64(f.node.Size)); err != nil {
			return err
		}
	}
	ps := j.setMeta(w, f)
	flag, err := j.lateFlags(w, f)
	if err != nil {
		return err
	}
	defer flag.close()
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
		if err := f.requireOld(in); err != nil {
			return err
		}
		if err := f.dir.rename(in, f.temp, f.node.Name, f.replaces); err != nil {
			return err
		}
	}
	j.partials.Delete(f.partial())
	j.noteProblems(f.path, append(ps, flag.set()...))
	return nil
}

// requireOld returns an error if the object that f replaces changed since it was compared: writing f may take hours.
func (f *file) requireOld(in *localfs.Dir) error {
	var st localfs.Stat
	if f.old == nil || f.old.Type == tree.Dir || in.Lstat(f.node.Name, &st) != nil {
		return nil
	}
	if old := f.old; st.Type != old.Type || st.Ino != old.Ino || st.Size != old.Size || st.Mtime != old.Mtime {
		return errChanged
	}
	return nil
}

// lateFlags holds a file whose flags are set after its rename.
type lateFlags struct {
	held *localfs.Writer // nil: no flags
	node *tree.Node
	what localfs.ApplyOptions
}

// lateFlags returns the late flags of f, which w writes, and records the identity of a file with other names.
func (j *job) lateFlags(w *localfs.Writer, f *file) (lateFlags, error) {
	if f.link != nil {
		st, err := w.Stat()
		if err != nil {
			return lateFlags{}, err
		}
		f.link.setIdentity(&st)
	}
	if f.node.Flags == 0 || j.to.Apply.SkipFlags {
		return lateFlags{}, nil
	}
	held, err := w.Dup()
	return lateFlags{held, &f.node, onlyFlags(j.to.Apply)}, err
}

// onlyFlags skips all metadata but flags, which are set last.
func onlyFlags(what localfs.ApplyOptions) localfs.ApplyOptions {
	return localfs.ApplyOptions{
		SkipOwner: true, SkipMode: true, SkipXattrs: true, SkipTimes: true, ForeignFlags: what.ForeignFlags,
	}
}

func (f *lateFlags) set() []localfs.Problem {
	if f.held == nil {
		return nil
	}
	return f.held.SetMeta(f.node, f.what)
}

func (f *lateFlags) close() {
	if f.held != nil {
		_ = f.held.Close()
	}
}

// setMeta sets all metadata but flags: an immutable file cannot be renamed.
func (j *job) setMeta(w *localfs.Writer, f *file) []localfs.Problem {
	if f.dir.plain {
		return j.maker.Finish(w, &f.node)
	}
	what := j.to.Apply
	what.SkipFlags = true
	return w.SetMeta(&f.node, what)
}

// discardPartial removes a file that cannot be completed. Under its real name it could be mistaken for the complete
// file.
func (j *job) discardPartial(f *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.w != nil {
		_ = f.w.Close()
		f.w = nil
	}
	at := f.partial()
	if _, there := j.partials.LoadAndDelete(at); there {
		j.removePartial(at, f)
	}
}

// partialFile is an incomplete file in the target.
type partialFile struct {
	dir  *dir
	name string
}

// partial returns the name under which f grows.
func (f *file) partial() partialFile {
	if f.temp != "" {
		return partialFile{f.dir, f.temp}
	}
	return partialFile{f.dir, f.node.Name}
}

// removePartial removes an incomplete file; f is nil for a small file.
func (j *job) removePartial(l partialFile, f *file) {
	err := j.withDir(l.dir, func(in *localfs.Dir) error { return in.Remove(l.name, false) })
	if errors.Is(err, localfs.ErrStopped) {
		j.partials.Store(l, f) // Run retries after all workers have stopped
	}
}

// cleanUp removes incomplete files after a cancelled run, and resets the permissions of widened directories.
func (j *job) cleanUp() {
	j.handles.ungate()
	defer j.restoreAllPermissions()
	j.partials.Range(func(l, f any) bool {
		if f := f.(*file); f != nil {
			j.discardPartial(f)
		} else if _, there := j.partials.LoadAndDelete(l); there {
			j.removePartial(l.(partialFile), nil)
		}
		return true
	})
}
