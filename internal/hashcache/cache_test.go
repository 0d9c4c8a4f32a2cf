package hashcache

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

var repo = [16]byte{1, 2, 3}

func openAt(t testing.TB, path string) *Cache {
	t.Helper()
	c, err := Open(path, repo, Door{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newCache(t testing.TB) *Cache { return openAt(t, filepath.Join(t.TempDir(), "sub", "cache.db")) }

func reopen(t testing.TB, c *Cache) *Cache {
	t.Helper()
	require.NoError(t, c.Close())
	return openAt(t, c.path)
}

// id returns the i-th of a sequence of random-looking IDs.
func id(i int) format.ID { return blake3.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i))) }

// segment returns one pack that holds the blobs, and where a lookup must find each.
func segment(packNo int, blobs []int) (*index.Segment, map[int]Loc) {
	p := index.Pack{ID: id(-1 - packNo), Size: uint64(packNo)*1000 + 7, Table: pack.Table{Kind: pack.Data}}
	p.Table.Salt[0], p.Table.Salt[31] = byte(packNo), 9
	where := make(map[int]Loc)
	offset := uint32(pack.HeaderSize)
	for len(blobs) > 0 {
		n := min(len(blobs), 20)
		f := pack.Frame{Offset: offset, Sealed: uint32(1000 + n), Codec: pack.Zstd}
		for _, b := range blobs[:n] {
			length := uint32(b%5000 + 1)
			where[b] = Loc{Pack: uint32(packNo), Offset: f.Offset, Sealed: f.Sealed, Skip: f.Raw, Len: length}
			f.Blobs = append(f.Blobs, pack.Blob{ID: id(b), Len: length})
			f.Raw += length
		}
		offset += f.Sealed
		p.Table.Frames = append(p.Table.Frames, f)
		blobs = blobs[n:]
	}
	return &index.Segment{Packs: []index.Pack{p}}, where
}

// model is what the cache must say.
type model struct {
	where    map[int]Loc
	segments []format.ID
}

// grow merges segments of random sizes, over blobs 0 to span.
func (m *model) grow(t testing.TB, c *Cache, r *rand.Rand, n, span int) {
	for range n {
		size := r.IntN(60)
		if r.IntN(9) == 0 {
			size = r.IntN(9000) // of the next order of magnitude
		}
		blobs := r.Perm(span)[:min(size, span)]
		no := len(m.segments)
		seg, where := segment(no, blobs)
		segID := id(1_000_000 + no)
		require.NoError(t, c.Merge(segID, seg))
		m.segments = append(m.segments, segID)
		for b, loc := range where {
			m.where[b] = loc
		}
	}
}

func (m *model) check(t testing.TB, c *Cache, span int) {
	t.Helper()
	ids := make([]format.ID, 0, span+100)
	for i := range span + 100 { // the last hundred are never merged
		ids = append(ids, id(i))
	}
	rand.New(rand.NewPCG(7, 7)).Shuffle(len(ids)/2, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	back := make(map[format.ID]int)
	for i := range span + 100 {
		back[id(i)] = i
	}
	ids = append(ids, ids[0], ids[0]) // the same ID more than once
	out := make([]Found, len(ids))
	out[0].OK = true // answers of before must not shine through
	require.NoError(t, c.Lookup(ids, out))
	for i := range ids {
		loc, ok := m.where[back[ids[i]]]
		require.Equal(t, Found{Loc: loc, OK: ok}, out[i], "blob %d", back[ids[i]])
		if ok {
			require.True(t, c.MayContain(ids[i]), "false negative of blob %d", back[ids[i]])
		}
	}
	segments, err := c.Segments()
	require.NoError(t, err)
	require.ElementsMatch(t, m.segments, segments)
	for n := range m.segments {
		info, err := c.Pack(uint32(n))
		require.NoError(t, err)
		want := PackInfo{ID: id(-1 - n), Salt: [32]byte{0: byte(n), 31: 9}, Kind: pack.Data, Size: uint64(n)*1000 + 7}
		require.Equal(t, want, info)
	}
	_, err = c.Pack(uint32(len(m.segments)))
	require.ErrorIs(t, err, ErrNoPack)
}

func TestAgainstModel(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			const span = 9_000
			r := rand.New(rand.NewPCG(seed, 1))
			c := newCache(t)
			m := &model{where: make(map[int]Loc)}
			m.check(t, c, 100)
			for range 4 {
				m.grow(t, c, r, 25, span)
				m.check(t, c, span)
				c = reopen(t, c)
				m.check(t, c, span)
			}
			require.Empty(t, c.Note())
		})
	}
}

