package dircache

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

func key(i int) (k [16]byte) {
	full := id(-1_000_000 - i)
	copy(k[:], full[:])
	return k
}

// world is a simulation of backups: directories change, runs write and keep, snapshots are forgotten.
type world struct {
	t     *testing.T
	c     *Cache
	live  []format.ID
	trees map[format.ID]map[int]string // what each live snapshot contains
	last  int
}

// backup makes a snapshot of the given directories. What the cache remembers unchanged is kept, the rest put.
func (w *world) backup(state map[int]string) (hits int) {
	w.t.Helper()
	batch := w.c.NewBatch()
	batch.limit = 400
	contents := make(map[int]string)
	for dir, value := range state {
		contents[dir] = value
		hit, ok, err := w.c.Lookup(key(dir), nil)
		require.NoError(w.t, err)
		if ok {
			w.requireContained(dir, hit)
		}
		if ok && string(hit.Value) == value {
			batch.Keep(hit.Ref)
			hits++
			continue
		}
		require.NoError(w.t, batch.Put(key(dir), []byte(value)))
	}
	w.last++
	id := id(500_000 + w.last)
	require.NoError(w.t, batch.Commit(id, nil))
	w.live = append(w.live, id)
	w.trees[id] = contents
	return hits
}

// requireContained fails unless the snapshot of a hit is live and contains that value: otherwise a backup would refer
// to a tree that a prune may have removed.
func (w *world) requireContained(dir int, hit Hit) {
	w.t.Helper()
	contents, live := w.trees[hit.Snapshot]
	require.True(w.t, live, "directory %d: the snapshot is gone", dir)
	require.Equal(w.t, contents[dir], string(hit.Value), "directory %d: not in that snapshot", dir)
}

func (w *world) forget(i int) {
	delete(w.trees, w.live[i])
	w.live = append(w.live[:i], w.live[i+1:]...)
	require.NoError(w.t, w.c.SetLiveSnapshots(w.live))
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, c: newCache(t), trees: make(map[format.ID]map[int]string)}
	require.NoError(t, w.c.SetLiveSnapshots(nil))
	return w
}

func dirs(n int) map[int]string {
	state := make(map[int]string)
	for i := range n {
		state[i] = fmt.Sprint("state 0 of ", i)
	}
	return state
}

func TestUnchangedDirectoriesOutliveTheirWriter(t *testing.T) {
	w := newWorld(t)
	state := dirs(300)
	require.Equal(t, 0, w.backup(state))
	for round := range 30 {
		require.Equal(t, 300, w.backup(state), "round %d", round)
		if len(w.live) > 2 {
			w.forget(0)
		}
	}
	require.NotContains(t, w.live, id(500_001))
	w.c = reopen(t, w.c)
	_, ok, err := w.c.Lookup(key(1), nil)
	require.NoError(t, err)
	require.False(t, ok, "nothing counts before the live snapshots are known")
	require.NoError(t, w.c.SetLiveSnapshots(w.live))
	require.Equal(t, 300, w.backup(state))
	require.NoError(t, w.c.SetLiveSnapshots(append([]format.ID{id(500_001)}, w.live...)))
	for _, kept := range w.c.state.Writers {
		require.NotEqual(t, id(500_001), kept.Snapshot, "generations of forgotten snapshots are deleted")
	}
}

func TestRareSourceIsNotThinnedAway(t *testing.T) {
	w := newWorld(t)
	often, seldom := map[int]string{}, map[int]string{}
	for i, v := range dirs(200) {
		if i < 100 {
			often[i] = v
		} else {
			seldom[i] = v
		}
	}
	w.backup(seldom)
	require.Equal(t, 100, w.backup(seldom))
	for range 3 * fullBitmaps {
		w.backup(often)
	}
	w.forget(0) // the snapshot that wrote the rare ones; those that kept them are far behind
	require.Equal(t, 100, w.backup(seldom))
	chunks := 0
	for _, kept := range w.c.state.Writers {
		chunks += len(kept.Kept)
	}
	require.LessOrEqual(t, chunks, fullBitmaps+3, "bitmaps do not add up")
}

func TestRandomHistory(t *testing.T) {
	for seed := range uint64(3) {
		w := newWorld(t)
		r := rand.New(rand.NewPCG(seed, 4))
		state := dirs(150)
		for round := range 40 {
			for range r.IntN(5) {
				state[r.IntN(150)] = fmt.Sprint("state of round ", round, " ", r.IntN(2))
			}
			part := make(map[int]string)
			cut := r.IntN(3)
			for dir, v := range state {
				if cut == 0 || dir%3 == cut {
					part[dir] = v
				}
			}
			w.backup(part) // vouched checks every hit
			for len(w.live) > 12 || len(w.live) > 0 && r.IntN(4) == 0 {
				w.forget(r.IntN(len(w.live)))
			}
			if r.IntN(10) == 0 {
				w.c = reopen(t, w.c)
				require.NoError(t, w.c.SetLiveSnapshots(w.live))
			}
		}
	}
}

