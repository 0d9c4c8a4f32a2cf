package dircache

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

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
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

// Whatever bit flips, in whatever bucket: the cache vouches for no directory by a snapshot that is gone or that never
// contained it. It may lose entries.
func TestFlippedBitsAreNotBelieved(t *testing.T) {
	testkit.Slow(t)
	w := newWorld(t)
	r := rand.New(rand.NewPCG(3, 3))
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
	sound, err := os.ReadFile(w.c.Path())
	require.NoError(t, err)
	records := recordsIn(t, w.c.Path())
	path := filepath.Join(t.TempDir(), "cache.db")
	disbelieved := 0
	for _, name := range []string{
		bucketState, bucketDirs, bucketWriters, bucketKept, "", // "" is anywhere
	} {
		require.True(t, name == "" || len(records[name]) > 0, name)
		for range 40 {
			bad := append([]byte(nil), sound...)
			at := r.IntN(len(bad))
			if name != "" {
				part := records[name][r.IntN(len(records[name]))]
				at = part[0] + r.IntN(part[1])
			}
			bad[at] ^= 1 << r.IntN(8)
			require.NoError(t, os.WriteFile(path, bad, 0o600))
			if !w.believesNothingWrong(path) {
				disbelieved++
			}
		}
	}
	require.Greater(t, disbelieved, 40) // of 200: where bbolt puts its pages is chance
}

// believesNothingWrong opens a damaged cache, queries every entry, and requires that no answer is wrong. It reports
// whether the damage remained unnoticed.
func (w *world) believesNothingWrong(path string) (unnoticed bool) {
	w.t.Helper()
	c := openAt(w.t, path)
	defer func() { require.NoError(w.t, c.Close()) }()
	unnoticed = c.File.Note() == ""
	check := func(err error) bool {
		if err != nil {
			require.ErrorIs(w.t, err, cachefile.ErrDamaged)
			unnoticed = false
		}
		return err == nil
	}
	if check(c.SetLiveSnapshots(w.live)) {
		for i := range 140 {
			hit, ok, err := c.Lookup(key(i), nil)
			if check(err) && ok {
				w.requireContained(i, hit)
			}
		}
	}
	// A run that goes on upon it must not call alive what is dead either.
	batch := c.NewBatch()
	require.NoError(w.t, batch.Put(key(999), []byte("new")))
	if check(batch.Commit(id(777_777))) && check(c.SetLiveSnapshots(append([]format.ID{id(777_777)}, w.live...))) {
		for i := range 140 {
			hit, ok, err := c.Lookup(key(i), nil)
			if check(err) && ok {
				w.requireContained(i, hit)
			}
		}
	}
	return unnoticed
}

// The file is truncated or overwritten during lookups and changes. Each of them ends with ErrDamaged.
func TestDamageDuringLookups(t *testing.T) {
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
			for range 4 {
				c := openAt(t, filepath.Join(t.TempDir(), "cache.db"))
				require.NoError(t, c.SetLiveSnapshots([]format.ID{id(1)}))
				remember(t, c, 1, 0, 500)
				var lookups, left atomic.Int64
				var all sync.WaitGroup
				spoiled := make(chan struct{})
				for g := range 6 {
					all.Go(func() {
						for i := 0; ; i++ {
							_, _, err := c.Lookup(key((g*80+i)%500), nil)
							if err == nil && g%3 == 1 { // begins a transaction each time
								err = c.SetLiveSnapshots([]format.ID{id(1)})
							}
							if err == nil && g == 0 {
								err = c.SetValue("test", []byte{byte(i)})
							}
							if lookups.Add(1) == 200 {
								close(spoiled)
							}
							if err != nil || i > 100_000 {
								if err == nil {
									left.Add(1)
								} else if !errors.Is(err, cachefile.ErrDamaged) {
									t.Error(err)
								}
								return
							}
						}
					})
				}
				<-spoiled
				require.NoError(t, spoil(c.Path()))
				all.Wait()
				require.Zero(t, left.Load(), "a lookup did not fail")
				require.NoError(t, c.Close())
				require.NoFileExists(t, c.Path())
			}
		})
	}
}
