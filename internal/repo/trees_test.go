package repo_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// keeping opens the repository with tree frames kept on disk and next to none in memory.
func keeping(t *testing.T, st store.Store, cacheDir string, limit int64) *repo.Repository {
	t.Helper()
	return openWith(t, st, repo.OpenOptions{
		Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: cacheDir, Frames: 1, TreeFrames: limit},
	})
}

// treeKit is a repository with some tree blobs in several packs, and one blob of data.
type treeKit struct {
	st    *faultstore.Store
	cache string
	trees map[format.ID][]byte
	data  format.ID
}

func newTreeKit(t *testing.T, n int) *treeKit {
	t.Helper()
	kit := &treeKit{st: faultstore.Wrap(mem.New(), faultstore.Plan{}), cache: t.TempDir(),
		trees: make(map[format.ID][]byte)}
	require.NoError(t, initialise(t, kit.st).Close())
	r := keeping(t, kit.st, kit.cache, 1<<20)
	trees, data := blobs(3, n), []byte("not a tree")
	for _, b := range trees {
		kit.trees[r.Keys().Hasher().ID(b)] = b
	}
	kit.data = r.Keys().Hasher().ID(data)
	require.NoError(t, r.WithSession(t.Context(), small(), func(_ context.Context, s *repo.Session) error {
		if err := put(s, r, pack.Trees, trees); err != nil {
			return err
		}
		return put(s, r, pack.Data, [][]byte{data})
	}))
	require.NoError(t, r.Close())
	kit.st.Reads()
	return kit
}

// requireTrees loads every tree and returns how many reads of packs that took.
func (kit *treeKit) requireTrees(t *testing.T, r *repo.Repository) int {
	t.Helper()
	for id, want := range kit.trees {
		got, err := r.LoadBlob(t.Context(), id)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	}
	return kit.st.Reads().Of(store.Pack)
}

// files returns the paths of the frames that are kept.
func (kit *treeKit) files(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(kit.cache, "*", "trees", "*"))
	require.NoError(t, err)
	return files
}

func TestUploadedTreesAreNotFetched(t *testing.T) {
	testkit.NoLeaks(t)
	kit := newTreeKit(t, 12)
	require.Greater(t, len(kit.files(t)), 2)
	r := keeping(t, kit.st, kit.cache, 1<<20)
	require.Zero(t, kit.requireTrees(t, r))

	_, err := r.LoadBlob(t.Context(), kit.data)
	require.NoError(t, err)
	_, err = r.LoadBlob(t.Context(), kit.data)
	require.NoError(t, err)
	require.Equal(t, 2, kit.st.Reads().Of(store.Pack), "only frames of trees are kept")
}

func TestFetchedTreesAreKept(t *testing.T) {
	testkit.NoLeaks(t)
	kit := newTreeKit(t, 12)
	for _, f := range kit.files(t) {
		require.NoError(t, os.Remove(f))
	}
	r := keeping(t, kit.st, kit.cache, 1<<20)
	require.NotZero(t, kit.requireTrees(t, r))
	require.Zero(t, kit.requireTrees(t, r))
	require.NoError(t, r.Close())
	require.Zero(t, kit.requireTrees(t, keeping(t, kit.st, kit.cache, 1<<20)))
}

func TestTreesAreKeptOnlyWhereAskedFor(t *testing.T) {
	for name, opt := range map[string]repo.OpenOptions{
		"no size":  {},
		"no cache": {Cache: repo.CacheOptions{Temporary: true, TreeFrames: 1 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			kit := newTreeKit(t, 4)
			for _, f := range kit.files(t) {
				require.NoError(t, os.Remove(f))
			}
			opt.Unlock, opt.Cache.Dir, opt.Cache.Frames = stored.UnlockWith(machineKey()), kit.cache, 1
			r := openWith(t, kit.st, opt)
			require.NotZero(t, kit.requireTrees(t, r))
			require.NotZero(t, kit.requireTrees(t, r))
			require.NoError(t, r.WithSession(t.Context(), small(), func(_ context.Context, s *repo.Session) error {
				return put(s, r, pack.Trees, [][]byte{[]byte("new")})
			}))
			require.Empty(t, kit.files(t))
		})
	}
}

func TestDryRunKeepsNoTrees(t *testing.T) {
	kit := newTreeKit(t, 4)
	r := keeping(t, kit.st, kit.cache, 1<<20)
	before := kit.files(t)
	opt := small()
	opt.DryRun = true
	require.NoError(t, r.WithSession(t.Context(), opt, func(_ context.Context, s *repo.Session) error {
		return put(s, r, pack.Trees, [][]byte{[]byte("imagined")})
	}))
	require.Equal(t, before, kit.files(t))
}