func TestMergeTwiceChangesNothing(t *testing.T) {
	c := newCache(t)
	first, where := segment(0, []int{1, 2, 3})
	require.NoError(t, c.Merge(id(100), first))
	other, _ := segment(1, []int{1})
	require.NoError(t, c.Merge(id(100), other))
	out := make([]Found, 1)
	require.NoError(t, c.Lookup([]format.ID{id(1)}, out))
	require.Equal(t, Found{Loc: where[1], OK: true}, out[0])
}

func TestEmptySegmentIsRemembered(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.Merge(id(1), &index.Segment{}))
	got, err := c.Segments()
	require.NoError(t, err)
	require.Equal(t, []format.ID{id(1)}, got)
}

func TestPackKeepsItsNumber(t *testing.T) {
	c := newCache(t)
	for i := range 3 {
		seg, _ := segment(i, []int{i})
		require.NoError(t, c.Merge(id(100+i), seg))
	}
	again, _ := segment(1, []int{1, 50})
	require.NoError(t, c.Merge(id(200), again))
	out := make([]Found, 1)
	require.NoError(t, c.Lookup([]format.ID{id(50)}, out))
	require.True(t, out[0].OK)
	require.Equal(t, uint32(1), out[0].Loc.Pack)
	_, err := c.Pack(3)
	require.ErrorIs(t, err, ErrNoPack)
}

func TestDrop(t *testing.T) {
	c := newCache(t)
	r := rand.New(rand.NewPCG(1, 1))
	m := &model{where: make(map[int]Loc)}
	m.grow(t, c, r, 20, 500)
	m.check(t, c, 500)
	batch := c.NewDirBatch()
	require.NoError(t, batch.Put(key(1), []byte("v")))
	require.NoError(t, batch.Commit(id(1)))
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1)}))
	require.NoError(t, c.Drop())
	m = &model{where: make(map[int]Loc)}
	m.check(t, c, 500)
	require.False(t, c.MayContain(id(1)))
	m.grow(t, c, r, 20, 500)
	m.check(t, c, 500)
	hit, ok, err := c.Dir(key(1), nil)
	require.NoError(t, err)
	require.True(t, ok, "directories stay")
	require.Equal(t, "v", string(hit.Value))
	m.check(t, reopen(t, c), 500)
	_, _, err = c.Dir(key(1), nil)
	require.ErrorContains(t, err, "not open", "closed")
}

func TestLookupNeedsRoom(t *testing.T) {
	c := newCache(t)
	require.ErrorContains(t, c.Lookup(make([]format.ID, 2), make([]Found, 1)), "room")
	require.NoError(t, c.Lookup(nil, nil))
}

func TestFilterSaysNoToNearlyAllNewBlobs(t *testing.T) {
	c := newCache(t)
	var blobs []int
	for i := range 5000 {
		blobs = append(blobs, i)
	}
	seg, _ := segment(0, blobs)
	require.NoError(t, c.Merge(id(-9), seg))
	alarms := 0
	for i := range 10_000 {
		if c.MayContain(id(5000 + i)) {
			alarms++
		}
	}
	require.Less(t, alarms, 300, "the rate is about 1 %%")
	for _, b := range blobs {
		require.True(t, c.MayContain(id(b)))
	}
}

func TestBusy(t *testing.T) {
	c := newCache(t)
	_, err := Open(c.path, repo, Door{})
	require.ErrorIs(t, err, ErrBusy)
	temp, err := OpenTemp(filepath.Dir(c.path), repo, Door{})
	require.NoError(t, err)
	m := &model{where: make(map[int]Loc)}
	m.grow(t, temp, rand.New(rand.NewPCG(1, 2)), 30, 3000)
	m.check(t, temp, 3000)
	batch := temp.NewDirBatch()
	batch.limit = 100
	for i := range 50 {
		require.NoError(t, batch.Put(key(i), []byte("value")))
	}
	entries, err := os.ReadDir(filepath.Dir(c.path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "temporary files have no name")
	require.NoError(t, batch.Discard())
	require.NoError(t, temp.Close())
	require.NoError(t, c.Close())
	openAt(t, c.path)
}

func TestForeignFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.db")
	c, err := Open(other, [16]byte{9}, Door{})
	require.NoError(t, err)
	require.NoError(t, c.Merge(id(1), &index.Segment{}))
	require.NoError(t, c.Close())
	newer := filepath.Join(dir, "newer.db")
	c = openAt(t, newer)
	require.NoError(t, c.update("test", func(tx *bolt.Tx) error {
		return bucket(tx, bucketMeta).Put([]byte(metaLayout), number(layout+1))
	}))
	require.NoError(t, c.Close())
	missing := filepath.Join(dir, "missing.db")
	c = openAt(t, missing)
	require.NoError(t, c.update("test", func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(bucketWriters)) }))
	require.NoError(t, c.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "short.db"), []byte("not a database"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text.db"), make([]byte, 100_000), 0o600))
	for _, name := range []string{"other.db", "newer.db", "missing.db", "short.db", "text.db"} {
		c, err := Open(filepath.Join(dir, name), repo, Door{})
		require.NoError(t, err, name)
		require.Contains(t, c.Note(), "replaced", name)
		segments, err := c.Segments()
		require.NoError(t, err)
		require.Empty(t, segments)
		require.NoError(t, c.Close())
		c, err = Open(filepath.Join(dir, name), repo, Door{})
		require.NoError(t, err)
		require.Empty(t, c.Note(), "once is enough")
		require.NoError(t, c.Close())
	}
}

