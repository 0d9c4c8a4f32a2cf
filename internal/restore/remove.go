package restore

import (
	"errors"
	"io/fs"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// unprotect removes the flags that protect an object from being replaced.
func unprotect(in *localfs.Dir, name string) error { return ignoreRefusal(in.Unprotect(name)) }

// ignoreRefusal drops the errors of unprotect that do not prevent the replacement, or that the replacement reports
// itself.
func ignoreRefusal(err error) error {
	if localfs.Unsupported(err) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// isMountPoint reports whether the entry of in with status st is a mount point.
func isMountPoint(in *localfs.Dir, st *localfs.Stat) bool {
	if st.Type != tree.Dir || st.Attr&localfs.AttrMountRoot != 0 {
		return st.Type == tree.Dir
	}
	own, err := in.Fstat()
	return err != nil || own.Dev != st.Dev
}

// removeTree removes an entry and everything below it, and returns the number of removed objects. It follows no link,
// and keeps mounted file systems, repositories and key files.
func removeTree(in *localfs.Dir, name string) (removed uint64, err error) {
	var st localfs.Stat
	if err := in.Lstat(name, &st); err != nil {
		if errors.Is(err, localfs.ErrVanished) {
			return 0, nil
		}
		return 0, err
	}
	if isMountPoint(in, &st) {
		return 0, errMounted
	}
	if st.Type == tree.File && isKeyFile(name) {
		return 0, errKeyFile
	}
	if err := unprotect(in, name); err != nil {
		return 0, err
	}
	if st.Type == tree.Dir {
		if removed, err = removeContents(in, name); err != nil {
			return removed, err
		}
	}
	if err := in.Remove(name, st.Type == tree.Dir); err != nil {
		return removed, err
	}
	return removed + 1, nil
}

// countTree returns how many objects removeTree would remove, as far as they can be listed.
func countTree(in *localfs.Dir, name string) (n uint64) {
	var st localfs.Stat
	if in.Lstat(name, &st) != nil || isMountPoint(in, &st) {
		return 0
	}
	if st.Type == tree.File && isKeyFile(name) {
		return 0
	}
	if st.Type != tree.Dir {
		return 1
	}
	sub, err := in.Open(name)
	if err != nil {
		return 1
	}
	defer sub.Release()
	var names []string
	_ = sub.Entries(make([]byte, 16<<10), func(name []byte, _ tree.Type, _ uint64) error {
		names = append(names, string(name))
		return nil
	})
	if isRepository(names) {
		return 0
	}
	n = 1
	for _, entry := range names {
		n += countTree(sub, entry)
	}
	return n
}

// removeContents empties the directory name. If its permissions deny that, they are widened.
func removeContents(in *localfs.Dir, name string) (removed uint64, err error) {
	removed, err = removeEntries(in, name)
	if !isDenied(err) {
		return removed, err
	}
	if _, ok := widenMode(in, name); !ok {
		return removed, err
	}
	more, err := removeEntries(in, name)
	return removed + more, err
}

func removeEntries(in *localfs.Dir, name string) (removed uint64, err error) {
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
	if isRepository(names) {
		return 0, errRepository
	}
	for _, entry := range names {
		n, err := removeTree(sub, entry)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}
