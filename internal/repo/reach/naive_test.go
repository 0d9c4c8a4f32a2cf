package reach_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// outcome is what a walk finds.
type outcome struct{ needed, missing, damaged map[format.ID]bool }

func newOutcome() *outcome {
	return &outcome{map[format.ID]bool{}, map[format.ID]bool{}, map[format.ID]bool{}}
}

// packsOf reads the tables of all packs.
func packsOf(t *testing.T, r *repo.Repository, st store.Store) (packs []index.Pack) {
	t.Helper()
	for info, err := range st.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		id, err := format.ParseID(info.Name.ID)
		require.NoError(t, err)
		table, err := pack.OpenTable(r.Keys(), id, info.Size, func(off int64, p []byte) error {
			return object.ReadAt(t.Context(), st, info.Name, off, p)
		})
		require.NoError(t, err)
		packs = append(packs, index.Pack{ID: id, Size: uint64(info.Size), Table: table})
	}
	return packs
}

// naive follows one tree after the other, and remembers nothing but what it found.
type naive struct {
	*outcome
	ctx  context.Context
	r    *repo.Repository
	load map[format.ID]func() ([]byte, error) // by blob
}

func newNaive(ctx context.Context, r *repo.Repository, packs []index.Pack) *naive {
	n := &naive{newOutcome(), ctx, r, map[format.ID]func() ([]byte, error){}}
	for _, p := range packs {
		info := blobindex.PackInfo{ID: p.ID, Salt: p.Table.Salt, Size: p.Size}
		for _, f := range p.Table.Frames {
			skip := uint32(0)
			for _, b := range f.Blobs {
				from := skip
				n.load[b.ID] = func() ([]byte, error) {
					raw, _, err := r.ReadFrame(ctx, info, f.Offset, f.Sealed)
					if err != nil {
						return nil, err
					}
					return raw[from:][:b.Len], nil
				}
				skip += b.Len
			}
		}
	}
	return n
}

// page returns the bytes of a page, nil if it is missing or damaged.
func (n *naive) page(id format.ID) []byte {
	n.needed[id] = true
	load, ok := n.load[id]
	if !ok {
		n.missing[id] = true
		return nil
	}
	p, err := load()
	if err != nil {
		n.damaged[id] = true
		return nil
	}
	return p
}

func (n *naive) dir(t *testing.T, id format.ID) {
	p := n.page(id)
	if p == nil {
		return
	}
	pg, err := tree.DecodePage(p)
	require.NoError(t, err)
	for _, c := range pg.Children {
		n.dir(t, c.ID)
	}
	for _, node := range pg.Nodes {
		switch {
		case node.Type == tree.Dir:
			n.dir(t, node.Subtree)
		case node.Content.List.IsZero():
			n.chunks(node.Content.Chunks)
		default:
			n.list(t, node.Content.List)
		}
	}
}

func (n *naive) list(t *testing.T, id format.ID) {
	p := n.page(id)
	if p == nil {
		return
	}
	pg, err := tree.DecodeListPage(p)
	require.NoError(t, err)
	for _, c := range pg.Children {
		n.list(t, c.ID)
	}
	n.chunks(pg.Chunks)
}

func (n *naive) chunks(chunks []tree.Chunk) {
	for _, c := range chunks {
		if c.IsHole() {
			continue
		}
		n.needed[c.ID] = true
		if n.load[c.ID] == nil {
			n.missing[c.ID] = true
		}
	}
}

var errSkip = errors.New("recorded")

// collector is a Visitor that records what it reaches.
type collector struct {
	*outcome
	mu *sync.Mutex
	n  *naive // loads pages
}

func (c collector) Load(_ context.Context, id format.ID, at *blobindex.Place) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.needed[id] = true
	if at.Lost() {
		c.missing[id] = true
		return nil, errSkip
	}
	p, err := c.n.load[id]()
	if err != nil {
		c.damaged[id] = true
		return nil, errSkip
	}
	return p, nil
}

func (c collector) Chunks(chunks []tree.Chunk, at []blobindex.Place) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range chunks {
		c.needed[chunks[i].ID] = true
		if at[i].Lost() {
			c.missing[chunks[i].ID] = true
		}
	}
	return nil
}

func (c collector) Damaged(_ context.Context, _ format.ID, err error) error {
	if errors.Is(err, errSkip) {
		return nil
	}
	return err
}

func (c collector) Queued(int) {}
func (c collector) Intact()    {}

// randomDir returns a directory of a depth. Some of the directories and files repeat between calls.
func randomDir(rng *rand.Rand, depth int) stored.Dir {
	d := stored.Dir{}
	for i := range 2 + rng.IntN(5) {
		d[fmt.Sprint("f", i)] = stored.Noise(rng.Uint64N(60), 1+rng.IntN(6)*900)
	}
	if rng.IntN(4) == 0 {
		var chunks stored.Sparse
		for range 3000 { // so many that the list has several pages
			chunks = append(chunks, stored.Noise(rng.Uint64N(10_000), 8))
		}
		d["list"] = chunks
	}
	if rng.IntN(4) == 0 {
		for i := range 800 { // several pages as well
			d[fmt.Sprintf("many%03d%0120d", i, 0)] = stored.Noise(uint64(i), 10)
		}
		d["many700dir"] = stored.Dir{"below": stored.Noise(rng.Uint64(), 2000)}
	}
	for i := range rng.IntN(4) {
		if depth > 0 {
			d[fmt.Sprint("d", i)] = randomDir(rng, depth-1)
		}
	}
	return d
}