func TestOpenErrorsOfTheSystemKeepTheFile(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(dir, repo, Door{}) // a folder
	require.Error(t, err)
	require.DirExists(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err = Open(filepath.Join(dir, "file", "cache.db"), repo, Door{})
	require.Error(t, err)
}

// TestDamage cuts the file and overwrites pages. Whatever a damaged cache says, it neither panics nor fails with
// anything but ErrDamaged; and after it was closed, a sound one takes its place.
func TestDamage(t *testing.T) {
	c := newCache(t)
	r := rand.New(rand.NewPCG(5, 5))
	m := &model{where: make(map[int]Loc)}
	m.grow(t, c, r, 30, 5000)
	batch := c.NewDirBatch()
	for i := range 500 {
		require.NoError(t, batch.Put(key(i), []byte(fmt.Sprint("value ", i))))
	}
	require.NoError(t, batch.Commit(id(1)))
	require.NoError(t, c.Close())
	sound, err := os.ReadFile(c.path)
	require.NoError(t, err)
	noticed := 0
	for round := range 60 {
		bad := append([]byte(nil), sound...)
		if round%3 == 0 {
			bad = bad[:r.IntN(len(bad))]
		} else {
			at := r.IntN(len(bad)/4096) * 4096
			for i := range 4096 {
				bad[at+i] = byte(r.Uint32())
			}
		}
		path := filepath.Join(t.TempDir(), "cache.db")
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		d, err := Open(path, repo, Door{})
		require.NoError(t, err)
		if d.Note() != "" || useAll(t, d) {
			noticed++
		}
		require.NoError(t, d.Close())
		if d.damaged.Load() {
			require.NoFileExists(t, path)
		}
	}
	require.Greater(t, noticed, 20, "most damage is noticed")
}

// useAll calls everything and reports whether damage was noticed.
func useAll(t *testing.T, c *Cache) bool {
	t.Helper()
	ids := make([]format.ID, 5100)
	for i := range ids {
		ids[i] = id(i)
	}
	_, errSegments := c.Segments()
	errLive := c.SetLiveSnapshots([]format.ID{id(1)})
	errs := []error{errSegments, errLive, c.Lookup(ids, make([]Found, len(ids)))}
	for i := range 500 {
		hit, ok, err := c.Dir(key(i), nil)
		errs = append(errs, err)
		if ok {
			require.Equal(t, fmt.Sprint("value ", i), string(hit.Value), "a damaged entry is never believed")
		}
	}
	for i := range 10 {
		seg, _ := segment(1000+i, []int{6000 + i})
		errs = append(errs, c.Merge(id(-5000-i), seg))
	}
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
	}
	return c.damaged.Load()
}

// TestLookupsBesideMerges: a blob that was there is there at every moment, whatever is merged meanwhile.
func TestLookupsBesideMerges(t *testing.T) {
	c := newCache(t)
	m := &model{where: make(map[int]Loc)}
	m.grow(t, c, rand.New(rand.NewPCG(1, 9)), 10, 2000)
	var known []format.ID
	for b := range m.where {
		known = append(known, id(b))
	}
	require.NotEmpty(t, known)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for range 3 {
		wg.Go(func() {
			out := make([]Found, len(known))
			for {
				err := c.Lookup(known, out)
				for i := range out {
					if !out[i].OK || !c.MayContain(known[i]) {
						err = fmt.Errorf("blob %s was lost: %v", known[i], err)
					}
				}
				if err != nil {
					errs <- err
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	m.grow(t, c, rand.New(rand.NewPCG(2, 9)), 60, 2000)
	close(stop)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func BenchmarkLookup(b *testing.B) {
	c := newCache(b)
	const n = 200_000
	for s := range 20 {
		var blobs []int
		for i := range n / 20 {
			blobs = append(blobs, s*n/20+i)
		}
		seg, _ := segment(s, blobs)
		require.NoError(b, c.Merge(id(-10_000-s), seg))
	}
	for _, kind := range []string{"known", "new"} {
		b.Run(kind, func(b *testing.B) {
			ids := make([]format.ID, 256)
			for i := range ids {
				ids[i] = id(i * 700)
				if kind == "new" {
					ids[i] = id(n + i)
				}
			}
			out := make([]Found, len(ids))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, c.Lookup(ids, out))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/blob")
		})
	}
}
