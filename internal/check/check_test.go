package check_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestCleanRepository(t *testing.T) {
	st, _, _ := sample(t)
	before := files(t, st)
	r, err := stored.Open(t, st)
	require.NoError(t, err)
	l := ledger()
	res, err := check.Run(t.Context(), r, check.Options{ReadData: true}, l)
	require.NoError(t, err)
	require.Empty(t, res.Problems)
	require.Empty(t, res.Notes)
	require.True(t, res.OK())
	require.EqualValues(t, 2, res.Snapshots)
	require.Equal(t, res.Packs, res.PacksRead)
	require.NotZero(t, res.BytesRead)
	require.ElementsMatch(t, before, files(t, st), "a check writes nothing")

	totals := l.Snapshot()
	require.Equal(t, report.Done, totals.Phase)
	require.Equal(t, totals.Expected.Objects, totals.Objects.Verified, "everything expected was looked at")
	const trees = 6 // two roots, two homes, photos and many
	require.EqualValues(t, uint64(len(before))+res.Packs+trees, totals.Objects.Verified, "packs twice")
	require.Zero(t, totals.Objects.Damaged)
}

func TestEmptyRepository(t *testing.T) {
	st := mem.New()
	stored.Init(t, st)
	require.True(t, run(t, st, check.Options{ReadData: true}).OK())
}

// Every file of a repository is removed in turn. What cannot be noticed is listed: a snapshot that is gone was perhaps
// forgotten, and a key removed.
func TestRemoveAnyFile(t *testing.T) {
	st, _, _ := sample(t)
	for _, info := range files(t, st) {
		damaged := copyOf(t, st)
		require.NoError(t, damaged.Delete(t.Context(), info.Name))
		r, err := stored.Open(t, damaged)
		if info.Name.Kind == store.Config || info.Name.Kind == store.Key {
			require.Error(t, err)
			res, err := check.WithoutKey(t.Context(), damaged, 0, ledger())
			require.NoError(t, err)
			require.Len(t, res.Problems, 1, "no config, no key")
			continue
		}
		require.NoError(t, err)
		res, err := check.Run(t.Context(), r, check.Options{}, ledger())
		require.NoError(t, err)
		switch info.Name.Kind {
		case store.Snapshot:
			require.True(t, res.OK())
		case store.Index:
			require.Len(t, res.Problems, 1, info.Name)
			require.Equal(t, check.Index, res.Problems[0].Kind)
			require.NotEmpty(t, res.Notes)
		case store.Pack:
			require.Len(t, res.Problems, 1, info.Name)
			p := res.Problems[0]
			require.Equal(t, "pack "+info.Name.ID, p.Object)
			require.NotEmpty(t, p.Snapshots)
			require.NotEmpty(t, p.Paths)
			require.NotEmpty(t, p.Advice)
		default:
			t.Fatal(info.Name)
		}
	}
}

// In every file some bytes are flipped in turn, first and last among them: a check that reads data names the file, and
// so does one without the key.
func TestFlipAnyByte(t *testing.T) {
	testkit.Slow(t)
	st, _, _ := sample(t)
	for _, info := range files(t, st) {
		for _, at := range []int64{0, 9, 17, info.Size / 3, info.Size / 2, info.Size - 20, info.Size - 1} {
			if at < 0 || at >= info.Size {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", info.Name.Path(), at), func(t *testing.T) {
				damaged := copyOf(t, st)
				p := content(t, st, info)
				p[at] ^= 0x10
				require.NoError(t, damaged.Put(t.Context(), info.Name, p))
				name := info.Name.ID
				if info.Name.Kind == store.Config {
					name = "config"
				}
				if info.Name.Kind != store.Config || at < 8 { // elsewhere only the key detects it
					res, err := check.WithoutKey(t.Context(), damaged, 2, ledger())
					require.NoError(t, err)
					require.NotEmpty(t, res.Problems)
					require.Contains(t, res.Problems[0].Object, name)
				}
				r, err := stored.Open(t, damaged)
				if err != nil {
					require.Contains(t, []store.Kind{store.Config, store.Key}, info.Name.Kind)
					return
				}
				res, err := check.Run(t.Context(), r, check.Options{ReadData: true}, ledger())
				require.NoError(t, err)
				require.NotEmpty(t, res.Problems)
				require.Contains(t, res.Problems[0].Object, name)
			})
		}
	}
}

