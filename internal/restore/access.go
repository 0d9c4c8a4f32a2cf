package restore

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Some directories of the restoring user lack the right to write, and some of its files the right to read. The restore
// adds the missing permission bits for as long as it needs them. Root needs none of this.

// The owner's permission bits that are needed to change the content of a directory, and to read a file.
const (
	ownerAll  = 0o700
	ownerRead = 0o400
)

func isDenied(err error) bool { return errors.Is(err, unix.EACCES) }

func ownedByUs(st *localfs.Stat) bool { return st.UID == uint32(os.Geteuid()) }

// widenMode adds the owner's missing permission bits to the directory name of in, or to in itself if name is ".". It
// returns the previous permissions; ok is false if nothing was changed.
func widenMode(in *localfs.Dir, name string) (was uint32, ok bool) {
	e, st, err := pinOrSelf(in, name)
	if err != nil {
		return 0, false
	}
	defer e.Close()
	if st.Type != tree.Dir || !ownedByUs(&st) || st.Mode&ownerAll == ownerAll {
		return 0, false
	}
	return st.Mode, setPermissions(e, tree.Dir, st.Mode|ownerAll) == nil
}

func pinOrSelf(in *localfs.Dir, name string) (e *localfs.Entry, st localfs.Stat, err error) {
	if name == "." {
		st, err = in.Fstat()
		return in.Self(), st, err
	}
	if e, err = in.Pin(name, tree.Dir); err == nil {
		st = *e.Stat()
	}
	return e, st, err
}

// widenedDirs holds the original permissions of the directories that widenMode changed. It is safe for concurrent use.
type widenedDirs struct {
	never bool // a dry run changes nothing

	mu  sync.Mutex
	was map[*dir]uint32
}

// widen calls widenMode for d, the entry name of in or in itself. It reports whether a denied call is worth repeating.
func (w *widenedDirs) widen(d *dir, in *localfs.Dir, name string) bool {
	if w.never {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.was[d]; ok { // another goroutine was faster
		return true
	}
	was, ok := widenMode(in, name)
	if ok {
		if w.was == nil {
			w.was = map[*dir]uint32{}
		}
		w.was[d] = was
	}
	return ok
}

// take removes d from the set and returns its original permissions.
func (w *widenedDirs) take(d *dir) (was uint32, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, ok = w.was[d]
	delete(w.was, d)
	return was, ok
}

func (w *widenedDirs) all() map[*dir]uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.was)
}

// setPermissions sets the mode of an object and nothing else.
func setPermissions(e *localfs.Entry, typ tree.Type, mode uint32) error {
	ps := e.Apply(&tree.Node{Type: typ, Mode: mode}, localfs.ApplyOptions{
		SkipOwner: true, SkipXattrs: true, SkipTimes: true, SkipFlags: true,
	})
	if len(ps) > 0 {
		return fmt.Errorf("set permissions: %w", ps[0].Err)
	}
	return nil
}

// openReadable opens a regular file, which the Entry closes. An unreadable file of ours is made readable while it is
// being opened.
func openReadable(e *localfs.Entry) (*localfs.File, error) {
	f, err := e.Open()
	if !isDenied(err) {
		return f, err
	}
	st := e.Stat()
	if st.Type != tree.File || !ownedByUs(st) || st.Mode&ownerRead != 0 {
		return nil, err
	}
	if setPermissions(e, tree.File, st.Mode|ownerRead) != nil {
		return nil, err
	}
	f, err = e.Open()
	return f, errors.Join(err, setPermissions(e, tree.File, st.Mode))
}

// restorePermissions resets the permissions of d if they were widened.
func (j *job) restorePermissions(d *dir) error {
	was, ok := j.handles.widened.take(d)
	if !ok {
		return nil
	}
	h, err := j.handles.get(d)
	if err != nil {
		return err
	}
	defer h.Release()
	return setPermissions(h.Self(), tree.Dir, was)
}

// restoreAllPermissions resets the permissions of all directories that are still widened.
func (j *job) restoreAllPermissions() {
	for d := range j.handles.widened.all() {
		_ = j.restorePermissions(d)
	}
}

// doneReading resets the permissions of a directory that was only read, and closes it.
func (j *job) doneReading(d *dir) {
	if err := j.restorePermissions(d); err != nil {
		j.fail(d.path, "reset permissions", err)
	}
	j.handles.drop(d)
}
