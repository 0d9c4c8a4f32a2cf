package restore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// file is a large regular file that is being restored. Its chunks arrive in any order, from several goroutines.
type file struct {
	entry
	temp string // name until the file is complete; empty: it grows under its own name

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

// planChunks adds the chunks of f to batches. A chunk list that is lost fails the file; an error ends the run.
func (w *walker) planChunks(ctx context.Context, f *file) error {
	n := f.node
	end := uint64(len(n.Content.Inline))
	data := end
	err := n.Content.Each(ctx, w.repo.LoadBlob, func(c tree.Chunk, off uint64) error {
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
	return nil
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
		if f.temp != "" {
			w, err = createTemp(in, f.temp)
		} else {
			w, err = in.CreateFile(f.node.Name)
		}
		return appeared(err)
	})
	if err != nil {
		return nil, err
	}
	j.partials.Store(f.partial(), f)
	if f.node.Flags != 0 {
		w.Prepare(f.node)
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
	j.finishLink(f.link, whole)
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
	ps := w.SetMeta(f.node, j.to.Apply.BeforeName())
	if f.link != nil {
		st, err := w.Stat()
		if err != nil {
			return err
		}
		f.link.setIdentity(&st)
	}
	var held *localfs.Writer // for what is set after the rename
	if localfs.Late(f.node) {
		if held, err = w.Dup(); err != nil {
			return err
		}
		defer held.Close() //nolint:errcheck // it sets metadata only
	}
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
		if err := f.rename(in); err != nil {
			return err
		}
	}
	j.partials.Delete(f.partial())
	if held != nil {
		ps = append(ps, held.SetMeta(f.node, j.to.Apply.AfterName())...)
	}
	j.noteProblems(f.path, ps)
	return nil
}

// rename moves f, which is complete, from its temporary name to its own.
func (f *file) rename(in *localfs.Dir) error {
	if !f.replaces {
		return nameNew(in, in, f.temp, f.node.Name)
	}
	if err := f.requireOld(in); err != nil {
		return err
	}
	if err := in.Rename(f.temp, f.node.Name); err != nil {
		return fmt.Errorf("give it its name: %w", err)
	}
	return nil
}

// requireOld returns an error if the object that f replaces changed since it was compared: writing f may take hours.
func (f *file) requireOld(in *localfs.Dir) error {
	var st localfs.Stat
	if f.old.Type == tree.Dir || in.Lstat(f.node.Name, &st) != nil {
		return nil
	}
	if old := f.old; st.Type != old.Type || st.Ino != old.Ino || st.Size != old.Size || st.Mtime != old.Mtime {
		return errChanged
	}
	return nil
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
