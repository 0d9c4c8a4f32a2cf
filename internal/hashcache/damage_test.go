package hashcache

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// recordsIn returns where the records of all buckets lie in a file, each in all its copies: a value follows its key.
func recordsIn(t *testing.T, path string) map[string][][2]int {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	out := make(map[string][][2]int)
	var walk func(name string, b *bolt.Bucket) error
	walk = func(name string, b *bolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return walk(name, b.Bucket(k))
			}
			record := append(bytes.Clone(k), v...)
			for at := 0; ; at++ {
				next := bytes.Index(file[at:], record)
				if next < 0 {
					return nil
				}
				at += next
				out[name] = append(out[name], [2]int{at, len(record)})
			}
		})
	}
	require.NoError(t, db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error { return walk(string(name), b) })
	}))
	return out
}

// Whatever bit flips, in whatever bucket: no directory is vouched for by a snapshot that is gone or that never had it, no
// blob lies where it does not, and no pack is another. It may be that something is not known any more.
func TestFlippedBitsAreNotBelieved(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(3, 3))
	blobs := &model{where: make(map[int]Loc)}
	for i := range 12 {
		var own []int
		for n := range 40 {
			own = append(own, i*40+n)
		}
		seg, where := segment(i, own)
		require.NoError(t, w.c.Merge(id(1_000_000+i), seg))
		for b, loc := range where {
			blobs.where[b] = loc
		}
	}
	state := dirs(120)
	for round := range 14 {
		w.backup(state)
		if len(w.live) > 3 {
			w.forget(r.IntN(2))
		}
		for range 10 { // these get other entries
			state[r.IntN(120)] = fmt.Sprintf("state %d, %d", round, r.IntN(1000))
		}
		delete(state, round)
	}
	require.NoError(t, w.c.Close())
	sound, err := os.ReadFile(w.c.path)
	require.NoError(t, err)
	records := recordsIn(t, w.c.path)
	path := filepath.Join(t.TempDir(), "cache.db")
	disbelieved := 0
	for _, name := range []string{
		bucketMeta, bucketPacks, bucketPackIDs, bucketDirs, bucketWriters, bucketKept, "blobs", "filters", "", // of "" anywhere
	} {
		require.True(t, name == "" || len(records[name]) > 0, name)
		for range 15 {
			bad := append([]byte(nil), sound...)
			at := r.IntN(len(bad))
			if name != "" {
				part := records[name][r.IntN(len(records[name]))]
				at = part[0] + r.IntN(part[1])
			}
			bad[at] ^= 1 << r.IntN(8)
			require.NoError(t, os.WriteFile(path, bad, 0o600))
			if !w.believesNothingWrong(path, blobs) {
				disbelieved++
			}
		}
	}
	require.Greater(t, disbelieved, 30)
}

// believesNothingWrong opens a damaged cache, asks it everything, and demands that no answer is wrong. It reports whether
// nothing was noticed.
func (w *world) believesNothingWrong(path string, blobs *model) (unnoticed bool) {
	w.t.Helper()
	c, err := Open(path, repo, Door{})
	require.NoError(w.t, err)
	defer func() { require.NoError(w.t, c.Close()) }()
	unnoticed = c.Note() == ""
	check := func(err error) bool {
		if err != nil {
			require.ErrorIs(w.t, err, ErrDamaged)
			unnoticed = false
		}
		return err == nil
	}
	if check(c.SetLiveSnapshots(w.live)) {
		for i := range 140 {
			hit, ok, err := c.Dir(key(i), nil)
			if check(err) && ok {
				w.vouched(i, hit)
			}
		}
	}
	for b, want := range blobs.where {
		var found [1]Found
		if !check(c.Lookup([]format.ID{id(b)}, found[:])) || !found[0].OK {
			continue
		}
		require.Equal(w.t, want, found[0].Loc, "blob %d", b)
		info, err := c.Pack(want.Pack)
		if errors.Is(err, ErrNoPack) {
			unnoticed = false // who asks takes it for a place that cannot be
		} else if check(err) {
			require.Equal(w.t, id(-1-int(want.Pack)), info.ID)
		}
	}
	// A run that goes on upon it must not call alive what is dead either.
	batch := c.NewDirBatch()
	require.NoError(w.t, batch.Put(key(999), []byte("new")))
	if check(batch.Commit(id(777_777))) && check(c.SetLiveSnapshots(append([]format.ID{id(777_777)}, w.live...))) {
		for i := range 140 {
			hit, ok, err := c.Dir(key(i), nil)
			if check(err) && ok {
				w.vouched(i, hit)
			}
		}
	}
	return unnoticed
}

// The file is cut or overwritten while many look and somebody writes. Everybody comes to an end, and learns why.
func TestDamageBeneathManyWhoLook(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"cut":          func(path string) error { return os.Truncate(path, 0) },
		"cut to pages": func(path string) error { return os.Truncate(path, 12<<10) },
		"zeros behind the head": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt(make([]byte, 1<<20), 8192)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for round := range 4 {
				c := openAt(t, filepath.Join(t.TempDir(), "cache.db"))
				m := &model{where: make(map[int]Loc)}
				m.grow(t, c, rand.New(rand.NewPCG(uint64(round), 1)), 15, 3000)
				require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1)}))
				remember(t, c, 1, 0, 500)
				var looked, left atomic.Int64
				var all sync.WaitGroup
				spoiled := make(chan struct{})
				for g := range 6 {
					all.Go(func() {
						ids, out := []format.ID{id(g), id(g + 100), id(g + 2000)}, make([]Found, 3)
						for i := 0; ; i++ {
							err := c.Lookup(ids, out)
							if err == nil {
								_, _, err = c.Dir(key((g*80+i)%500), nil)
							}
							if err == nil && g == 0 {
								seg, _ := segment(1000+i, []int{9000 + i})
								err = c.Merge(id(-5000-i), seg)
							}
							if looked.Add(1) == 200 {
								close(spoiled)
							}
							if err != nil || i > 100_000 {
								if err == nil {
									left.Add(1)
								} else if !c.damaged.Load() {
									t.Error(err)
								}
								return
							}
						}
					})
				}
				<-spoiled
				require.NoError(t, spoil(c.path))
				all.Wait()
				require.Zero(t, left.Load(), "somebody did not notice")
				require.NoError(t, c.Close())
				require.NoFileExists(t, c.path)
			}
		})
	}
}

// A cache that is given up is gone at once, whoever looks, and its name is left to others.
func TestGiveUp(t *testing.T) {
	c := newCache(t)
	require.True(t, c.Grown(), "it is new")
	m := &model{where: make(map[int]Loc)}
	m.grow(t, c, rand.New(rand.NewPCG(1, 1)), 10, 500)
	c = reopen(t, c)
	require.False(t, c.Grown())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				if err := c.Lookup([]format.ID{id(1)}, make([]Found, 1)); err != nil {
					return
				}
			}
		})
	}
	c.GiveUp()
	all.Wait()
	require.NoFileExists(t, c.path)
	_, err := c.Segments()
	require.ErrorIs(t, err, ErrDamaged)
	other := openAt(t, c.path)
	require.Empty(t, other.Note())
	require.NoError(t, c.Close())
	require.FileExists(t, c.path, "it is another's by now")
	require.True(t, c.Tell())
	require.False(t, c.Tell())
}
