package restore

import (
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const tempPrefix, tempSuffix, tempDigits = ".tidemark-", ".part", 16

// tempName returns the name under which a file grows until it is complete. It depends on the real name only, so a later
// run finds and replaces the leftover of a killed one.
func tempName(name string) string {
	sum := blake3.Sum256([]byte(name))
	return tempPrefix + hex.EncodeToString(sum[:tempDigits/2]) + tempSuffix
}

// isTempName reports whether tempName can return name.
func isTempName(name string) bool {
	hash := strings.TrimSuffix(strings.TrimPrefix(name, tempPrefix), tempSuffix)
	return len(hash) == tempDigits && name == tempPrefix+hash+tempSuffix && strings.Trim(hash, "0123456789abcdef") == ""
}

// tempNames returns the temporary names of these files.
func tempNames(names map[string]bool) map[string]bool {
	temps := make(map[string]bool, len(names))
	for name := range names {
		temps[tempName(name)] = true
	}
	return temps
}

// removeProtected removes a file that a killed run may have protected.
func removeProtected(in *localfs.Dir, name string) error {
	err := in.Remove(name, false)
	if err != nil && in.Unprotect(name) == nil {
		err = in.Remove(name, false)
	}
	return err
}

// createTemp makes a file under a temporary name, replacing the leftover of a killed restore.
func createTemp(in *localfs.Dir, temp string) (*localfs.Writer, error) {
	w, err := in.CreateFile(temp)
	if err != nil && removeProtected(in, temp) == nil {
		w, err = in.CreateFile(temp)
	}
	return w, err
}

// copyFile makes the file n with the content of another one, and returns the metadata that could not be set.
func copyFile(from *localfs.File, in *localfs.Dir, n *tree.Node, what localfs.ApplyOptions) (ps []localfs.Problem,
	err error) {
	temp := tempName(n.Name)
	to, err := createTemp(in, temp)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err == nil {
			err = in.Rename(temp, n.Name)
		}
		if err == nil && localfs.Late(n) {
			ps = append(ps, in.Apply(n.Name, n, what.AfterName())...)
		}
		if err != nil {
			_ = in.Remove(temp, false)
		}
	}()
	buf := make([]byte, 1<<20)
	err = from.Extents(0, n.Size, func(off, length uint64, hole bool) error {
		for end := off + length; !hole && off < end; {
			k, err := from.ReadAt(buf[:min(uint64(len(buf)), end-off)], int64(off))
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if _, err := to.WriteAt(buf[:k], int64(off)); err != nil {
				return err
			}
			if off += uint64(k); k == 0 {
				return io.ErrUnexpectedEOF
			}
		}
		return nil
	})
	if err == nil {
		err = to.Truncate(int64(n.Size))
	}
	if err != nil {
		return nil, err
	}
	return to.SetMeta(n, what.BeforeName()), nil
}