// damageRandomly deletes some packs and flips a bit in others. It returns the packs that are left.
func damageRandomly(t *testing.T, rng *rand.Rand, st store.Store, packs []index.Pack) []index.Pack {
	t.Helper()
	for i := len(packs) - 1; i >= 0; i-- {
		name := object.Named(store.Pack, packs[i].ID)
		switch rng.IntN(12) {
		case 0:
			require.NoError(t, st.Delete(t.Context(), name))
			packs = append(packs[:i], packs[i+1:]...)
		case 1, 2:
			data, err := object.ReadFile(t.Context(), st, name, -1)
			require.NoError(t, err)
			data[rng.IntN(len(data)/2)+len(data)/4] ^= 1
			require.NoError(t, st.Put(t.Context(), name, data))
		}
	}
	return packs
}

// damageSurely deletes a data pack of the first snapshot and flips a bit in a frame of trees that only later snapshots
// need. Keys are random, and so are the order of packs and what random damage hits; the walk always meets these two.
func damageSurely(t *testing.T, st store.Store, packs, first []index.Pack) []index.Pack {
	t.Helper()
	ofFirst := func(p index.Pack) bool {
		return slices.ContainsFunc(first, func(f index.Pack) bool { return f.ID == p.ID })
	}
	later := slices.IndexFunc(packs, func(p index.Pack) bool { return p.Table.Kind == pack.Trees && !ofFirst(p) })
	require.GreaterOrEqual(t, later, 0)
	name := object.Named(store.Pack, packs[later].ID)
	data, err := object.ReadFile(t.Context(), st, name, -1)
	require.NoError(t, err)
	frame := packs[later].Table.Frames[0]
	data[frame.Offset+frame.Sealed/2] ^= 1
	require.NoError(t, st.Put(t.Context(), name, data))

	lost := slices.IndexFunc(packs, func(p index.Pack) bool { return p.Table.Kind == pack.Data && ofFirst(p) })
	require.GreaterOrEqual(t, lost, 0)
	require.NoError(t, st.Delete(t.Context(), object.Named(store.Pack, packs[lost].ID)))
	return slices.Delete(packs, lost, lost+1)
}

// TestWalkAgreesWithANaiveWalk compares the walk with a plain recursion over every snapshot, on random repositories
// with missing and damaged packs: both find the same blobs needed, missing and damaged.
func TestWalkAgreesWithANaiveWalk(t *testing.T) {
	testkit.Slow(t)
	const sure = 8 // the seed with damage that the walk meets whatever the keys are
	lists := 0
	for seed := range uint64(sure + 1) {
		rng := rand.New(rand.NewPCG(seed, 8))
		st := mem.New()
		r := stored.Init(t, st)
		root, roots := randomDir(rng, 2), []format.ID(nil)
		var first []index.Pack // of the first snapshot
		for i := range max(1+rng.IntN(4), int(seed/sure)+1) {
			root[fmt.Sprint("new", i)] = randomDir(rng, 2)
			if _, ok := root["list"]; ok {
				lists++
			}
			roots = append(roots, stored.Save(t, r, int64(i), root).Tree)
			if first == nil {
				first = packsOf(t, r, st)
			}
		}
		packs := packsOf(t, r, st)
		switch {
		case seed == sure:
			packs = damageSurely(t, st, packs, first)
		case seed%4 > 0:
			packs = damageRandomly(t, rng, st, packs)
		}
		want := newNaive(t.Context(), r, packs)
		for _, id := range roots {
			want.dir(t, id)
		}
		dir := t.TempDir()
		x, err := r.Index().OpenTemporary(dir)
		require.NoError(t, err)
		for i := range packs {
			_, err := x.Add(rng.IntN(3), 0, &packs[i])
			require.NoError(t, err)
		}
		got, mu := newOutcome(), &sync.Mutex{}
		w := reach.Walk{
			Index: x, Workers: 1 + rng.IntN(4), Role: "walker", Ledger: report.NewJob(report.Check, time.Now),
			Visitor: func() reach.Visitor { return collector{got, mu, want} },
		}
		require.NoError(t, w.Run(t.Context(), roots))
		require.NoError(t, x.Close())
		require.Equal(t, want.outcome, got, "seed %d", seed)
		switch {
		case seed == sure:
			require.NotEmpty(t, got.missing)
			require.NotEmpty(t, got.damaged)
		case seed%4 == 0:
			require.Empty(t, got.missing)
			require.Empty(t, got.damaged)
		}
	}
	require.NotZero(t, lists)
}
