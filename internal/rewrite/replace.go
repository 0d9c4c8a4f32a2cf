package rewrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// ErrUnproven: the snapshot that replaces another one cannot be read back. The original stays.
var ErrUnproven = errors.New("the new snapshot cannot be read back; the original was kept")

// Publish saves a snapshot with everything that was stored for it. If an earlier run that was cut off has saved the
// same snapshot, it returns the ID of that one.
func (k *Keeper) Publish(ctx context.Context, sn *snapshot.Snapshot) (format.ID, error) {
	if err := k.Flush(ctx); err != nil {
		return format.ID{}, err
	}
	want := content(sn)
	before := slices.IndexFunc(k.listed, func(o repo.Listed) bool {
		return o.Snapshot != nil && bytes.Equal(content(o.Snapshot), want)
	})
	if before >= 0 {
		return k.listed[before].ID, nil
	}
	return k.s.Save(ctx, sn)
}

// content encodes a snapshot without what its session adds.
func content(sn *snapshot.Snapshot) []byte {
	plain := *sn
	plain.Acknowledged, plain.Renewed = nil, tree.Time{}
	return snapshot.Encode(&plain)
}

// ReadBack reads a snapshot back, without its tree.
func (k *Keeper) ReadBack(ctx context.Context, id format.ID) (*snapshot.Snapshot, error) {
	saved, err := k.r.FindSnapshot(repo.FromTarget(ctx), id.String(), repo.Filter{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	return saved.Snapshot, nil
}

// Prove reads a snapshot back and requires that everything it needs is there.
func (k *Keeper) Prove(ctx context.Context, id format.ID) error {
	sn, err := k.ReadBack(ctx, id)
	if err != nil {
		return err
	}
	dirty, err := k.proof.Look(ctx, sn.Tree, "")
	if err == nil && dirty {
		err = ErrUnproven
	}
	return err
}

// Remove removes snapshots, after a tombstone for them. One that is gone already is no error.
func (k *Keeper) Remove(ctx context.Context, ids ...format.ID) error {
	if len(ids) == 0 {
		return nil
	}
	if err := k.s.RenewOrFail(ctx); err != nil {
		return err
	}
	gone := make([]repo.Listed, len(ids)) // without content: replaced snapshots do not come back
	for i, id := range ids {
		gone[i].ID = id
	}
	return k.r.Remove(ctx, gone)
}