func TestInterruptedRunChangesNothing(t *testing.T) {
	w := newWorld(t)
	state := dirs(100)
	w.backup(state)
	batch := w.c.NewBatch()
	batch.limit = 100
	for i := range 50 {
		require.NoError(t, batch.Put(key(i), []byte("of a run that ends early")))
	}
	require.NoError(t, batch.Discard())
	require.NoError(t, batch.Discard())
	require.ErrorIs(t, batch.Put(key(1), nil), errEnded)
	require.ErrorIs(t, batch.Commit(id(1), nil), errEnded)
	batch.Keep(1)
	require.Equal(t, 100, w.backup(state))
}

// TestCrashInCommit: a commit that did not reach its end leaves files, which the next process removes.
func TestCrashInCommit(t *testing.T) {
	w := newWorld(t)
	state := dirs(100)
	w.backup(state)
	had := files(t, w.c)
	batch := w.c.NewBatch()
	for i := range 50 {
		require.NoError(t, batch.Put(key(i), []byte("new")))
	}
	next := *w.c.state
	next.add(id(77), nil)
	require.NoError(t, w.c.merge(&next, batch))
	require.NoError(t, batch.Discard())
	next.close(w.c.state)
	require.NoError(t, os.WriteFile(filepath.Join(w.c.dir, tempPrefix+"1"), []byte("x"), 0o600))
	require.Len(t, files(t, w.c), len(had)+2)
	w.c = reopen(t, w.c)
	require.Equal(t, had, files(t, w.c))
	require.NoError(t, w.c.SetLiveSnapshots(append(w.live, id(77))))
	require.Equal(t, 100, w.backup(state))
}

func TestLaterValueCounts(t *testing.T) {
	c := newCache(t)
	batch := c.NewBatch()
	batch.limit = 200
	for i := range 100 {
		require.NoError(t, batch.Put(key(i%10), fmt.Appendf(nil, "value %d", i)))
	}
	require.NoError(t, batch.Put(key(3), nil), "an empty value is a value")
	require.NoError(t, batch.Commit(id(1), nil))
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1)}))
	for i := range 10 {
		hit, ok, err := c.Lookup(key(i), nil)
		require.NoError(t, err)
		require.True(t, ok)
		want := fmt.Sprintf("value %d", 90+i)
		if i == 3 {
			want = ""
		}
		require.Equal(t, want, string(hit.Value))
		require.Equal(t, id(1), hit.Snapshot)
	}
	require.Len(t, c.state.Layers, 1)
	require.EqualValues(t, 10, c.state.Layers[0].Count)
}

// TestSweep: what does not count any more is left out where layers are merged. So the cache is no longer than what
// counts, and a quarter.
func TestSweep(t *testing.T) {
	w := newWorld(t)
	w.backup(dirs(300))
	state := dirs(20)
	w.backup(state)
	w.forget(0)
	for i := range 76 {
		state[1000+i] = "new"
	}
	require.Equal(t, 20, w.backup(state))
	require.Len(t, w.c.state.Layers, 1)
	require.EqualValues(t, 96, w.c.state.Layers[0].Count)
	require.Len(t, files(t, w.c), 2)
	require.Equal(t, 96, w.backup(state))
	require.Len(t, files(t, w.c), 2, "nothing is written where nothing changed")
}

// TestLayers: the layers of many runs stay few, each much longer than the next.
func TestLayers(t *testing.T) {
	w := newWorld(t)
	state := dirs(1000)
	w.backup(state)
	for round := range 100 {
		for i := range 1 + round%7 {
			state[(round*37+i)%1000] = fmt.Sprint("state of round ", round)
		}
		w.backup(state)
		if len(w.live) > 3 {
			w.forget(0)
		}
		require.LessOrEqual(t, len(w.c.state.Layers), 5)
		for i, l := range w.c.state.Layers[1:] {
			require.GreaterOrEqual(t, w.c.state.Layers[i].Count, l.Count*mergeRatio)
		}
	}
	require.Len(t, files(t, w.c), 1+len(w.c.state.Layers))
}

func TestParallelPuts(t *testing.T) {
	c := newCache(t)
	batch := c.NewBatch()
	batch.limit = 3000
	var wg sync.WaitGroup
	errs := make(chan error, 4*200)
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				errs <- batch.Put(key(g*200+i), binary.AppendUvarint(nil, uint64(i)))
				batch.Keep(Ref(g*200 + i))
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, batch.Commit(id(1), nil))
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1)}))
	for i := range 800 {
		_, ok, err := c.Lookup(key(i), nil)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.Len(t, files(t, c), 2, "no temporary file")
}

// TestRenamed: the entries of a snapshot count for the one that takes its place, and those of others stay.
func TestRenamed(t *testing.T) {
	c := newCache(t)
	require.NoError(t, c.SetLiveSnapshots(nil))
	for n := range 2 {
		b := c.NewBatch()
		require.NoError(t, b.Put(key(n), []byte{byte(n)}))
		require.NoError(t, b.Commit(id(n), nil))
	}
	require.NoError(t, c.Renamed(id(0), id(7)))
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(7), id(1)}))
	for n, want := range []format.ID{id(7), id(1)} {
		hit, ok, err := c.Lookup(key(n), nil)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, hit.Snapshot)
		require.Equal(t, []byte{byte(n)}, hit.Value)
	}
	require.NoError(t, c.SetLiveSnapshots([]format.ID{id(0)}))
	_, ok, err := c.Lookup(key(0), nil)
	require.NoError(t, err)
	require.False(t, ok, "the old name counts no longer")
}