// TestEveryDamagedByteOfAKeptTree: damage on this machine costs one read of the target and is mended by it.
func TestEveryDamagedByteOfAKeptTree(t *testing.T) {
	testkit.Slow(t)
	kit := newTreeKit(t, 3)
	r := keeping(t, kit.st, kit.cache, 1<<20)
	require.Zero(t, kit.requireTrees(t, r))
	for _, file := range kit.files(t) {
		good, err := os.ReadFile(file)
		require.NoError(t, err)
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			require.NoError(t, os.WriteFile(file, bad, 0o600))
			require.Equal(t, 1, kit.requireTrees(t, r), "byte %d", i)
			mended, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, bytes.Equal(good, mended), "byte %d", i)
		}
		for _, size := range []int{0, len(good) - 1} {
			require.NoError(t, os.Truncate(file, int64(size)))
			require.Equal(t, 1, kit.requireTrees(t, r), "%d bytes", size)
		}
	}
	require.Zero(t, kit.requireTrees(t, r))
}

// TestKeptTreesUnderWrongNames: a frame is bound to its place, so no other frame can pass for it.
func TestKeptTreesUnderWrongNames(t *testing.T) {
	kit := newTreeKit(t, 12)
	files := kit.files(t)
	content := make([][]byte, len(files))
	for i, f := range files {
		p, err := os.ReadFile(f)
		require.NoError(t, err)
		content[i] = p
	}
	for i, f := range files {
		other := bytes.Clone(content[(i+1)%len(files)])
		// Of the right length, or it would not even be opened.
		size := len(content[i])
		other = append(other, make([]byte, size)...)[:size]
		require.NoError(t, os.WriteFile(f, other, 0o600))
	}
	r := keeping(t, kit.st, kit.cache, 1<<20)
	require.Equal(t, len(files), kit.requireTrees(t, r))
	require.Zero(t, kit.requireTrees(t, r))
}

// TestDamagedTargetIsNotKept: an unreadable frame never enters the cache, and a good copy there outlives the target's.
func TestDamagedTargetIsNotKept(t *testing.T) {
	kit := newTreeKit(t, 1)
	file := kit.files(t)[0]
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	var id format.ID
	for id = range kit.trees {
	}
	r := keeping(t, kit.st, kit.cache, 1<<20)
	found := make([]index.Found, 1)
	require.NoError(t, r.Locate(t.Context(), []format.ID{id}, found))
	info := *found[0].Pack
	name := store.Name{Kind: store.Pack, ID: info.ID.String()}
	damaged := bytesOf(t, kit.st, name)
	damaged[found[0].Loc.Offset+found[0].Loc.Sealed-1] ^= 1
	require.NoError(t, kit.st.Put(t.Context(), name, damaged))

	kit.st.Reads()
	require.Zero(t, kit.requireTrees(t, r))
	_, _, err = r.ReadFrame(t.Context(), info, found[0].Loc.Offset, found[0].Loc.Sealed)
	require.ErrorIs(t, err, format.ErrCorrupt, "ReadFrame must prove the target, not the copy")

	require.NoError(t, os.Remove(file))
	_, err = r.LoadBlob(t.Context(), id)
	require.ErrorIs(t, err, format.ErrCorrupt)
	require.NoFileExists(t, file)

	require.NoError(t, os.WriteFile(file, append(good[:0:0], good...), 0o600))
	kit.st.Reads()
	require.Zero(t, kit.requireTrees(t, r))
}

// TestTwoRunsShareKeptTrees: the second run cannot open the hash cache. It still uses and fills the tree frames.
func TestTwoRunsShareKeptTrees(t *testing.T) {
	testkit.NoLeaks(t)
	kit := newTreeKit(t, 12)
	files := kit.files(t)
	for _, f := range files[:len(files)/2] {
		require.NoError(t, os.Remove(f))
	}
	a := keeping(t, kit.st, kit.cache, 1<<20)
	require.NoError(t, a.Sync(t.Context())) // holds the hash cache from now on
	b := keeping(t, kit.st, kit.cache, 1<<20)
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 6 {
		r := []*repo.Repository{a, b}[i%2]
		wg.Go(func() {
			for id, want := range kit.trees {
				got, err := r.LoadBlob(t.Context(), id)
				if err == nil && !bytes.Equal(want, got) {
					err = fmt.Errorf("blob %s has other bytes", id)
				}
				if err != nil {
					errs <- err
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.ElementsMatch(t, files, kit.files(t))
	kit.st.Reads()
	require.Zero(t, kit.requireTrees(t, a))
	require.Zero(t, kit.requireTrees(t, b))

	// What one uploads the other finds.
	blob := []byte("a tree of the second run")
	require.NoError(t, b.WithSession(t.Context(), small(), func(_ context.Context, s *repo.Session) error {
		return put(s, b, pack.Trees, [][]byte{blob})
	}))
	require.NoError(t, a.Sync(t.Context()))
	kit.st.Reads()
	got, err := a.LoadBlob(t.Context(), a.Keys().Hasher().ID(blob))
	require.NoError(t, err)
	require.Equal(t, blob, got)
	require.Zero(t, kit.st.Reads().Of(store.Pack))
}

func TestKeptTreesAreBounded(t *testing.T) {
	kit := newTreeKit(t, 40)
	const limit = 16 << 10
	r := keeping(t, kit.st, kit.cache, limit)
	for range 3 {
		kit.requireTrees(t, r)
		require.Len(t, kit.files(t), limit/4096, "each frame takes one block")
	}
}
