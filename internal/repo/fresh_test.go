package repo_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

const again = "reading the index of the repository again"

// cached opens the repository with the cache in dir. The caller closes it.
func cached(t *testing.T, st store.Store, dir string, noted *notes) *repo.Repository {
	t.Helper()
	r, err := repo.Open(t.Context(), st, repo.OpenOptions{
		Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: dir}, Notify: noted.Note,
	})
	require.NoError(t, err)
	return r
}

// runs returns the files of the hash cache in a folder.
func runs(t *testing.T, folder string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(folder, "runs", "*"))
	require.NoError(t, err)
	return all
}

// knownIn makes a repository, and its cache in a folder.
func knownIn(t *testing.T, st store.Store, dir string, data [][]byte) (id format.ID, folder string) {
	t.Helper()
	id = mustBackUp(t, initialise(t, st), data)
	r := cached(t, st, dir, &notes{})
	require.NoError(t, r.Sync(t.Context()))
	folder = r.CacheFolder()
	require.NoError(t, r.Close())
	require.Len(t, runs(t, folder), 1)
	return id, folder
}

// misled applies change to each segment in the cache.
func misled(t *testing.T, st store.Store, folder string, change func(*index.Segment)) {
	t.Helper()
	r := fresh(t, st)
	c := blobindex.NewCache(blobindex.Options{Dir: folder, Repo: r.Config().ID})
	require.NoError(t, c.Refresh())
	require.NoError(t, c.Spoiled())
	for id, seg := range segments(t, r) {
		change(seg)
		require.NoError(t, c.Merge(id, seg))
	}
	c.Close()
	require.Len(t, runs(t, folder), 1)
}

// eachPack changes the packs of a segment one by one.
func eachPack(change func(*index.Pack)) func(*index.Segment) {
	return func(seg *index.Segment) {
		for i := range seg.Packs {
			change(&seg.Packs[i])
		}
	}
}

