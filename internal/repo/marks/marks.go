// Package marks reads and writes the deletion marks on the target. They name packs that a prune is about to remove, or
// that are missing or damaged. Tombstones are marks that name forgotten snapshots.
package marks

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Mark is a mark on the target.
type Mark struct {
	object.Info // of its file
	*mark.Mark
}

// Name returns the name of its file.
func (m *Mark) Name() store.Name { return object.Named(store.Mark, m.ID) }

// All returns the marks on the target by ascending ID. An unreadable mark is an error, ErrDamaged if it is damaged:
// without it a snapshot could rely on a pack that is about to be removed.
func All(ctx context.Context, st store.Store, keys *seal.Keys) ([]Mark, error) {
	marks, damaged, err := Read(ctx, st, keys)
	if err == nil && len(damaged) > 0 {
		err = damaged[0].Why
	}
	if err != nil {
		return nil, err
	}
	return marks, nil
}

// Unreadable is a mark whose content is lost.
type Unreadable struct {
	Name store.Name
	Why  error // an ErrDamaged
}

// Read returns the marks by ascending ID, and those that are damaged. A writer must not continue beside a damaged one
// while a prune is running.
func Read(ctx context.Context, st store.Store, keys *seal.Keys) (marks []Mark, damaged []Unreadable, err error) {
	infos, err := object.List(ctx, st, store.Mark)
	if err != nil {
		return nil, nil, err
	}
	type read struct {
		*mark.Mark
		err error
	}
	err = object.InOrder(ctx, len(infos), object.SmallAtOnce,
		func(ctx context.Context, i int) (read, error) {
			m, err := readMark(ctx, st, keys, infos[i])
			return read{m, err}, nil
		},
		func(i int, r read) error {
			switch {
			case errors.Is(r.err, store.ErrNotExist): // a prune has just removed it
			case object.IsDamage(r.err):
				name := object.Named(store.Mark, infos[i].ID)
				damaged = append(damaged, Unreadable{name, fmt.Errorf("%w: %w", ErrDamaged, r.err)})
			case r.err != nil:
				return r.err
			default:
				marks = append(marks, Mark{infos[i], r.Mark})
			}
			return nil
		})
	if err != nil {
		return nil, nil, err
	}
	return marks, damaged, nil
}

func readMark(ctx context.Context, st store.Store, keys *seal.Keys, info object.Info) (*mark.Mark, error) {
	name := object.Named(store.Mark, info.ID)
	plain, err := object.Load(ctx, st, keys, name, info.Size)
	if err != nil {
		return nil, err
	}
	m, err := mark.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name.Path(), err)
	}
	return m, nil
}

// UnusableBy returns the packs that the given marks name.
func UnusableBy(marks []Mark) map[format.ID]bool {
	all := DamagedPacks(marks)
	maps.Copy(all, DoomedPacks(marks))
	return all
}

// DamagedPacks returns the packs that marks name as missing or damaged.
func DamagedPacks(marks []Mark) map[format.ID]bool { return packsOf(marks, true) }

// DoomedPacks returns the packs that marks name because a prune is about to remove them.
func DoomedPacks(marks []Mark) map[format.ID]bool { return packsOf(marks, false) }

func packsOf(marks []Mark, damaged bool) map[format.ID]bool {
	packs := make(map[format.ID]bool)
	for i := range marks {
		if marks[i].Damaged != damaged {
			continue
		}
		for _, id := range marks[i].Packs {
			packs[id] = true
		}
	}
	return packs
}
