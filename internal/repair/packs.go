package repair

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/rewrite"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// Salvaged is what became of one damaged pack.
type Salvaged struct {
	ID      format.ID `json:"id"`      // the pack
	Missing bool      `json:"missing"` // true if nothing of it is readable
	Frames  uint64    `json:"frames"`  // counts
	Bad     uint64    `json:"frames_damaged"`
	Saved   uint64    `json:"blobs_saved"`
}

// PacksResult is what a repair of packs found and did.
type PacksResult struct {
	DryRun bool       `json:"dry_run,omitempty"`
	Packs  []Salvaged `json:"salvaged"`     // list of *salvaged*
	Lost   uint64     `json:"objects_lost"` // files and folders that lost data
	Losses Losses     `json:"-"`            // what cannot be had any more
}

// Packs reads the packs again that marks name as missing or damaged, and stores what can be read of them in other
// packs. prefixes choose some of them by the beginnings of their names; none: all. Then it follows all snapshots and
// records what they have lost.
func Packs(ctx context.Context, r *repo.Repository, prefixes []string, opt repo.SessionOptions) (*PacksResult, error) {
	res := &PacksResult{DryRun: opt.DryRun}
	err := r.WithSession(ctx, opt, func(ctx context.Context, s *repo.Session) error {
		chosen, err := choose(ctx, r, prefixes)
		if err != nil {
			return err
		}
		k := rewrite.NewKeeper(r, s, nil)
		tables, err := tablesOf(ctx, r, chosen)
		if err != nil {
			return err
		}
		for _, id := range slices.SortedFunc(maps.Keys(chosen), format.ID.Compare) {
			one, err := salvage(ctx, r, k, id, tables[id])
			if err != nil {
				return err
			}
			res.Packs = append(res.Packs, one)
		}
		if len(res.Packs) == 0 {
			return nil
		}
		if err := k.Flush(ctx); err != nil {
			return err
		}
		return findLosses(ctx, r, k, &res.Losses)
	})
	if err != nil {
		return res, fmt.Errorf("repair packs: %w", err)
	}
	return res, nil
}

// choose returns the packs that marks name as damaged, those with one of the prefixes if there are any.
func choose(ctx context.Context, r *repo.Repository, prefixes []string) (map[format.ID]bool, error) {
	all, err := marks.All(ctx, r.Store(), r.Keys())
	if err != nil {
		return nil, err
	}
	damaged := marks.DamagedPacks(all)
	segments, err := indexFiles(ctx, r) // marks name those that are damaged, too
	if err != nil {
		return nil, err
	}
	for id := range damaged {
		if segments[id] {
			delete(damaged, id)
		}
	}
	if len(prefixes) == 0 {
		return damaged, nil
	}
	chosen := make(map[format.ID]bool)
	for _, prefix := range prefixes {
		before := len(chosen)
		for id := range damaged {
			if prefix != "" && strings.HasPrefix(id.String(), strings.ToLower(prefix)) {
				chosen[id] = true
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("pack %q: %w", prefix, ErrNoPack)
		}
	}
	return chosen, nil
}

// tablesOf returns what is known of packs: by the index, or else by the packs themselves.
func tablesOf(ctx context.Context, r *repo.Repository, chosen map[format.ID]bool) (map[format.ID]*index.Pack,
	error) {
	tables := make(map[format.ID]*index.Pack)
	err := eachSegment(ctx, r, func(_ object.Info, seg *index.Segment, err error) error {
		for i := 0; err == nil && i < len(seg.Packs); i++ {
			p := &seg.Packs[i]
			if chosen[p.ID] {
				tables[p.ID] = p
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	files, err := object.List(ctx, r.Store(), store.Pack)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if !chosen[f.ID] || tables[f.ID] != nil {
			continue
		}
		own, err := blobindex.ReadTable(ctx, r.Store(), r.Keys(), f.ID, f.Size)
		if err != nil {
			return nil, err
		}
		if len(own.Table.Frames) > 0 {
			tables[f.ID] = &index.Pack{ID: f.ID, Size: uint64(f.Size), Table: own.Table}
		}
	}
	return tables, nil
}

// salvage stores what can be read of a pack.
func salvage(ctx context.Context, r *repo.Repository, k *rewrite.Keeper, id format.ID, p *index.Pack) (Salvaged,
	error) {
	one := Salvaged{ID: id}
	if p == nil {
		one.Missing = true
		return one, nil
	}
	reader := r.NewFrameReader()
	var spans []repo.Span
	for i := range p.Table.Frames {
		spans = append(spans, repo.Span{Offset: p.Table.Frames[i].Offset, Sealed: p.Table.Frames[i].Sealed})
	}
	one.Frames = uint64(len(spans))
	before := k.Stored()
	info := blobindex.PackInfo{ID: id, Salt: p.Table.Salt, Size: p.Size}
	err := reader.Read(ctx, info, spans, func(i int, raw []byte, _ []uint32, err error) error {
		if err != nil {
			if !repo.IsPartial(err) {
				return err
			}
			one.Bad++
			return nil
		}
		whole, err := saveFrame(k, p.Table.Kind, &p.Table.Frames[i], raw)
		if !whole {
			one.Bad++
		}
		return err
	})
	one.Missing = one.Frames > 0 && one.Bad == one.Frames
	one.Saved = k.Stored() - before
	return one, err
}

// saveFrame stores the blobs of a frame that have their IDs, and reports whether all have.
func saveFrame(k *rewrite.Keeper, kind pack.Kind, f *pack.Frame, raw []byte) (whole bool, err error) {
	whole = true
	for _, b := range f.Blobs {
		if uint64(b.Len) > uint64(len(raw)) {
			return false, nil
		}
		blob := raw[:b.Len]
		if raw = raw[b.Len:]; k.Hasher().ID(blob) != b.ID {
			whole = false
			continue
		}
		if err := k.Save(kind, b.ID, blob); err != nil {
			return whole, err
		}
	}
	return whole, nil
}

// findLosses follows all snapshots.
func findLosses(ctx context.Context, r *repo.Repository, k *rewrite.Keeper, losses *Losses) error {
	listed, err := r.Snapshots(repo.FromTarget(ctx))
	if err != nil {
		return err
	}
	w := newWalker(k, losses)
	for _, l := range listed {
		if l.Err != nil {
			losses.add(l.ID, "/")
			continue
		}
		w.snapshot = l.ID
		if _, err := w.Look(ctx, l.Snapshot.Tree, ""); err != nil {
			return err
		}
	}
	return k.Flush(ctx) // what the walk met and stored again
}
