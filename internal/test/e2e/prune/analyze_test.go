package prune

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// naiveUsage remembers each blob and each path.
type naiveUsage struct {
	ctx    context.Context
	r      *repo.Repository
	shares map[format.ID]float64
	seen   map[format.ID]string // blob -> the path it belongs to
	at     string

	excluded func(path string) bool
	out      bool // what is excluded counts, else the rest
}

func newNaiveUsage(t *testing.T, r *repo.Repository) *naiveUsage {
	u := &naiveUsage{ctx: t.Context(), r: r, shares: map[format.ID]float64{}, seen: map[format.ID]string{}}
	segments, err := object.List(t.Context(), r.Store(), store.Index)
	require.NoError(t, err)
	reader := object.Segments{Store: r.Store(), Keys: r.Keys()}
	require.NoError(t, reader.Each(t.Context(), segments, func(_ object.Info, seg *index.Segment, err error) error {
		require.NoError(t, err)
		for _, p := range seg.Packs {
			for _, f := range p.Table.Frames {
				for _, b := range f.Blobs {
					u.shares[b.ID] = float64(f.Sealed) * float64(b.Len) / float64(max(f.Raw, 1))
				}
			}
		}
		return nil
	}))
	return u
}

func (u *naiveUsage) claim(id format.ID) {
	if _, known := u.seen[id]; !known {
		u.seen[id] = u.at
	}
}

// load claims pages, of what counts as a whole or lies in a folder that counts.
func (u *naiveUsage) load(ctx context.Context, id format.ID) ([]byte, error) {
	u.claim(id)
	return u.r.LoadBlob(ctx, id)
}

// folder visits a folder; inside: it counts as a whole.
func (u *naiveUsage) folder(t *testing.T, dir string, id format.ID, inside bool) {
	var nodes []*tree.Node
	u.at = dir
	load := tree.Load(u.load)
	if !inside && u.out {
		load = u.r.LoadBlob
	}
	require.NoError(t, tree.Walk(u.ctx, load, id, func(n *tree.Node) error {
		nodes = append(nodes, n)
		return nil
	}))
	excluded := func(n *tree.Node) bool { return u.excluded != nil && u.excluded(dir+n.Name) }
	for _, n := range nodes {
		counts := inside || excluded(n) == u.out
		if n.Type != tree.File || !counts {
			continue
		}
		u.at = dir + n.Name
		for _, c := range n.Content.Chunks {
			u.claim(c.ID)
		}
		if !n.Content.List.IsZero() {
			require.NoError(t, tree.WalkList(u.ctx, u.load, n.Content.List, func(c tree.Chunk) error {
				u.claim(c.ID)
				return nil
			}))
		}
	}
	for _, n := range nodes {
		if n.Type == tree.Dir && (inside || u.out || !excluded(n)) {
			u.folder(t, dir+n.Name+"/", n.Subtree, inside || u.out && excluded(n))
		}
	}
}

// rows are the bytes of each path.
func (u *naiveUsage) rows() (rows map[string]float64, sum prune.Usage, stored float64) {
	rows = map[string]float64{}
	for id, at := range u.seen {
		if at != "" {
			sum.Blobs++
			rows[at] += u.shares[id]
			stored += u.shares[id]
		}
	}
	return rows, sum, stored
}

// ask answers a question: from the newest snapshot of q.Of on, without what the others need.
func (u *naiveUsage) ask(t *testing.T, trees map[format.ID]format.ID, q prune.Question, excluded func(string) bool) {
	for _, id := range q.Besides {
		if !slices.Contains(q.Of, id) {
			u.folder(t, "/", trees[id], true)
		}
	}
	newest := slices.Clone(q.Of)
	slices.Reverse(newest)
	if excluded != nil {
		u.excluded = excluded
		for _, id := range newest {
			u.folder(t, "/", trees[id], false)
		}
		u.out = true
	}
	for id := range u.seen {
		u.seen[id] = ""
	}
	for _, id := range newest {
		u.folder(t, "/", trees[id], excluded == nil)
	}
}

func below(rows map[string]float64, path string) (sum float64) {
	for at, bytes := range rows {
		if at == path || strings.HasSuffix(path, "/") && strings.HasPrefix(at, path) {
			sum += bytes
		}
	}
	return sum
}

