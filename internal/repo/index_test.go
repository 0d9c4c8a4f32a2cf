package repo_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// segments opens all index segments there are.
func segments(t *testing.T, r *repo.Repository) map[format.ID]*index.Segment {
	t.Helper()
	out := make(map[format.ID]*index.Segment)
	for _, name := range names(t, r.Store(), store.Index) {
		plain, err := r.Keys().OpenObject(seal.IndexObject, bytesOf(t, r.Store(), name))
		require.NoError(t, err)
		seg, err := index.Decode(plain)
		require.NoError(t, err)
		id, err := format.ParseID(name.ID)
		require.NoError(t, err)
		out[id] = seg
	}
	return out
}

func putSegment(t *testing.T, r *repo.Repository, seg *index.Segment) store.Name {
	t.Helper()
	data := r.Keys().SealObject(seal.IndexObject, index.Encode(nil, seg))
	name := store.Name{Kind: store.Index, ID: seal.FileID(data).String()}
	require.NoError(t, r.Store().Put(t.Context(), name, data))
	return name
}

// has reports which of the blobs the index knows, without looking for more.
func has(t *testing.T, r *repo.Repository, data [][]byte) (out []bool) {
	t.Helper()
	h := r.Keys().Hasher()
	for _, b := range data {
		var found [1]blobindex.Found
		require.NoError(t, r.Known(t.Context(), []format.ID{h.ID(b)}, found[:]))
		out = append(out, found[0].Pack != nil)
	}
	return out
}

// A prune writes a segment that supersedes all others and lacks a pack. No reader may use that pack afterwards, whether
// the old segments are still there or not, and in whatever order segments are listed.
func TestSupersededSegmentsAreForgotten(t *testing.T) {
	st := mem.New()
	writer := initialise(t, st)
	data := blobs(1, 100)
	mustBackUp(t, writer, data)
	old := segments(t, writer)
	require.Greater(t, len(old), 1)
	var all index.Segment
	for id, seg := range old {
		all.Supersedes = append(all.Supersedes, id)
		all.Packs = append(all.Packs, seg.Packs...)
	}
	at := slices.IndexFunc(all.Packs, func(p index.Pack) bool { return p.Table.Kind == pack.Data })
	dropped := all.Packs[at]
	all.Packs = slices.Delete(all.Packs, at, at+1)
	want := make([]bool, len(data))
	h := writer.Keys().Hasher()
	for i := range data {
		want[i] = true
		for _, f := range dropped.Table.Frames {
			for _, b := range f.Blobs {
				if b.ID == h.ID(data[i]) {
					want[i] = false
				}
			}
		}
	}
	require.Contains(t, want, false)

	dir := t.TempDir()
	known := openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: dir}})
	require.NoError(t, known.Sync(t.Context()))
	require.NotContains(t, has(t, known, data), false)

	// Before the old ones are deleted; the marked pack must not come back by a rebuild.
	putMark(t, writer, dropped.ID)
	putSegment(t, writer, &all)
	check := func(r *repo.Repository) {
		t.Helper()
		for range 2 {
			require.NoError(t, r.Sync(t.Context()))
			require.Equal(t, want, has(t, r, data))
		}
	}
	check(known)
	check(fresh(t, st))

	// The superseding segment is listed as the oldest, as after a copy to another disk.
	copied := mem.New()
	copyStore(t, st, copied)
	for id := range old {
		name := store.Name{Kind: store.Index, ID: id.String()}
		require.NoError(t, copied.Put(t.Context(), name, bytesOf(t, copied, name)))
	}
	check(fresh(t, copied))

	// After the old ones are deleted.
	for id := range old {
		require.NoError(t, st.Delete(t.Context(), store.Name{Kind: store.Index, ID: id.String()}))
	}
	check(known)
	check(fresh(t, st))
}

// Some of the segments were deleted: their packs are put back into the index.
func TestVanishedSegmentsAreRebuilt(t *testing.T) {
	st := mem.New()
	writer := initialise(t, st)
	data := blobs(1, 100)
	id := mustBackUp(t, writer, data)
	dir := t.TempDir()
	var noted notes
	known := openWith(t, st, repo.OpenOptions{
		Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: dir}, Notify: noted.Note,
	})
	require.NoError(t, known.Sync(t.Context()))
	all := names(t, st, store.Index)
	for _, name := range all[:len(all)-1] {
		require.NoError(t, st.Delete(t.Context(), name))
	}
	// A machine that never saw them notices when a blob is missing.
	partial := mem.New()
	copyStore(t, st, partial)
	requireComplete(t, fresh(t, partial), id, data)

	require.NoError(t, known.Sync(t.Context()))
	require.Contains(t, noted.String(), "index segments that are gone: ")
	require.NotContains(t, has(t, known, data), false)
	again := fresh(t, st)
	require.NoError(t, again.Sync(t.Context()))
	require.NotContains(t, has(t, again, data), false)
}

