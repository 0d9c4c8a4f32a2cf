// Package temp makes files under temporary names, which they have until they are whole. Such a name follows from the real
// one, so that what a killed restore left behind is found and replaced by the next one.
//
// It refuses to know where contents come from.
package temp

import (
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const prefix, suffix, digits = ".tidemark-", ".part", 16

// Name is where the content of a file grows until it is whole.
func Name(name string) string {
	sum := blake3.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:digits/2]) + suffix
}

// Is tells whether Name can return name.
func Is(name string) bool {
	hash := strings.TrimSuffix(strings.TrimPrefix(name, prefix), suffix)
	return len(hash) == digits && name == prefix+hash+suffix && strings.Trim(hash, "0123456789abcdef") == ""
}

// Names returns the temporary names of these files.
func Names(names map[string]bool) map[string]bool {
	temps := make(map[string]bool, len(names))
	for name := range names {
		temps[Name(name)] = true
	}
	return temps
}

// Create makes a file by a temporary name, in place of what a killed restore left there.
func Create(in *localfs.Dir, temp string) (*localfs.Writer, error) {
	w, err := in.CreateFile(temp)
	if err != nil && in.Remove(temp, false) == nil {
		w, err = in.CreateFile(temp)
	}
	return w, err
}

// Copy makes the file n in a directory, with the content of another one and what is wanted of its metadata, and returns what of
// that could not be set.
func Copy(from *localfs.File, in *localfs.Dir, n *tree.Node, what localfs.ApplyOptions) (ps []localfs.Problem, err error) {
	temp := Name(n.Name)
	to, err := Create(in, temp)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err == nil {
			err = in.Rename(temp, n.Name)
		}
		if err != nil {
			_ = in.Remove(temp, false)
		}
	}()
	buf := make([]byte, 1<<20)
	err = from.Extents(n.Size, func(off, length uint64, hole bool) error {
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
	return to.SetMeta(n, what), nil
}
