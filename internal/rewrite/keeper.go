package rewrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// keptLost bounds how many lost blobs are remembered. A lost blob that is not remembered is searched for once for
// each file.
const keptLost = 1 << 16

// Keeper determines which blobs can still be read, publishes new snapshots and removes the originals. A blob that lies
// only in a damaged pack and can be read is stored again, in a good pack. A Keeper belongs to one goroutine.
type Keeper struct {
	r      *repo.Repository
	s      *repo.Session
	hasher *seal.Hasher
	gone   map[format.ID]bool
	saved  uint64        // blobs that were stored again
	listed []repo.Listed // all snapshots, at the start of the session
	proof  *Walker       // of new snapshots
}

// NewKeeper returns a Keeper that stores in session s. listed are all snapshots of the repository; nil: none is put in
// the place of another.
func NewKeeper(r *repo.Repository, s *repo.Session, listed []repo.Listed) *Keeper {
	k := &Keeper{r: r, s: s, hasher: r.Keys().Hasher(), gone: make(map[format.ID]bool), listed: listed}
	k.proof = NewWalker(k, func(string) {})
	return k
}

// Has reports whether all of these blobs are in good packs, after storing again those that can still be read.
func (k *Keeper) Has(ctx context.Context, kind pack.Kind, ids ...format.ID) (bool, error) {
	if ok, err := k.s.Holds(ctx, ids); ok || err != nil {
		return ok, err
	}
	all := true
	for i, id := range ids {
		ok, err := k.rescue(ctx, kind, ids[i:i+1])
		if err != nil {
			return false, fmt.Errorf("blob %s: %w", id.Short(), err)
		}
		all = all && ok
	}
	return all, nil
}

// rescue reports whether one blob is in a good pack, after storing it again if that is possible.
func (k *Keeper) rescue(ctx context.Context, kind pack.Kind, id []format.ID) (bool, error) {
	if k.gone[id[0]] {
		return false, nil
	}
	if ok, err := k.s.Holds(ctx, id); ok || err != nil {
		return ok, err
	}
	blob, err := k.r.LoadBlob(ctx, id[0])
	switch {
	case err == nil:
		return true, k.Save(kind, id[0], blob)
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case !repo.IsPartial(err):
		return false, err
	}
	if len(k.gone) < keptLost {
		k.gone[id[0]] = true
	}
	return false, nil
}

// Save stores a verified blob unless the repository holds it in a good pack.
func (k *Keeper) Save(kind pack.Kind, id format.ID, blob []byte) error {
	fresh, err := k.s.Put(kind, id, blob)
	if fresh {
		k.saved++
	}
	return err
}

// page stores a page of a tree and returns its ID.
func (k *Keeper) page(p []byte) (format.ID, error) {
	id := k.hasher.ID(p)
	_, err := k.s.Put(pack.Trees, id, p)
	return id, err
}

// Flush ends the storing of what was handed over.
func (k *Keeper) Flush(ctx context.Context) error {
	if err := errors.Join(k.s.Writer(pack.Data).Flush(), k.s.Writer(pack.Trees).Flush()); err != nil {
		return err
	}
	return k.s.Flush(ctx)
}

// Stored is how many blobs were stored again.
func (k *Keeper) Stored() uint64 { return k.saved }

// Hasher returns the hasher of blob IDs.
func (k *Keeper) Hasher() *seal.Hasher { return k.hasher }

var errLost = errors.New("lost")

func isLost(err error) bool { return errors.Is(err, errLost) || repo.IsPartial(err) }

// load reads a page, or returns errLost if no usable pack has it.
func (k *Keeper) load(ctx context.Context, id format.ID) ([]byte, error) {
	ok, err := k.Has(ctx, pack.Trees, id)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errLost
	}
	return k.r.LoadBlob(ctx, id)
}

// eachPage visits the pages of a directory in their order. One that is lost is visited as nil.
func (k *Keeper) eachPage(ctx context.Context, id format.ID, visit func(*tree.Page) error) error {
	return reach.EachPage(ctx, k.load, id, func(_ format.ID, pg *tree.Page, err error) error {
		if err != nil && (context.Cause(ctx) != nil || !isLost(err)) {
			return err
		}
		return visit(pg)
	})
}

// Directory stores a directory again with the entries that edit changes or leaves out, and returns its new ID. partial
// reports that pages of it are lost; their entries are missing in the new directory.
func (k *Keeper) Directory(ctx context.Context, id format.ID, edit func(*tree.Node) (keep bool, err error)) (
	fresh format.ID, partial bool, err error,
) {
	b := tree.NewBuilder(k.page)
	err = k.eachPage(ctx, id, func(pg *tree.Page) error {
		if pg == nil {
			partial = true
			return nil
		}
		for i := range pg.Nodes {
			keep, err := edit(&pg.Nodes[i])
			if err != nil {
				return err
			}
			if !keep {
				continue
			}
			if err := b.Add(&pg.Nodes[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return format.ID{}, false, err
	}
	fresh, err = b.Finish()
	return fresh, partial, err
}
