// Package marks reads and writes the deletion marks on the target. They name packs that a prune is about to remove, or
// that are missing or damaged. Tombstones are marks that name forgotten snapshots.
package marks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Mark is a mark on the target.
type Mark struct {
	ID   format.ID
	Info store.Info // from the listing
	*mark.Mark
}

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
	var infos []store.Info
	for info, err := range object.Files(ctx, st, store.Mark) {
		if err != nil {
			return nil, nil, fmt.Errorf("list marks: %w", err)
		}
		if _, err := format.ParseID(info.Name.ID); err == nil { // else not a name of this program
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b store.Info) int { return strings.Compare(a.Name.ID, b.Name.ID) })
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
				damaged = append(damaged, Unreadable{infos[i].Name, fmt.Errorf("%w: %w", ErrDamaged, r.err)})
			case r.err != nil:
				return r.err
			default:
				id, _ := format.ParseID(infos[i].Name.ID)
				marks = append(marks, Mark{id, infos[i], r.Mark})
			}
			return nil
		})
	if err != nil {
		return nil, nil, err
	}
	return marks, damaged, nil
}

func readMark(ctx context.Context, st store.Store, keys *seal.Keys, info store.Info) (*mark.Mark, error) {
	plain, err := object.Load(ctx, st, keys, info.Name, info.Size)
	if err != nil {
		return nil, err
	}
	m, err := mark.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Name.Path(), err)
	}
	return m, nil
}

// Doomed returns the packs that marks name, and fails as All does.
func Doomed(ctx context.Context, st store.Store, keys *seal.Keys) (map[format.ID]struct{}, error) {
	marks, err := All(ctx, st, keys)
	if err != nil {
		return nil, err
	}
	return UnusableBy(marks), nil
}

// UnusableBy returns the packs that the given marks name.
func UnusableBy(marks []Mark) map[format.ID]struct{} {
	doomed := make(map[format.ID]struct{})
	for i := range marks {
		for _, id := range marks[i].Packs {
			doomed[id] = struct{}{}
		}
	}
	return doomed
}
