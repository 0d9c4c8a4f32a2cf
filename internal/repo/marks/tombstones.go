package marks

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

const (
	// tombstoneName is how many bytes of the hash are the name of a tombstone. Marks have longer names, so a writer
	// that reads the marks does not read the tombstones.
	tombstoneName = 16
	// tombstonesKept is how long a tombstone stays. A machine that is away for longer warns of forgotten snapshots.
	tombstonesKept = 365 * 24 * time.Hour
)

// Tombstone reports whether a file has the name of a tombstone.
func Tombstone(name store.Name) bool {
	return name.Kind == store.Mark && len(name.ID) == 2*tombstoneName && store.ValidID(name.ID)
}

// TombstoneOf returns the name of a tombstone whose file has this hash.
func TombstoneOf(hash format.ID) store.Name {
	return store.Name{Kind: store.Mark, ID: hex.EncodeToString(hash[:tombstoneName])}
}

// PutTombstone records in the repository that snapshots were forgotten on purpose, with the contents that are given.
func PutTombstone(ctx context.Context, st store.Store, keys *seal.Keys, snapshots []format.ID,
	contents map[format.ID][]byte) error {
	m := &mark.Mark{Created: time.Now().Unix(), Forgotten: snapshots, Contents: contents}
	data, id := object.Seal(keys, store.Mark, mark.Encode(m))
	if err := object.Put(ctx, st, TombstoneOf(id), data, true); err != nil {
		return fmt.Errorf("record forgotten snapshots: %w", err)
	}
	return nil
}

// RetractTombstones removes the record that these snapshots were forgotten: they could not be removed.
func RetractTombstones(ctx context.Context, st store.Store, keys *seal.Keys, stay []format.ID) error {
	infos, err := tombstones(ctx, st)
	if err != nil {
		return err
	}
	for i := 0; i < len(infos) && len(stay) > 0; i++ {
		m, err := LoadTombstone(ctx, st, keys, infos[i])
		if err != nil {
			continue // it names nothing
		}
		gone := slices.DeleteFunc(slices.Clone(m.Forgotten), func(id format.ID) bool { return slices.Contains(stay, id) })
		if len(gone) == len(m.Forgotten) {
			continue
		}
		if len(gone) > 0 {
			if err := PutTombstone(ctx, st, keys, gone, m.Contents); err != nil {
				return err
			}
		}
		if err := store.Discard(ctx, st, infos[i].Name); err != nil {
			return fmt.Errorf("remove tombstone: %w", err)
		}
		stay = slices.DeleteFunc(slices.Clone(stay), func(id format.ID) bool { return slices.Contains(m.Forgotten, id) })
	}
	return nil
}

// LoadTombstone returns a tombstone.
func LoadTombstone(ctx context.Context, st store.Store, keys *seal.Keys, info store.Info) (*mark.Mark, error) {
	data, err := object.ReadFile(ctx, st, info.Name, info.Size)
	if err != nil {
		return nil, err
	}
	if TombstoneOf(seal.FileID(data)) != info.Name {
		return nil, fmt.Errorf("read %s: its name is not the hash of its bytes: %w", info.Name.Path(), format.ErrCorrupt)
	}
	plain, err := keys.OpenObject(seal.MarkObject, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Name.Path(), err)
	}
	m, err := mark.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Name.Path(), err)
	}
	return m, nil
}

// tombstones lists the tombstones, newest first.
func tombstones(ctx context.Context, st store.Store) (infos []store.Info, err error) {
	for info, err := range st.List(ctx, store.Mark) {
		if err != nil {
			return nil, fmt.Errorf("list marks: %w", err)
		}
		if Tombstone(info.Name) {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b store.Info) int { return b.Modified.Compare(a.Modified) })
	return infos, nil
}

// WithoutTombstone returns those of the snapshots that no tombstone names. It reads the newest tombstones first, and no
// more than it needs. A damaged tombstone names nothing.
func WithoutTombstone(ctx context.Context, st store.Store, keys *seal.Keys, snapshots []format.ID) ([]format.ID,
	error) {
	left := slices.Clone(snapshots)
	err := eachTombstone(ctx, st, keys, func(m *mark.Mark, _ time.Time) (more bool) {
		left = slices.DeleteFunc(left, func(id format.ID) bool {
			_, found := slices.BinarySearchFunc(m.Forgotten, id, format.ID.Compare)
			return found
		})
		return len(left) > 0
	})
	if err != nil {
		return nil, err
	}
	return left, nil
}

// eachTombstone visits the tombstones, newest first, and when each was stored, until visit wants no more. It leaves out
// those that name nothing: they are damaged, of a newer program, or just removed.
func eachTombstone(ctx context.Context, st store.Store, keys *seal.Keys,
	visit func(m *mark.Mark, at time.Time) (more bool)) error {
	infos, err := tombstones(ctx, st)
	if err != nil {
		return err
	}
	for _, info := range infos {
		m, err := LoadTombstone(ctx, st, keys, info)
		switch {
		case object.IsDamage(err), errors.Is(err, store.ErrNotExist), errors.Is(err, format.ErrUnsupported):
		case err != nil:
			return err
		case !visit(m, info.Modified):
			return nil
		}
	}
	return nil
}

// Forgotten visits the forgotten snapshots whose content is in a tombstone. at is when the tombstone was stored.
func Forgotten(ctx context.Context, st store.Store, keys *seal.Keys,
	visit func(id format.ID, content []byte, at time.Time)) error {
	return eachTombstone(ctx, st, keys, func(m *mark.Mark, at time.Time) (more bool) {
		for _, id := range m.Forgotten {
			if content := m.Contents[id]; len(content) > 0 {
				visit(id, content, at)
			}
		}
		return true
	})
}

// StaleTombstones returns the tombstones that are damaged or older than a year.
func StaleTombstones(ctx context.Context, st store.Store, keys *seal.Keys, now time.Time) ([]store.Name, error) {
	infos, err := tombstones(ctx, st)
	if err != nil {
		return nil, err
	}
	var stale []store.Name
	err = object.InOrder(ctx, len(infos), object.SmallAtOnce,
		func(ctx context.Context, i int) (bool, error) {
			if now.Sub(infos[i].Modified) >= tombstonesKept {
				return true, nil
			}
			_, err := LoadTombstone(ctx, st, keys, infos[i])
			return object.IsDamage(err), nil
		},
		func(i int, old bool) error {
			if old {
				stale = append(stale, infos[i].Name)
			}
			return nil
		})
	return stale, err
}