// While one repository reads, another writes: its blobs are found without an explicit Sync.
func TestBlobsOfOthersAreFound(t *testing.T) {
	st := mem.New()
	a := initialise(t, st)
	b := fresh(t, st)
	require.NoError(t, b.Sync(t.Context()))
	data := blobs(1, 20)
	requireComplete(t, b, mustBackUp(t, a, data), data)
}

func TestMissingBlob(t *testing.T) {
	r := initialise(t, mem.New())
	mustBackUp(t, r, blobs(1, 5))
	id := format.ID{1, 2, 3}
	for range 2 {
		_, err := r.LoadBlob(t.Context(), id)
		require.ErrorIs(t, err, store.ErrNotExist)
		require.ErrorContains(t, err, id.String())
	}
	found := make([]blobindex.Found, 1)
	require.NoError(t, r.Locate(t.Context(), []format.ID{id}, found))
	require.Nil(t, found[0].Pack)
}

func TestRebuildIndexOnReadOnlyTarget(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	data := blobs(1, 20)
	id := mustBackUp(t, r, data)
	for _, name := range names(t, st, store.Index) {
		require.NoError(t, st.Delete(t.Context(), name))
	}
	readOnly := faultstore.Wrap(st, faultstore.Plan{
		At: 1, Ops: faultstore.Put, Effect: faultstore.Refuse, Sticky: true, Err: store.ErrDenied,
	})
	var noted notes
	other := openWith(t, readOnly, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey()), Notify: noted.Note})
	requireComplete(t, other, id, data)
	require.Contains(t, noted.String(), "local cache only")
}

func TestRebuildIndexReportsWhatItDid(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	mustBackUp(t, r, blobs(1, 60))
	before := names(t, st, store.Index)
	require.NoError(t, r.Index().Rebuild(t.Context()))
	require.ElementsMatch(t, before, names(t, st, store.Index), "nothing is missing")
	packs := names(t, st, store.Pack)
	for _, name := range names(t, st, store.Index) {
		require.NoError(t, st.Delete(t.Context(), name))
	}
	cut := bytesOf(t, st, packs[0])
	require.NoError(t, st.Put(t.Context(), packs[0], cut[:len(cut)-10]))
	require.NoError(t, st.Put(t.Context(), packs[1], []byte("nothing like a pack")))
	var noted notes
	other := openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey()), Notify: noted.Note})
	require.NoError(t, other.Sync(t.Context()))
	const back = "put back into the index"
	require.Contains(t, noted.String(), packs[1].ID)
	require.Equal(t, 1, strings.Count(noted.String(), back))
	noted = notes{}
	require.NoError(t, other.Index().Rebuild(t.Context()))
	require.NotContains(t, noted.String(), back, "Sync has done it already")
	require.Contains(t, noted.String(), "pack "+packs[1].ID+" is damaged")
}

func TestCacheIsReused(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	data := blobs(1, 60)
	id := mustBackUp(t, r, data)
	dir := t.TempDir()
	for run := range 3 {
		gets := faultstore.Wrap(st, faultstore.Plan{Ops: faultstore.Get, Kind: store.Index})
		other, err := repo.Open(t.Context(), gets, repo.OpenOptions{
			Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: dir},
		})
		require.NoError(t, err)
		requireComplete(t, other, id, data)
		require.NoError(t, other.Close())
		if run == 0 {
			require.NotZero(t, gets.Matched())
		} else {
			require.Zero(t, gets.Matched(), "every segment is in the cache already")
		}
		if run == 1 { // a damaged cache is rebuilt; here it is as good as gone
			require.NoError(t, os.RemoveAll(filepath.Join(dir, r.ID())))
			gone, err := repo.Open(t.Context(), st, repo.OpenOptions{
				Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: dir},
			})
			require.NoError(t, err)
			requireComplete(t, gone, id, data)
			require.NoError(t, gone.Close())
		}
	}
}

// A second run at the same time uses the same cache, and reads nothing that the first has read.
func TestCacheIsShared(t *testing.T) {
	st := mem.New()
	id := mustBackUp(t, initialise(t, st), blobs(1, 10))
	dir := t.TempDir()
	first := openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: dir}})
	requireComplete(t, first, id, blobs(1, 10))
	var noted notes
	gets := faultstore.Wrap(st, faultstore.Plan{Ops: faultstore.Get, Kind: store.Index})
	second, err := repo.Open(t.Context(), gets, repo.OpenOptions{
		Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: dir}, Notify: noted.Note,
	})
	require.NoError(t, err)
	requireComplete(t, second, id, blobs(1, 10))
	require.Empty(t, noted.String())
	require.Zero(t, gets.Matched())
	require.NoError(t, second.Close())
	require.NoError(t, second.Close(), "a second Close does nothing")
	require.Len(t, runs(t, filepath.Join(dir, first.ID())), 1)
	require.ErrorIs(t, second.Known(t.Context(), make([]format.ID, 1), make([]blobindex.Found, 1)), os.ErrClosed)
}

