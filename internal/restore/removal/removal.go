// Package removal removes entries of a directory of the target, with everything below them. It follows no link, leaves alone
// what another file system is mounted on and every repository of backups, takes off flags that protect an object, and gets
// into directories of ours that shut us out.
//
// It refuses to know why something is to go.
package removal

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/restore/access"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// What is left alone, with all that lies there.
var (
	ErrMounted    = errors.New("another file system is mounted there: it is left alone")
	ErrRepository = errors.New("it is a repository of backups, which no restore removes: remove it by hand if it is to go")
)

// Repository reports whether a directory with these entries is a repository. One that lies in a source is in no snapshot of it,
// so that to remove what is not in the snapshot would be to remove the very backups that are restored from.
func Repository(names []string) bool {
	for _, name := range []string{"config", "keys", "packs", "snapshots"} {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// Unprotect takes off what keeps an object from being replaced. Whoever may not look whether there is something to take
// off may still be allowed to replace it: if not, that will say so.
func Unprotect(in *localfs.Dir, name string) error {
	err := in.Unprotect(name)
	if localfs.Unsupported(err) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// Mounted reports whether a file system is mounted on an entry of in, of which st tells.
func Mounted(in *localfs.Dir, st *localfs.Stat) bool {
	if st.Type != tree.Dir || st.Attr&localfs.AttrMountRoot != 0 {
		return st.Type == tree.Dir
	}
	own, err := in.Fstat()
	return err != nil || own.Dev != st.Dev
}

// All removes an entry and everything below it, and returns how many objects went.
func All(in *localfs.Dir, name string) (removed uint64, err error) {
	var st localfs.Stat
	if err := in.Lstat(name, &st); err != nil {
		if errors.Is(err, localfs.ErrVanished) {
			return 0, nil
		}
		return 0, err
	}
	if Mounted(in, &st) {
		return 0, ErrMounted
	}
	if err := Unprotect(in, name); err != nil {
		return 0, err
	}
	if st.Type == tree.Dir {
		if removed, err = contents(in, name); err != nil {
			return removed, err
		}
	}
	if err := in.Remove(name, st.Type == tree.Dir); err != nil {
		return removed, err
	}
	return removed + 1, nil
}

// contents empties the directory name. If permissions shut us out of it, they go, as it will go itself.
func contents(in *localfs.Dir, name string) (removed uint64, err error) {
	removed, err = emptied(in, name)
	if !access.Denied(err) {
		return removed, err
	}
	if _, ok := access.Widen(in, name); !ok {
		return removed, err
	}
	more, err := emptied(in, name)
	return removed + more, err
}

func emptied(in *localfs.Dir, name string) (removed uint64, err error) {
	sub, err := in.Open(name)
	if err != nil {
		return 0, err
	}
	defer sub.Release()
	var names []string
	if err := sub.Entries(make([]byte, 16<<10), func(name []byte, _ tree.Type, _ uint64) error {
		names = append(names, string(name))
		return nil
	}); err != nil {
		return 0, err
	}
	if Repository(names) {
		return 0, ErrRepository
	}
	for _, entry := range names {
		n, err := All(sub, entry)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}
