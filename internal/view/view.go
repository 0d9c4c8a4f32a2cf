// Package view is a repository as a read-only tree: folders that are listed in parts, and files that are read at any
// offset. What it shows is computed from the pages of the trees; it keeps one small value per folder that a caller
// holds, and the pages read last.
//
//	Root ── latest, snapshots/, hosts/, tags/ ──► Snapshot ──► folder ──► folder ──► file
//	         names of listed snapshots             tree pages, by number or name      chunks, by offset
//
// Folders and files are safe for concurrent use.
package view

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Entry is one object in a folder.
type Entry struct {
	Number uint64 // its place in the folder, which stays as long as the folder
	Inode  uint64 // equal for the names of one object with several names, different for all other objects of the view
	Node   *tree.Node
	Folder Folder // of a directory, otherwise nil
	Moves  bool   // what is there may change: the listing of snapshots and what depends on it
}

// Folder is a directory.
type Folder interface {
	// Find returns the entry of that name. The error wraps ErrAbsent if there is none.
	Find(ctx context.Context, name string) (Entry, error)
	// Entry returns the entry of that number. The error wraps ErrAbsent if there is none.
	Entry(ctx context.Context, number uint64) (Entry, error)
	// List calls visit for the entries from that number on, in ascending order, until visit returns false.
	List(ctx context.Context, from uint64, visit func(Entry) bool) error
}

// Interrupted reports whether an error says only that the reader, or this program, was interrupted.
func Interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, localfs.ErrStopped)
}

// inode makes the inode number of an object from what identifies it; never 0, which means unknown.
func inode(parts ...any) uint64 {
	h := sha256.New()
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			_ = binary.Write(h, binary.LittleEndian, uint64(len(p)))
			h.Write([]byte(p))
		default:
			_ = binary.Write(h, binary.LittleEndian, p)
		}
	}
	return max(1, binary.LittleEndian.Uint64(h.Sum(nil)))
}
