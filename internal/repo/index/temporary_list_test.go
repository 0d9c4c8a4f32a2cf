package index

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const perPage = cachefile.PageRoom / recordSize

func listFile(t testing.TB) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "index"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// random is the n-th of IDs that spread evenly.
func random(n uint64) (id format.ID) {
	rng := rand.New(rand.NewPCG(n, 7))
	for i := 0; i < len(id); i += 8 {
		binary.LittleEndian.PutUint64(id[i:], rng.Uint64())
	}
	return id
}

// alike is the n-th of IDs with only three different beginnings: they fill several blocks with equal beginnings.
func alike(n uint64) (id format.ID) {
	id[0] = byte(n % 3)
	binary.LittleEndian.PutUint64(id[20:], n*0x9E3779B97F4A7C15)
	return id
}

// TestLookupIsAMap compares with a map: of several places of an ID the one of the lowest rank counts, of these that of
// the lowest order, of equal ones the newest, and what is not there is not found.
func TestLookupIsAMap(t *testing.T) {
	for _, of := range []func(uint64) format.ID{random, alike} {
		for _, n := range []int{0, 1, perPage, perPage + 1, 1000, 5000} {
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			x := newTemporary(listFile(t))
			x.most = 300
			want, best := make(map[format.ID]Place), make(map[format.ID]uint64)
			for i := range n {
				if i%50 == 0 {
					at, err := x.runs.Append([]byte("between"))
					require.NoError(t, err)
					require.Less(t, at, x.runs.End())
				}
				id, number := of(rng.Uint64N(uint64(n))), rng.Uint32()
				loc := Loc{Offset: rng.Uint32(), Sealed: rng.Uint32(), Skip: rng.Uint32(), Len: rng.Uint32()}
				rank := rng.Uint64N(2)
				order := rank<<32 | rng.Uint64N(4)
				if had, known := best[id]; !known || order <= had {
					want[id], best[id] = Place{loc, number, int8(rank + 1)}, order
				}
				require.NoError(t, x.put(int(rank), uint32(order), id, loc, number))
			}
			var ids []format.ID
			for i := range uint64(n) + 500 {
				ids = append(ids, of(i))
			}
			rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			for len(ids) > 0 {
				k := 1 + rng.IntN(min(len(ids), 400))
				out := make([]Place, k)
				require.NoError(t, x.lookup(ids[:k], out))
				for i, f := range out {
					require.Equal(t, want[ids[i]], f)
				}
				ids = ids[k:]
			}
			require.EqualValues(t, len(want), x.records.Count)
			var last *format.ID
			require.NoError(t, x.Each(func(id format.ID, number uint64) error {
				require.True(t, last == nil || last.Compare(id) < 0)
				require.EqualValues(t, want[id].number, number)
				delete(want, id)
				last = &id
				return nil
			}))
			require.Empty(t, want)
			require.ErrorIs(t, x.put(0, 0, format.ID{}, Loc{}, 0), errFull)
		}
	}
}

// counted is a file that counts and may fail.
type counted struct {
	*os.File
	reads, writes int
	failing       error
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	if c.failing != nil {
		return 0, c.failing
	}
	return c.File.ReadAt(p, off)
}

func (c *counted) WriteAt(p []byte, off int64) (int, error) {
	c.writes++
	if c.failing != nil {
		return 0, c.failing
	}
	return c.File.WriteAt(p, off)
}

// TestALookupReadsAPage: one page for each blob at most, and one for all that lie together.
func TestALookupReadsAPage(t *testing.T) {
	f := &counted{File: listFile(t)}
	x := newTemporary(f)
	const n = 100 * perPage
	for i := range uint64(n) {
		require.NoError(t, x.put(0, 0, random(i), Loc{}, 0))
	}
	out := make([]Place, n)
	require.NoError(t, x.lookup([]format.ID{random(0)}, out[:1]))
	f.reads = 0
	for i := range uint64(n) {
		require.NoError(t, x.lookup([]format.ID{random(i)}, out[:1]))
		require.False(t, out[0].Lost())
	}
	require.Equal(t, n, f.reads)
	var ids []format.ID
	for i := range uint64(n) {
		ids = append(ids, random(i))
	}
	f.reads = 0
	require.NoError(t, x.lookup(ids, out))
	require.Equal(t, 100, f.reads)
	allocated := testing.AllocsPerRun(100, func() {
		if err := x.lookup(ids[:10], out[:10]); err != nil {
			panic(err)
		}
	})
	// Without its pool a lookup allocates six times. With the race detector a pool loses a quarter of what it is given,
	// in the mean.
	require.Less(t, allocated, 3.0)
}

// TestMemoryOfATemporary: after the first lookup a tenth of a byte.
func TestMemoryOfATemporary(t *testing.T) {
	const n = 300_000
	before := heap()
	x := newTemporary(listFile(t))
	var id format.ID
	for i := range uint64(n) {
		binary.BigEndian.PutUint64(id[:], i*0x9E3779B97F4A7C15)
		require.NoError(t, x.put(0, 0, id, Loc{}, 0))
	}
	out := make([]Place, 1)
	require.NoError(t, x.lookup([]format.ID{id}, out))
	require.False(t, out[0].Lost())
	taken := float64(heap()-before) / n
	t.Logf("%.2f bytes for a blob, %.0f in the file", taken, float64(x.list.Base+int64(n)*cachefile.PageSize/perPage)/n)
	require.Less(t, taken, 0.5)
	runtime.KeepAlive(x)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestErrorsOfTheFile: neither a full disk nor a file that cannot be read is taken for a missing blob.
func TestErrorsOfTheFile(t *testing.T) {
	broken := errors.New("broken")
	out := make([]Place, 1)
	fill := func(f *counted) *Temporary {
		x := newTemporary(f)
		x.most = 10
		for i := range uint64(25) {
			require.NoError(t, x.put(0, 0, random(i), Loc{}, 0))
		}
		return x
	}
	f := &counted{File: listFile(t)}
	x := fill(f)
	f.failing = broken
	_, err := x.runs.Append([]byte("x"))
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, x.lookup([]format.ID{random(1)}, out), broken) // it cannot be merged
	f.failing = nil
	require.ErrorIs(t, x.lookup([]format.ID{random(1)}, out), broken, "an incomplete index is not searched")

	f = &counted{File: listFile(t)}
	x = fill(f)
	require.NoError(t, x.lookup([]format.ID{random(1)}, out))
	require.False(t, out[0].Lost())
	f.failing = broken
	require.ErrorIs(t, x.lookup([]format.ID{random(1)}, out), broken)
	f.failing = nil
	require.NoError(t, f.Truncate(x.list.Base+100))
	require.ErrorIs(t, x.lookup([]format.ID{random(1)}, out), io.EOF)
}

func TestRecordsKeepTheirBytes(t *testing.T) {
	loc := Loc{Offset: 2, Sealed: 1<<32 - 1, Skip: 4, Len: 5}
	require.Equal(t, Place{loc, 1, 4}, parsePlace(appendLoc([]byte{3}, loc, 1)))
}
