package object

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Info is a file of the target whose name is an ID.
type Info struct {
	ID       format.ID
	Size     int64
	Modified time.Time // by the clock of the target
}

// InfoOf returns the Info of a listed file. ok is false if its name is no ID.
func InfoOf(f store.Info) (info Info, ok bool) {
	id, err := format.ParseID(f.Name.ID)
	return Info{ID: id, Size: f.Size, Modified: f.Modified}, err == nil
}

// Older orders files by their time, and those of one time by their ID.
func (f Info) Older(than Info) int {
	return cmp.Or(f.Modified.Compare(than.Modified), f.ID.Compare(than.ID))
}

// Each lists the files of a kind as Files does, in any order, without those whose names are no IDs. It ends with the
// first error.
func Each(ctx context.Context, st store.Store, kind store.Kind) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for f, err := range Files(ctx, st, kind) {
			if err != nil {
				yield(Info{}, fmt.Errorf("list %s: %w", kind, err))
				return
			}
			if info, ok := InfoOf(f); ok && !yield(info, nil) {
				return
			}
		}
	}
}

// List returns the files of a kind by ascending ID, as Each does.
func List(ctx context.Context, st store.Store, kind store.Kind) (infos []Info, err error) {
	for info, err := range Each(ctx, st, kind) {
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b Info) int { return a.ID.Compare(b.ID) })
	return infos, nil
}
