package restore

import (
	"errors"
	"io/fs"
	"os"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// privateEntry is the name of the object in a private directory.
const privateEntry = tempPrefix + "inside" + tempSuffix

const othersMask = 0o077 // permissions of group and others

// makePrivateDir makes a temporary directory that only we can enter, and opens it. It replaces the leftover of a killed
// restore. The caller removes it when it is empty.
func makePrivateDir(in *localfs.Dir, temp string) (*localfs.Dir, error) {
	err := in.Mkdir(temp, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if old, err := in.Open(temp); err == nil {
			_ = old.Remove(privateEntry, false)
			old.Release()
		}
		if in.Remove(temp, true) == nil || in.Remove(temp, false) == nil {
			err = in.Mkdir(temp, 0o700)
		}
	}
	if err != nil {
		return nil, err
	}
	made, err := in.Open(temp)
	if err != nil {
		return nil, err
	}
	if err := requirePrivate(made); err != nil {
		made.Release()
		return nil, err
	}
	return made, nil
}

// requirePrivate returns an error unless a directory that was just made, and opened by its name, is ours alone and
// empty.
func requirePrivate(made *localfs.Dir) error {
	st, err := made.Fstat()
	if err != nil {
		return err
	}
	if st.UID != uint32(os.Geteuid()) || st.Mode&othersMask != 0 {
		return errSwapped
	}
	return made.Entries(nil, func([]byte, tree.Type, uint64) error { return errSwapped })
}

// keepsOwnership reports whether a new file in a directory belongs to us and has the permissions it was made with. Some
// file systems have neither, and some servers map users to another one; there, a restore cannot set owners either.
func keepsOwnership(in *localfs.Dir) bool {
	name := tempName("owner")
	w, err := createTemp(in, name)
	if err != nil {
		return false
	}
	st, err := w.Stat()
	_ = w.Close()
	_ = in.Remove(name, false)
	return err == nil && st.UID == uint32(os.Geteuid()) && st.Mode&othersMask == 0
}

// isShared reports whether other users can change the names in a directory with status st. There a name may lead to
// another object between two calls.
func isShared(st *localfs.Stat) bool {
	const writable = 0o022
	return st.UID != uint32(os.Geteuid()) || st.Mode&writable != 0
}

// needsPrivateDir reports whether new objects in d, open as in, must be finished in a private directory: other users
// can change names there, and the file system keeps owners.
func (j *job) needsPrivateDir(d *dir, in *localfs.Dir) bool {
	if !d.shared {
		return false
	}
	j.mu.Lock()
	keeps, known := j.ownershipKept[d.id.dev]
	j.mu.Unlock()
	if !known {
		keeps = keepsOwnership(in)
		j.mu.Lock()
		j.ownershipKept[d.id.dev] = keeps
		j.mu.Unlock()
	}
	return keeps
}