func TestNoCacheLeavesNothing(t *testing.T) {
	st := mem.New()
	id := mustBackUp(t, initialise(t, st), blobs(1, 10))
	dir := t.TempDir()
	r, err := repo.Open(t.Context(), st, repo.OpenOptions{
		Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: dir, Temporary: true},
	})
	require.NoError(t, err)
	requireComplete(t, r, id, blobs(1, 10))
	require.NoError(t, r.Close())
	entries, err := filepath.Glob(filepath.Join(dir, r.ID(), "*"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestUnusableCacheFolderIsNoError(t *testing.T) {
	st := mem.New()
	id := mustBackUp(t, initialise(t, st), blobs(1, 10))
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	var noted notes
	r := openWith(t, st, repo.OpenOptions{
		Unlock: stored.UnlockWith(machineKey()), Cache: repo.CacheOptions{Dir: file}, Notify: noted.Note,
	})
	requireComplete(t, r, id, blobs(1, 10))
	require.Contains(t, noted.String(), "cache cannot be used")
}

func TestReadingNeedsNoListOfPacks(t *testing.T) {
	st := mem.New()
	id := mustBackUp(t, initialise(t, st), blobs(1, 30))
	f := faultstore.Wrap(st, faultstore.Plan{Ops: faultstore.List, Kind: store.Pack})
	requireComplete(t, fresh(t, f), id, blobs(1, 30))
	require.Zero(t, f.Matched(), "that would be slow on a large repository")
}

// overtaken is a store on which something happens when the n-th segment of the index is read.
type overtaken struct {
	store.Store
	mu   sync.Mutex
	left int
	do   func()
}

func (o *overtaken) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Index {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.left--; o.left == 0 {
			o.do()
		}
	}
	return o.Store.Get(ctx, name, off, p)
}

// TestSegmentsReplacedWhileTheyAreRead: a prune replaces segments that a backup has listed and reads. After the backup
// has updated an empty cache, it still knows all blobs and stores none of them again.
func TestSegmentsReplacedWhileTheyAreRead(t *testing.T) {
	for n := 1; ; n++ {
		st := mem.New()
		writer := initialise(t, st)
		data := blobs(1, 300)
		mustBackUp(t, writer, data)
		old := segments(t, writer)
		require.Greater(t, len(old), 1)
		o := &overtaken{Store: st, left: n}
		o.do = func() {
			var all index.Segment
			for id, seg := range old {
				all.Supersedes = append(all.Supersedes, id)
				all.Packs = append(all.Packs, seg.Packs...)
			}
			putSegment(t, writer, &all)
			for id := range old {
				require.NoError(t, st.Delete(t.Context(), store.Name{Kind: store.Index, ID: id.String()}))
			}
		}
		r := fresh(t, o)
		require.NoError(t, r.Sync(t.Context()))
		require.NotContains(t, has(t, r, data), false, "replaced when number %d was read", n)
		require.LessOrEqual(t, len(segments(t, writer)), len(old), "and nothing is rebuilt")
		if o.left > 0 {
			require.Greater(t, n, len(old))
			return
		}
		require.Len(t, segments(t, writer), 1)
	}
}

func TestCancelledSync(t *testing.T) {
	st := mem.New()
	mustBackUp(t, initialise(t, st), blobs(1, 30))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, fresh(t, st).Sync(ctx), context.Canceled)
}

// A prune moves blobs to another pack and removes the old one during a read.
func TestMovedBlobIsFound(t *testing.T) {
	st := mem.New()
	writer := initialise(t, st)
	data := blobs(1, 10)
	id := mustBackUp(t, writer, data)
	old := packIDs(t, st)
	reader := fresh(t, st)
	require.NoError(t, reader.Sync(t.Context()))

	putMark(t, writer, old...)
	mustBackUp(t, fresh(t, st), data) // stores all blobs again, because the old packs are doomed
	for _, pack := range old {
		require.NoError(t, st.Delete(t.Context(), store.Name{Kind: store.Pack, ID: pack.String()}))
	}
	requireComplete(t, reader, id, data)
}

// A copied pack that no segment names is damaged in the middle: what is intact is found.
func TestRebuildFromDamagedPack(t *testing.T) {
	st := mem.New()
	writer := initialise(t, st)
	data := blobs(1, 60)
	opt := small()
	opt.Tuning.DataPack = 1 << 20
	_, err := backUp(t.Context(), writer, opt, data)
	require.NoError(t, err)
	for _, name := range names(t, st, store.Pack) {
		p := bytesOf(t, st, name)
		if len(p) > 10<<10 {
			p[len(p)/2] ^= 1
			require.NoError(t, st.Put(t.Context(), name, p[:len(p)-1]))
		}
	}
	for _, name := range names(t, st, store.Index) {
		require.NoError(t, st.Delete(t.Context(), name))
	}
	r := fresh(t, st)
	require.NoError(t, r.Sync(t.Context()))
	known := has(t, r, data)
	require.Contains(t, known, false)
	require.Contains(t, known, true)
	h := r.Keys().Hasher()
	for i, ok := range known {
		got, err := r.LoadBlob(t.Context(), h.ID(data[i]))
		if ok {
			require.NoError(t, err)
			require.Equal(t, data[i], got)
		} else {
			require.ErrorIs(t, err, store.ErrNotExist)
		}
	}
}
