package prune

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/tally"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// attribution walks snapshots by path. Each blob that was not used before belongs to the first path that needs it.
//
//	folder: pages ─► files: chunks, looked up in batches ─┬─► used before: nothing
//	                                                      └─► else: its share of what is stored counts for the file
//	   then subfolders, in the order of their names, unless the first page was used before: so was all below it
type attribution struct {
	*places
	tally *tally.Tally
	sum   Usage
	out   bool // where rules decide: what they exclude counts, and nothing else; false: the reverse

	found   []index.Place // by the last lookup
	chunks  []format.ID   // to be looked up
	files   []string      // names of the files that have them
	seed    maphash.Seed
	visited map[visit]struct{} // folders in which rules decide
}

// visit is a folder in which rules decide, at a path; 0: the path does not matter to them.
type visit struct{ page, path uint64 }

func newAttribution(p *places) *attribution {
	return &attribution{places: p, tally: tally.New(), seed: maphash.MakeSeed()}
}

// folder is a folder under way.
type folder struct {
	*attribution
	path  string          // ends with a slash
	rules *rules.DirState // nil: everything counts
	own   uint64          // stored bytes of it that have no sum of their own
	below []subfolder
}

type subfolder struct {
	name  string
	id    format.ID
	rules *rules.DirState
}

// snapshots walks snapshots, the last one first: the newest paths are those that a user knows.
func (w *attribution) snapshots(ctx context.Context, of []repo.Listed, set *rules.Set) error {
	w.visited = make(map[visit]struct{})
	for _, l := range slices.Backward(of) {
		if l.Err != nil {
			return fmt.Errorf("snapshot %s: %w: %w", l.ID.Short(), ErrDamaged, l.Err)
		}
		root := subfolder{id: l.Snapshot.Tree}
		if set != nil {
			root.rules, _ = set.Root("/")
		}
		top := folder{attribution: w}
		if err := top.enter(ctx, []subfolder{root}); err != nil {
			return fmt.Errorf("snapshot %s: %w", l.ID.Short(), err)
		}
	}
	return nil
}

// walk attributes what is in a folder, and returns what counts in the folder above.
func (f *folder) walk(ctx context.Context, id format.ID) (rest uint64, err error) {
	if err := tree.Walk(ctx, f.load(&f.own), id, func(n *tree.Node) error { return f.node(ctx, n) }); err != nil {
		return 0, fmt.Errorf("folder %s: %w", f.path, err)
	}
	if err := f.lookUp(); err != nil {
		return 0, err
	}
	if err := f.enter(ctx, f.below); err != nil {
		return 0, err
	}
	return f.tally.Folder(f.path, f.own), nil
}

// enter walks those subfolders that may have something new.
func (f *folder) enter(ctx context.Context, below []subfolder) error {
	ids := make([]format.ID, len(below))
	for i := range below {
		ids[i] = below[i].id
	}
	found, err := f.locate(ids)
	if err != nil {
		return err
	}
	enter := make([]bool, len(below))
	for i := range below {
		enter[i] = found[i].Lost() || f.fresh(&found[i], f.path+below[i].name+"/", below[i].rules)
	}
	for i, sub := range below {
		if !enter[i] {
			continue
		}
		in := folder{attribution: f.attribution, path: f.path + sub.name + "/", rules: sub.rules}
		rest, err := in.walk(ctx, sub.id)
		if err != nil {
			return err
		}
		f.own += rest
	}
	return nil
}

// locate returns the places of blobs, valid until the next call.
func (w *attribution) locate(ids []format.ID) (_ []index.Place, err error) {
	w.found, err = w.index.Locate(w.found, ids)
	return w.found, err
}

// fresh reports whether a folder may have something that does not count yet.
func (w *attribution) fresh(first *index.Place, path string, at *rules.DirState) bool {
	if at == nil {
		return !w.used.Has(first.Number())
	}
	v := visit{page: first.Number()}
	if !at.Unanchored() {
		v.path = maphash.String(w.seed, path)
	}
	_, known := w.visited[v]
	w.visited[v] = struct{}{}
	return !known
}

// load returns a Load that adds to own the share of each page that was not used before.
func (w *attribution) load(own *uint64) tree.Load {
	return func(ctx context.Context, id format.ID) ([]byte, error) {
		at, err := w.index.LocateOne(id)
		if err != nil {
			return nil, err
		}
		if !at.Lost() {
			*own += w.claim(&at)
		}
		return visitor{w.places}.Load(ctx, id, &at)
	}
}

// claim marks a blob as used, and returns its share of what is stored if it was not.
func (w *attribution) claim(at *index.Place) (stored uint64) {
	if !w.used.Add(at.Number()) {
		return 0
	}
	stored = uint64(w.shares[at.Number()])
	w.sum.Blobs++
	w.sum.Raw += uint64(at.Len)
	w.sum.Stored += stored
	w.tally.Count(stored)
	return stored
}

func (f *folder) node(ctx context.Context, n *tree.Node) error {
	below, counts := f.rules, true
	if f.rules != nil {
		excluded := f.rules.Name([]byte(n.Name), n.Type) == rules.Exclude
		switch counts = excluded == f.out; {
		case excluded:
			below = nil
		case n.Type == tree.Dir:
			below, counts = f.rules.Child([]byte(n.Name)), true
		}
	}
	switch {
	case !counts:
		return nil
	case n.Type == tree.Dir:
		f.below = append(f.below, subfolder{n.Name, n.Subtree, below})
		return nil
	case n.Type != tree.File:
		return nil
	}
	add := func(c tree.Chunk) error {
		if c.IsHole() {
			return nil
		}
		f.chunks, f.files = append(f.chunks, c.ID), append(f.files, n.Name)
		if len(f.chunks) < lookedUp {
			return nil
		}
		return f.lookUp()
	}
	if n.Content.List.IsZero() {
		for _, c := range n.Content.Chunks {
			if err := add(c); err != nil {
				return err
			}
		}
		return nil
	}
	return f.list(ctx, n, add)
}

// list visits the chunks of a large file. If the first page of the list was used before, so were all its chunks.
func (f *folder) list(ctx context.Context, n *tree.Node, add func(tree.Chunk) error) error {
	at, err := f.index.LocateOne(n.Content.List)
	if err != nil || !at.Lost() && f.used.Has(at.Number()) {
		return err
	}
	pages := uint64(0)
	err = tree.WalkList(ctx, f.load(&pages), n.Content.List, add)
	f.own += f.tally.File(f.path, n.Name, pages)
	return err
}

// lookedUp is how many chunks are looked up together.
const lookedUp = 4 << 10

// lookUp attributes the gathered chunks.
func (f *folder) lookUp() error {
	found, err := f.locate(f.chunks)
	if err != nil {
		return err
	}
	sum := uint64(0)
	for i := range found {
		if found[i].Lost() {
			return fmt.Errorf("blob %s of %s%s is in no pack: %w", f.chunks[i], f.path, f.files[i], ErrDamaged)
		}
		sum += f.claim(&found[i])
		if last := i+1 == len(found) || f.files[i+1] != f.files[i]; last {
			f.own += f.tally.File(f.path, f.files[i], sum)
			sum = 0
		}
	}
	f.chunks, f.files = f.chunks[:0], f.files[:0]
	return nil
}
