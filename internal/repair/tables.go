package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// segment is an index segment that counts.
type segment struct {
	id  format.ID
	seg *index.Segment
	err error // why it cannot be read
}

// eachSegment visits the index segments that no other supersedes. Those that cannot be read are visited with their
// error.
func eachSegment(ctx context.Context, r *repo.Repository, visit func(segment) error) error {
	var infos []store.Info
	for info, err := range r.Store().List(ctx, store.Index) {
		if err != nil {
			return fmt.Errorf("list index: %w", err)
		}
		if _, err := format.ParseID(info.Name.ID); err == nil {
			infos = append(infos, info)
		}
	}
	superseded := make(map[format.ID]bool)
	for _, visit := range []func(segment) error{
		func(s segment) error {
			if s.err == nil {
				for _, old := range s.seg.Supersedes {
					superseded[old] = true
				}
			}
			return nil
		},
		visit,
	} {
		for _, info := range infos {
			id, _ := format.ParseID(info.Name.ID)
			if superseded[id] {
				continue
			}
			s := segment{id: id}
			plain, err := object.Load(ctx, r.Store(), r.Keys(), info.Name, info.Size)
			if err == nil {
				s.seg, err = index.Decode(plain)
			}
			if errors.Is(err, store.ErrNotExist) {
				continue // another writer has replaced it
			}
			if s.err = err; err != nil && !object.IsDamage(err) {
				return fmt.Errorf("read index: %w", err)
			}
			if err := visit(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// packFile is a pack on the target.
type packFile struct {
	id   format.ID
	size int64
}

// listPacks returns the packs by ascending ID.
func listPacks(ctx context.Context, r *repo.Repository) (files []packFile, err error) {
	for info, err := range r.Store().List(ctx, store.Pack) {
		if err != nil {
			return nil, fmt.Errorf("list packs: %w", err)
		}
		if id, err := format.ParseID(info.Name.ID); err == nil {
			files = append(files, packFile{id, info.Size})
		}
	}
	slices.SortFunc(files, func(a, b packFile) int { return a.id.Compare(b.id) })
	return files, nil
}

// ownTable reads the table of a pack from the pack itself.
func ownTable(ctx context.Context, r *repo.Repository, f packFile) (blobindex.OwnTable, error) {
	return blobindex.ReadTable(ctx, r.Store(), r.Keys(), f.id, f.size)
}

// noPrune fails if a prune is at work.
func noPrune(ctx context.Context, s *repo.Session) error {
	others, err := s.Others(ctx)
	if err != nil {
		return err
	}
	for i := range others {
		if o := &others[i]; o.Alive && o.Lease.Task == session.PruneTask {
			return fmt.Errorf("%w: process %d on %s", ErrBusy, o.Lease.PID, o.Lease.Host)
		}
	}
	return nil
}
