// Package access gets into what belongs to us and shuts us out all the same: a directory without the right to write, as in
// many source trees, or a file that not even its owner may read. Root is never shut out, so nothing of this happens to him.
//
// Permissions that it widens are told to the caller, who sets them back; it refuses to know when.
package access

import (
	"errors"
	"fmt"
	"os"

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