// TestAnalyzeIsWhatANaiveWalkCounts: over random snapshots, each question has the blobs and bytes of a computation that
// remembers everything, and each folder and file the same bytes, but for what a tally rounds up to the folder above.
func TestAnalyzeIsWhatANaiveWalkCounts(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	moving := func(i int) string { return filepath.Join(p.Src, fmt.Sprint("many", i)) }
	require.NoError(t, os.WriteFile(filepath.Join(p.Src, "huge"), testkit.Noise(7, 6<<20), 0o644))
	require.NoError(t, os.Mkdir(moving(0), 0o755))
	for i := range 200 { // too small for sums of their own
		small := testkit.Noise(uint64(1000+i), 700)
		require.NoError(t, os.WriteFile(filepath.Join(moving(0), fmt.Sprint(i)), small, 0o644))
	}
	var ids []format.ID
	for i := range testkit.Rounds(4, 5, 8) {
		ids = append(ids, p.Snapshot(uint64(i)))
		require.NoError(t, os.Rename(moving(i), moving(i+1)))
	}
	last := len(ids) - 1
	placed, moved := filepath.Join(p.Src, "d2"), filepath.Join(moving(last), "7")
	b := rules.NewBuilder()
	require.NoError(t, b.Exclude("*1", false, "test"))
	require.NoError(t, b.Exclude(placed, false, "test"))
	require.NoError(t, b.Exclude(moved, false, "test"))
	set := b.Compile()
	excluded := func(at string) bool { return strings.HasSuffix(at, "1") || at == placed || at == moved }
	questions := map[string]prune.Question{
		"all":                    {Of: ids},
		"the newest":             {Of: ids[last:]},
		"added":                  {Of: ids[last:], Besides: ids[last-1 : last]},
		"added since the first":  {Of: ids[last:], Besides: ids[:1]},
		"only in old ones":       {Of: ids[:last], Besides: ids[last:]},
		"only in one":            {Of: ids[1:2], Besides: ids},
		"excluded from the last": {Of: ids[last:], Excluded: set},
		"excluded from all":      {Of: ids, Excluded: set},
	}
	for what, q := range questions {
		require.NoError(t, p.With(func(r *repo.Repository) error {
			trees := map[format.ID]format.ID{}
			listed, err := r.Snapshots(t.Context())
			require.NoError(t, err)
			for _, l := range listed {
				trees[l.ID] = l.Snapshot.Tree
			}
			u := newNaiveUsage(t, r)
			if q.Excluded != nil {
				u.ask(t, trees, q, excluded)
			} else {
				u.ask(t, trees, q, nil)
			}
			want, sum, stored := u.rows()
			q.Rows = math.MaxInt
			found, err := prune.Analyze(t.Context(), r, kit.SmallPrune(), q)
			require.NoError(t, err)
			require.NotZero(t, sum.Blobs, what)
			require.Equal(t, sum.Blobs, found.Blobs, what)
			require.InDelta(t, stored, found.Stored, float64(sum.Blobs), what)
			got := map[string]float64{}
			for _, row := range found.Rows {
				got[row.Path] = float64(row.Bytes)
			}
			require.InDelta(t, float64(found.Stored), below(got, "/"), 0.5, what)
			for path := range want {
				require.InDelta(t, below(want, path), below(got, path),
					float64(len(q.Of))*(stored/4096+1)+float64(sum.Blobs), "%s: %s", what, path)
			}
			return nil
		}))
	}
}

// TestForgetFreesWhatAnalyzeSays: the plan of a prune as if snapshots were forgotten is that of a dry run after they
// are, and what only they need is what a prune that leaves nothing unused frees.
func TestForgetFreesWhatAnalyzeSays(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	p := kit.NewPruned(t, mem.New())
	var ids []format.ID
	for i := range uint64(testkit.Rounds(4, 5, 8)) {
		ids = append(ids, p.Snapshot(i))
	}
	p.Forget(ids[0]) // whose data is garbage that the plan has too
	for _, set := range [][]format.ID{ids[1:2], ids[1 : len(ids)-1], ids[len(ids)-1:]} {
		e := p.Copied(t)
		opt := kit.SmallPrune()
		opt.DryRun = true
		var before *prune.Result
		var alone *prune.Analysis
		var unique prune.Usage
		require.NoError(t, e.With(func(r *repo.Repository) (err error) {
			before, err = prune.Forecast(t.Context(), r, opt, set)
			require.NoError(t, err)
			alone, err = prune.Analyze(t.Context(), r, kit.SmallPrune(), prune.Question{Of: set, Besides: ids[1:], Rows: 20})
			require.NoError(t, err)
			unique, err = prune.Unique(t.Context(), r, kit.SmallPrune(), set)
			return err
		}))
		require.Equal(t, unique.Blobs, alone.Blobs)
		require.Equal(t, unique.Raw, alone.Raw)
		require.InDelta(t, unique.Stored, alone.Stored, float64(unique.Blobs))

		kept, err := e.Prune(opt)
		require.NoError(t, err)
		require.NotEqual(t, before.Freed, kept.Freed, "the plan without them is another one")
		e.Forget(set...)
		after, err := e.Prune(opt)
		require.NoError(t, err)
		require.Equal(t, after.Freed, before.Freed)
		require.Equal(t, after.Unused, before.Unused)
		require.Equal(t, after.Deleted, before.Deleted)
		require.Equal(t, after.Repacked, before.Repacked)

		opt.MaxUnused = prune.Limit{}
		none, err := e.Prune(opt)
		require.NoError(t, err)
		garbage, tables := besides(t, p, ids[1:])
		blobs := float64(alone.Stored + garbage)
		require.GreaterOrEqual(t, float64(none.Freed), blobs-float64(none.Deleted.Packs), "a byte of each pack is rounded")
		require.LessOrEqual(t, float64(none.Freed), blobs+float64(tables), "the rest is tables of packs")
	}
}

// besides returns the stored bytes of blobs that no snapshot needs, and the bytes of packs that are no blobs.
func besides(t *testing.T, p *kit.Pruned, ids []format.ID) (garbage, tables uint64) {
	require.NoError(t, p.With(func(r *repo.Repository) error {
		all := 0.0
		for _, share := range newNaiveUsage(t, r).shares {
			all += share
		}
		needed, err := prune.Analyze(t.Context(), r, kit.SmallPrune(), prune.Question{Of: ids, Rows: 1})
		require.LessOrEqual(t, float64(needed.Stored), all+1)
		garbage = uint64(all) - min(uint64(all), needed.Stored)
		tables = uint64(kit.BytesOf(t, p.Store, store.Pack)) - uint64(all)
		return err
	}))
	return garbage, tables
}