func TestTruncateAnyPack(t *testing.T) {
	const inFrame = pack.HeaderSize + pack.FrameHeaderSize + 10 // in the first; the half may be in the trailer already
	st, _, _ := sample(t)
	for _, info := range files(t, st) {
		if info.Name.Kind != store.Pack {
			continue
		}
		for _, size := range []int64{0, 20, inFrame, info.Size / 2, info.Size - 1} {
			damaged := copyOf(t, st)
			require.NoError(t, damaged.Put(t.Context(), info.Name, content(t, st, info)[:size]))
			res := run(t, damaged, check.Options{ReadData: true})
			require.Len(t, res.Problems, 1)
			require.Equal(t, "pack "+info.Name.ID, res.Problems[0].Object)
			if size <= inFrame {
				require.NotEmpty(t, res.Problems[0].Paths)
			}
		}
	}
}

// damagedPaths damages each pack in turn, at that share of its length, and returns the paths and snapshots the
// check reports as lost.
func damagedPaths(t *testing.T, st store.Store, at float64) map[string][]string {
	t.Helper()
	paths := make(map[string][]string)
	for _, info := range files(t, st) {
		if info.Name.Kind != store.Pack {
			continue
		}
		damaged := copyOf(t, st)
		p := content(t, st, info)
		p[int(at*float64(len(p)))] ^= 1
		require.NoError(t, damaged.Put(t.Context(), info.Name, p))
		for _, problem := range run(t, damaged, check.Options{ReadData: true}).Problems {
			for _, path := range problem.Paths {
				paths[path] = problem.Snapshots
			}
		}
	}
	return paths
}

func TestDamageIsNamedDownToThePath(t *testing.T) {
	st, old, new := sample(t)
	both := []string{old.Short(), new.Short()}
	paths := damagedPaths(t, st, 0.3)
	require.Equal(t, both, paths["/home/big.img"])
	require.Equal(t, both, paths["/home/photos/a.jpg"])
	for path := range paths {
		require.NotEqual(t, "/home/photos/tiny", path, "its content is in the folder's own page")
	}
}

func TestPathsAreBounded(t *testing.T) {
	st := mem.New()
	r := stored.Init(t, st)
	shared, many := stored.Noise(1, 500), dir{}
	for i := range 3 * check.MaxPaths {
		many[fmt.Sprintf("f%03d", i)] = shared
	}
	stored.Save(t, r, 1, dir{"many": many})
	stored.Save(t, r, 2, dir{"many": many, "more": []byte("x")})
	for _, info := range files(t, st) {
		if info.Name.Kind == store.Pack {
			damaged := copyOf(t, st)
			require.NoError(t, damaged.Delete(t.Context(), info.Name))
			res := run(t, damaged, check.Options{})
			p := res.Problems[0]
			require.LessOrEqual(t, len(p.Paths), check.MaxPaths)
			if p.Paths[0] == "/many/f000" {
				require.EqualValues(t, 2*check.MaxPaths, p.More)
				return
			}
		}
	}
	t.Fatal("the pack with the data was not found")
}

// What the writer of a tree got wrong is noticed although every byte is as it was written.
func TestWrongTrees(t *testing.T) {
	absent := format.ID{1, 2, 3}
	for name, c := range map[string]struct {
		node *tree.Node
		kind check.Kind
		path string
	}{
		"chunk that is nowhere": {&tree.Node{Type: tree.File, Links: 1, Size: 500,
			Content: tree.Content{Chunks: []tree.Chunk{{ID: absent, Len: 500}}}}, check.Blob, "/d/x"},
		"list that is nowhere": {&tree.Node{Type: tree.File, Links: 1, Size: 500,
			Content: tree.Content{List: absent}}, check.Tree, "/d/x"},
		"folder that is nowhere": {&tree.Node{Type: tree.Dir, Links: 2, Subtree: absent}, check.Tree, "/d/x"},
		"content of another size": {&tree.Node{Type: tree.File, Links: 1, Size: 500,
			Content: tree.Content{Chunks: []tree.Chunk{{Len: 400}}}}, check.Tree, "/d"},
	} {
		t.Run(name, func(t *testing.T) {
			st := mem.New()
			r := stored.Init(t, st)
			stored.Save(t, r, 1, dir{"fine": stored.Noise(9, 300)})
			id := stored.Save(t, r, 2, dir{"d": dir{"x": c.node, "y": stored.Noise(8, 300)}}).ID
			res := run(t, st, check.Options{})
			require.Len(t, res.Problems, 1)
			p := res.Problems[0]
			require.Equal(t, c.kind, p.Kind)
			require.Equal(t, []string{id.Short()}, p.Snapshots)
			require.Equal(t, []string{c.path}, p.Paths)
		})
	}
}