// A cache that is wrong about every blob causes no wrong result, and is gone afterwards.
func TestCacheThatIsWrong(t *testing.T) {
	for name, change := range map[string]func(*index.Segment){
		"nothing is known": func(seg *index.Segment) { *seg = index.Segment{} },
		"other blobs": eachPack(func(p *index.Pack) {
			for _, f := range p.Table.Frames {
				for i := range f.Blobs {
					f.Blobs[i].ID[5] ^= 4
				}
			}
		}),
		"another offset": eachPack(func(p *index.Pack) {
			for i := range p.Table.Frames {
				p.Table.Frames[i].Offset ^= 64
			}
		}),
		"beyond the end": eachPack(func(p *index.Pack) {
			for i := range p.Table.Frames {
				p.Table.Frames[i].Offset |= 1 << 30
			}
		}),
		"another length": eachPack(func(p *index.Pack) {
			for _, f := range p.Table.Frames {
				for i := range f.Blobs {
					f.Blobs[i].Len ^= 1
				}
			}
		}),
		"another pack": eachPack(func(p *index.Pack) { p.ID[3] ^= 1 }),
		"another salt": eachPack(func(p *index.Pack) { p.Table.Salt[0] ^= 1 }),
		"a short pack": eachPack(func(p *index.Pack) { p.Size = 50 }),
		"a long pack": eachPack(func(p *index.Pack) {
			p.Size |= 1 << 31
			for i := range p.Table.Frames {
				p.Table.Frames[i].Offset |= 1 << 29
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			st, dir, data := mem.New(), t.TempDir(), blobs(1, 60)
			id, folder := knownIn(t, st, dir, data)
			misled(t, st, folder, change)
			var noted notes
			counted := faultstore.Wrap(st, faultstore.Plan{Ops: faultstore.Get, Kind: store.Index})
			r := cached(t, counted, dir, &noted)
			requireComplete(t, r, id, data)
			require.Equal(t, len(names(t, st, store.Index)), counted.Matched(), "each segment once")
			require.NoError(t, r.Close())
			require.Equal(t, 1, strings.Count(noted.String(), again))
			require.Contains(t, noted.String(), "the local cache is damaged")
			require.Empty(t, runs(t, folder))

			noted = notes{}
			r = cached(t, st, dir, &noted)
			requireComplete(t, r, id, data)
			require.NoError(t, r.Close())
			require.NotContains(t, noted.String(), again)
			require.NotEmpty(t, runs(t, folder))
		})
	}
}

// Places from the fresh index can be used as any other.
func TestLocateAsksTheSegmentsAgain(t *testing.T) {
	st, dir, data := mem.New(), t.TempDir(), blobs(1, 60)
	_, folder := knownIn(t, st, dir, data)
	forget := true
	misled(t, st, folder, func(seg *index.Segment) { // about half of them
		if forget = !forget; forget {
			*seg = index.Segment{}
		}
	})
	r := cached(t, st, dir, &notes{})
	defer func() { require.NoError(t, r.Close()) }()
	h := r.Keys().Hasher()
	ids := make([]format.ID, len(data), len(data)+1)
	for i := range data {
		ids[i] = h.ID(data[i])
	}
	ids = append(ids, format.ID{1})
	for range 2 {
		found := make([]blobindex.Found, len(ids))
		require.NoError(t, r.Locate(t.Context(), ids, found))
		for i := range data {
			require.NotNil(t, found[i].Pack)
			got, err := r.LoadBlobAt(t.Context(), ids[i], found[i])
			require.NoError(t, err)
			require.Equal(t, data[i], got)
		}
		require.Nil(t, found[len(data)].Pack)
	}
}

// A repository that has lost packs is read once more, not once for each blob, and keeps its cache.
func TestLostPacksAreLookedForOnce(t *testing.T) {
	st, dir, data := mem.New(), t.TempDir(), blobs(1, 60)
	_, folder := knownIn(t, st, dir, data)
	for _, name := range names(t, st, store.Pack) {
		require.NoError(t, st.Delete(t.Context(), name))
	}
	for run := range 2 {
		var noted notes
		gets := faultstore.Wrap(st, faultstore.Plan{Ops: faultstore.Get, Kind: store.Index})
		lists := faultstore.Wrap(gets, faultstore.Plan{Ops: faultstore.List})
		r := cached(t, lists, dir, &noted)
		h := r.Keys().Hasher()
		lost := 0
		listed := 0
		for i := range data {
			_, err := r.LoadBlob(t.Context(), h.ID(data[i]))
			require.ErrorIs(t, err, store.ErrNotExist)
			_, err = r.LoadBlob(t.Context(), format.ID{byte(i)})
			require.ErrorIs(t, err, store.ErrNotExist)
			if lost++; lost == 1 {
				listed = lists.Matched()
			}
		}
		require.Equal(t, listed, lists.Matched(), "run %d", run)
		require.Equal(t, len(names(t, st, store.Index)), gets.Matched(), "run %d", run)
		require.NoError(t, r.Close())
		require.Equal(t, 1, strings.Count(noted.String(), again))
		require.NotEmpty(t, runs(t, folder))
	}
}

// A cache that was made in this run is as good as the segments.
func TestNewCacheIsNotDoubted(t *testing.T) {
	st := mem.New()
	mustBackUp(t, initialise(t, st), blobs(1, 60))
	gets := faultstore.Wrap(st, faultstore.Plan{Ops: faultstore.Get, Kind: store.Index})
	var noted notes
	r := cached(t, gets, t.TempDir(), &noted)
	_, err := r.LoadBlob(t.Context(), format.ID{1})
	require.ErrorIs(t, err, store.ErrNotExist)
	require.Equal(t, len(names(t, st, store.Index)), gets.Matched())
	require.NotContains(t, noted.String(), again)
	require.NoError(t, r.Close())
}
