// Package access gets into what belongs to us and shuts us out all the same: a directory without the right to write, as in
// many source trees, or a file that not even its owner may read. Root is never shut out, so nothing of this happens to him.
//
// Permissions that it widens are told to the caller, who sets them back; it refuses to know when.
package access

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

// What we need to have of a directory to change what is in it, and of a file to read it.
const (
	wholeDir = 0o700
	readFile = 0o400
)

// Denied reports whether err says that permissions shut us out.
func Denied(err error) bool { return errors.Is(err, unix.EACCES) }

// Widen gives us all rights to the directory name of in, or to in itself if name is ".", if it is ours and lacks one. was
// are the permissions it had; ok is false if nothing was changed.
func Widen(in *localfs.Dir, name string) (was uint32, ok bool) {
	st, err := look(in, name)
	if err != nil || st.Type != tree.Dir || !ours(&st) || st.Mode&wholeDir == wholeDir {
		return 0, false
	}
	return st.Mode, Set(in, name, tree.Dir, st.Mode|wholeDir) == nil
}

// Widened are directories that were widened, by what the caller knows them by, and the permissions that they had. It is for
// several goroutines.
type Widened[K comparable] struct {
	Never bool // a dry run changes nothing

	mu  sync.Mutex
	was map[K]uint32
}

// Widen gives us all rights to the directory key, the entry name of in or in itself. False: that changes nothing.
func (w *Widened[K]) Widen(key K, in *localfs.Dir, name string) bool {
	if w.Never {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.was[key]; ok { // by somebody else, since we were refused
		return true
	}
	was, ok := Widen(in, name)
	if ok {
		if w.was == nil {
			w.was = map[K]uint32{}
		}
		w.was[key] = was
	}
	return ok
}

// Take forgets a directory, and returns the permissions that it had.
func (w *Widened[K]) Take(key K) (was uint32, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, ok = w.was[key]
	delete(w.was, key)
	return was, ok
}

// All returns them.
func (w *Widened[K]) All() map[K]uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.was)
}

// Set sets the permissions of the entry name of in, or of in itself if name is ".".
func Set(in *localfs.Dir, name string, typ tree.Type, mode uint32) error {
	ps := in.Apply(name, &tree.Node{Type: typ, Mode: mode}, localfs.ApplyOptions{
		SkipOwner: true, SkipXattrs: true, SkipTimes: true, SkipFlags: true,
	})
	if len(ps) > 0 {
		return fmt.Errorf("set permissions of %q: %w", name, ps[0].Err)
	}
	return nil
}

// Open opens a regular file. One of ours that may not be read is made readable for the moment in which it is opened.
func Open(in *localfs.Dir, name string) (*localfs.File, error) {
	f, err := in.OpenFile(name)
	if !Denied(err) {
		return f, err
	}
	st, lookErr := look(in, name)
	if lookErr != nil || st.Type != tree.File || !ours(&st) || st.Mode&readFile != 0 {
		return nil, err
	}
	if Set(in, name, tree.File, st.Mode|readFile) != nil {
		return nil, err
	}
	f, err = in.OpenFile(name)
	return f, errors.Join(err, Set(in, name, tree.File, st.Mode))
}

func look(in *localfs.Dir, name string) (st localfs.Stat, err error) {
	if name == "." {
		return in.Fstat()
	}
	err = in.Lstat(name, &st)
	return st, err
}

func ours(st *localfs.Stat) bool { return st.UID == uint32(os.Geteuid()) }
