package marks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Put stores a mark and reads it back.
func Put(ctx context.Context, st store.Store, keys *seal.Keys, m *mark.Mark) (Mark, error) {
	data, id := object.Seal(keys, store.Mark, mark.Encode(m))
	if err := object.Put(ctx, st, object.Named(store.Mark, id), data, true); err != nil {
		return Mark{}, fmt.Errorf("put mark: %w", err)
	}
	return Mark{object.Info{ID: id, Size: int64(len(data))}, m}, nil
}

// PutDamage marks packs as missing or damaged. The caller knows that no mark names them yet.
func PutDamage(ctx context.Context, st store.Store, keys *seal.Keys, host string, packs []format.ID) (Mark, error) {
	packs = slices.SortedFunc(slices.Values(packs), format.ID.Compare)
	return Put(ctx, st, keys, &mark.Mark{
		Packs: slices.Compact(packs), Created: time.Now().Unix(), Host: host, Damaged: true,
	})
}

// Record marks those packs and index segments as damaged that no damage mark names yet, and returns their number. An
// empty list stands for blobs in no pack: Record puts an empty mark unless one exists. The next backup then examines
// every parent snapshot that has not acknowledged the mark.
func Record(ctx context.Context, st store.Store, keys *seal.Keys, host string, packs []format.ID) (recorded int,
	err error) {
	known, _, err := Read(ctx, st, keys)
	if err != nil {
		return 0, err
	}
	damaged := DamagedPacks(known)
	var fresh []format.ID
	for _, id := range packs {
		if !damaged[id] {
			fresh = append(fresh, id)
		}
	}
	empty := func(m Mark) bool { return m.Damaged && len(m.Packs) == 0 }
	if len(fresh) == 0 && (len(packs) > 0 || slices.ContainsFunc(known, empty)) {
		return 0, nil
	}
	_, err = PutDamage(ctx, st, keys, host, fresh)
	return len(fresh), err
}
