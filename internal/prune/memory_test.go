package prune

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/reach"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// indexed makes a repository with an index of packs that do not exist.
func indexed(t testing.TB, packs, blobs int) *repo.Repository {
	t.Helper()
	ctx := context.Background()
	st := mem.New()
	r, _, err := repo.Init(ctx, st, repo.InitOptions{
		Secrets: []repo.Secret{{Method: keyfile.Passphrase, Value: []byte("x")}},
		Params:  keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1},
		Open:    repo.OpenOptions{Cache: repo.CacheOptions{Temporary: true}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	const frames, sealed = 8, 4096
	for i := range packs {
		s := index.Pack{ID: id(uint64(i), 1), Size: pack.HeaderSize + frames*sealed + pack.FooterSize + 1000}
		s.Table.Kind = pack.Data
		for j := range frames {
			f := pack.Frame{Offset: uint32(pack.HeaderSize + j*sealed), Sealed: sealed}
			for k := range blobs / frames {
				f.Blobs = append(f.Blobs, pack.Blob{ID: id(uint64((i*frames+j)*blobs/frames+k), 2), Len: 10})
				f.Raw += 10
			}
			s.Table.Frames = append(s.Table.Frames, f)
		}
		data, name := object.Seal(r.Keys(), store.Index, index.Encode(nil, &index.Segment{Packs: []index.Pack{s}}))
		require.NoError(t, st.Put(ctx, object.Named(store.Index, name), data))
		require.NoError(t, st.Put(ctx, object.Named(store.Pack, s.ID), make([]byte, s.Size)))
	}
	return r
}

// id is the n-th of IDs that spread evenly.
func id(n, kind uint64) (id format.ID) {
	rng := rand.New(rand.NewPCG(n, kind))
	for i := 0; i < len(id); i += 8 {
		binary.LittleEndian.PutUint64(id[i:], rng.Uint64())
	}
	return id
}

// TestEveryBlobHasAPlace: each blob has a number of its own, in the range of its pack, and a blob of no pack is lost.
func TestEveryBlobHasAPlace(t *testing.T) {
	const packs, blobs = 5, 800
	r := indexed(t, packs, blobs)
	p, err := openPlaces(t.Context(), r, segmentReader(r), report.NewJob(report.Prune, time.Now),
		t.TempDir(), map[format.ID]bool{id(3, 1): true}, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.close()) }()
	require.EqualValues(t, packs*blobs, p.index.Blobs())
	seen := reach.NewBitset(p.index.Blobs())
	for i := range packs * blobs {
		at, err := p.index.LocateOne(id(uint64(i), 2))
		require.NoError(t, err)
		require.False(t, at.Lost())
		require.True(t, seen.Add(at.Number()))
		require.False(t, seen.Add(at.Number()))
		s := p.find(id(uint64(i/blobs), 1))
		require.EqualValues(t, i%blobs, at.Number()-s.base)
		require.Equal(t, i/blobs == 3, s.doomed)
		require.Equal(t, i/blobs == 3, at.Rank() == rankOther)
	}
	for i := range p.packs {
		require.EqualValues(t, blobs, seen.Count(p.packs[i].base, p.packs[i].blobs))
	}
	at, err := p.index.LocateOne(id(1, 9))
	require.NoError(t, err)
	require.True(t, at.Lost())
}

// TestMemoryOfABlob: in memory a blob takes two bits (one of them during the walk), its share of what is known of its
// pack, and a tenth of a byte that leads to its place.
func TestMemoryOfABlob(t *testing.T) {
	const blobs = 4000
	packs := testkit.Rounds(30, 100, 100)
	r := indexed(t, packs, blobs)
	taken := math.Inf(1)
	for range 3 { // the runtime adds some kilobytes of its own now and then
		before := heap()
		p, err := openPlaces(t.Context(), r, segmentReader(r), report.NewJob(report.Prune, time.Now), t.TempDir(), nil, false)
		require.NoError(t, err)
		visited := reach.NewBitset(p.index.Blobs())
		_, err = p.index.LocateOne(id(1, 2)) // sorts the list
		require.NoError(t, err)
		require.Less(t, p.reader.Room, kept)
		require.GreaterOrEqual(t, p.reader.Room, 0)
		require.EqualValues(t, packs*blobs, p.index.Blobs())
		p.reader = nil // however many blobs there are
		taken = min(taken, float64(heap()-before)/float64(packs*blobs))
		runtime.KeepAlive(visited)
		runtime.KeepAlive(p)
		require.NoError(t, p.close())
	}
	t.Logf("%.2f bytes in memory for each of %d blobs", taken, packs*blobs)
	require.Less(t, taken, 0.6)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestLimit(t *testing.T) {
	for text, want := range map[string]uint64{"5%": 50, "0%": 0, "200": 200 << 20, "200B": 200, "1K": 1024, "50%": 950} {
		l, err := ParseLimit(text)
		require.NoError(t, err)
		require.Equal(t, want, l.Allowed(950), text)
	}
	l, err := ParseLimit("unlimited")
	require.NoError(t, err)
	require.Greater(t, l.Allowed(1), uint64(1<<62))
	for _, text := range []string{"", "%", "-1%", "100%", "x", "-5", "NaN%"} {
		_, err := ParseLimit(text)
		require.Error(t, err, "%q", text)
	}
}

// doomed is a survey of packs that two marks doom. Each mark names two thirds of them. Every fifth is needed.
func doomed(packs int) *survey {
	v := &survey{places: &places{}}
	for i := range packs {
		s := packState{id: id(uint64(i), 1), size: 1, doomed: true}
		if i%5 == 0 {
			s.live = 1
		}
		v.packs = append(v.packs, s)
	}
	slices.SortFunc(v.packs, func(a, b packState) int { return a.id.Compare(b.id) })
	for part := range 2 {
		m := &mark.Mark{Packs: []format.ID{{1, 2, 3}}} // one that is gone
		for i := range packs {
			if i%3 != part {
				m.Packs = append(m.Packs, id(uint64(i), 1))
			}
		}
		v.ripe = append(v.ripe, marks.Mark{Mark: m})
	}
	return v
}

// TestRemovableOnce: a pack that two marks doom goes once, or is revived once.
func TestRemovableOnce(t *testing.T) {
	v := doomed(300)
	what := v.removable()
	require.Len(t, what.packs, 240)
	require.Len(t, what.revived, 60)
	once := make(map[format.ID]bool)
	for _, p := range what.packs {
		require.Zero(t, v.find(p.id).live)
		once[p.id] = true
	}
	require.Len(t, once, 240)
}