// Leases are not flushed: after a power cut the lease of a writer may be empty.
func TestEmptyLeaseIsNoDamage(t *testing.T) {
	st, _, _ := sample(t)
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Lease, ID: strings.Repeat("1", 32)}, nil))
	res := run(t, st, check.Options{})
	require.True(t, res.OK())
	require.Len(t, res.Notes, 1)
	require.Contains(t, res.Notes[0], "is empty")
}

// Nothing depends on a lease: a damaged one is no damage of the repository, and the note says when it has no effect.
func TestDamagedLeaseSaysUntilWhenItCounts(t *testing.T) {
	st, _, _ := sample(t)
	name := store.Name{Kind: store.Lease, ID: strings.Repeat("1", 32)}
	require.NoError(t, st.Put(t.Context(), name, []byte("x")))
	info, err := st.Stat(t.Context(), name)
	require.NoError(t, err)
	res := run(t, st, check.Options{})
	require.True(t, res.OK())
	require.Len(t, res.Notes, 1)
	require.Contains(t, res.Notes[0], "until "+info.Modified.Add(45*time.Minute).Local().Format(time.DateTime))
}

func TestForeignNames(t *testing.T) {
	st, _, _ := sample(t)
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Pack, ID: "abcd"}, []byte("x")))
	res := run(t, st, check.Options{})
	require.Len(t, res.Problems, 1)
	require.Equal(t, check.Pack, res.Problems[0].Kind)
}

func TestSubsetsCoverEverything(t *testing.T) {
	st, _, _ := sample(t)
	var sum, packs uint64
	for part := range uint64(3) {
		res := run(t, st, check.Options{ReadData: true, Subset: check.Subset{Part: part + 1, Of: 3}})
		require.True(t, res.OK())
		sum, packs = sum+res.PacksRead, res.Packs
	}
	require.Equal(t, packs, sum)
	half := run(t, st, check.Options{ReadData: true, Subset: check.Subset{Percent: 50}})
	require.Equal(t, packs/2, half.PacksRead)
	little := run(t, st, check.Options{ReadData: true, Subset: check.Subset{Bytes: 1}})
	require.EqualValues(t, 1, little.PacksRead)
}

func TestParseSubset(t *testing.T) {
	for text, want := range map[string]check.Subset{
		"5%": {Percent: 5}, "0.5%": {Percent: 0.5}, "100%": {Percent: 100}, "3/10": {Part: 3, Of: 10},
		"1/1":  {Part: 1, Of: 1},
		"500M": {Bytes: 500 << 20}, "2g": {Bytes: 2 << 30}, "17": {Bytes: 17}, " 1T ": {Bytes: 1 << 40},
	} {
		got, err := check.ParseSubset(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "%", "0%", "101%", "-1%", "NaN%", "0/3", "4/3", "1/", "/2", "M", "5X", "0", "-3",
		"99999999999T", "1/2/3"} {
		_, err := check.ParseSubset(text)
		require.ErrorIs(t, err, check.ErrSubset, text)
	}
}

func TestCancelled(t *testing.T) {
	st, _, _ := sample(t)
	r, err := stored.Open(t, st)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = check.Run(ctx, r, check.Options{ReadData: true}, ledger())
	require.ErrorIs(t, err, context.Canceled)
	_, err = check.WithoutKey(ctx, st, 0, ledger())
	require.ErrorIs(t, err, context.Canceled)
}

func TestWithoutKey(t *testing.T) {
	st, _, _ := sample(t)
	l := ledger()
	res, err := check.WithoutKey(t.Context(), st, 2, l)
	require.NoError(t, err)
	require.True(t, res.OK())
	require.Equal(t, res.Packs, res.PacksRead)
	totals := l.Snapshot()
	require.Equal(t, totals.Expected.Objects, totals.Objects.Verified)
	require.Equal(t, totals.Expected.Bytes, totals.Bytes.Verified)

	empty := mem.New()
	res, err = check.WithoutKey(t.Context(), empty, 2, ledger())
	require.NoError(t, err)
	require.Equal(t, check.Config, res.Problems[0].Kind)
}

// A file may have two stretches of the same bytes; nothing of the kind may confuse the sums.
func TestRepeatedContent(t *testing.T) {
	st := mem.New()
	r := stored.Init(t, st)
	stored.Save(t, r, 1, dir{"zeros": bytes.Repeat([]byte{1}, 64*stored.ChunkSize),
		"same": bytes.Repeat([]byte{1}, 64*stored.ChunkSize)})
	require.True(t, run(t, st, check.Options{ReadData: true}).OK())
}
