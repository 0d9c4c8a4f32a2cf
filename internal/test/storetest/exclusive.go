package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
)

func testPutNew(t *testing.T, st store.Store) {
	for _, name := range Names() {
		info, err := st.PutNew(t.Context(), name, Pattern(321, 1))
		require.NoError(t, err, name)
		require.Equal(t, name, info.Name)
		require.Equal(t, int64(321), info.Size)
		there, err := st.Stat(t.Context(), name)
		require.NoError(t, err)
		require.False(t, there.Fence)
		if !info.Modified.IsZero() {
			require.WithinDuration(t, there.Modified, info.Modified, 5*time.Second)
		}
		_, err = st.PutNew(t.Context(), name, Pattern(100, 2))
		require.ErrorIs(t, err, store.ErrExists, name)
		require.NotErrorIs(t, err, store.ErrFenced, name)
		require.Equal(t, Pattern(321, 1), read(t, st, name), "it was changed")
		require.NoError(t, st.Delete(t.Context(), name))
		_, err = st.PutNew(t.Context(), name, nil)
		require.NoError(t, err, "a name can be used again")
	}
	_, err := st.PutNew(t.Context(), store.Name{Kind: store.Lease, ID: "A"}, nil)
	require.ErrorIs(t, err, store.ErrName)
}

func leaseName(i int) store.Name { return store.Name{Kind: store.Lease, ID: fmt.Sprintf("%040x", i)} }

func testFence(t *testing.T, st store.Store) {
	fenced, stored := leaseName(1), leaseName(2)
	require.NoError(t, st.Put(t.Context(), stored, []byte("x")))
	require.ErrorIs(t, st.Fence(t.Context(), stored), store.ErrExists)
	require.Equal(t, "x", string(read(t, st, stored)))
	for range 2 { // which a repetition after a lost answer does
		require.NoError(t, st.Fence(t.Context(), fenced))
	}
	_, err := st.PutNew(t.Context(), fenced, []byte("y"))
	require.ErrorIs(t, err, store.ErrFenced)
	_, err = st.PutNew(store.Passing(t.Context()), fenced, []byte("y"))
	require.ErrorIs(t, err, store.ErrFenced)
	require.ErrorIs(t, st.Put(t.Context(), fenced, []byte("y")), store.ErrFenced)
	info, err := st.Stat(t.Context(), fenced)
	require.NoError(t, err)
	require.True(t, info.Fence)
	require.False(t, info.Modified.IsZero())
	for listed, err := range st.List(t.Context(), store.Lease) {
		require.NoError(t, err)
		require.Equal(t, listed.Name == fenced, listed.Fence)
	}
	require.Equal(t, map[store.Name]int64{fenced: 0, stored: 1}, list(t, st, store.Lease), "no temporary file is left")
	if _, err := store.Unfenced(t.Context(), st, fenced); !errors.Is(err, errors.ErrUnsupported) {
		require.ErrorIs(t, err, store.ErrFenced)
		_, err = store.Unfenced(t.Context(), st, stored)
		require.ErrorIs(t, err, store.ErrExists)
		at, err := store.Unfenced(t.Context(), st, leaseName(3))
		require.NoError(t, err)
		require.WithinDuration(t, info.Modified, at, time.Minute)
	}
	require.NoError(t, st.Delete(t.Context(), fenced))
	require.ErrorIs(t, st.Delete(t.Context(), fenced), store.ErrNotExist)
	_, err = st.PutNew(t.Context(), fenced, []byte("y"))
	require.NoError(t, err, "its fence was removed")
	for _, name := range Names() {
		if name.Kind != store.Lease {
			require.ErrorIs(t, st.Fence(t.Context(), name), store.ErrName, name)
		}
	}
}

// racers is how many callers want the same name.
const racers = 32

func testOneOfManyPutsNew(t *testing.T, st store.Store) {
	for round := range 10 {
		name, won := leaseName(round), make(chan int, racers)
		passing := store.Passing(t.Context())
		var all sync.WaitGroup
		errs := make(chan error, racers)
		for i := range racers {
			all.Go(func() {
				ctx := t.Context()
				if i%2 == 1 {
					ctx = passing
				}
				_, err := st.PutNew(ctx, name, Pattern(500, uint64(i)))
				if err == nil {
					won <- i
				} else if !errors.Is(err, store.ErrExists) {
					errs <- err
				}
			})
		}
		all.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		require.Len(t, won, 1, "winners of round %d", round)
		require.Equal(t, Pattern(500, uint64(<-won)), read(t, st, name))
	}
	require.Len(t, list(t, st, store.Lease), 10, "something was left behind")
}

// raceVariable makes the test that calls Race the other process.
const raceVariable = "TIDEMARK_TEST_RACE"

// Race has two processes take the same names by PutNew with 16 goroutines each: exactly one of the 32 gets each.
// prepare returns a place for a store. open opens it, in the process of the test and in one that runs the same test
// again.
func Race(t *testing.T, prepare func() (place string), open func(t *testing.T, place string) store.Store) {
	const names = 30
	won := func(who byte, st store.Store) (all []int) {
		for i := range names {
			var mine atomic.Int32
			var group sync.WaitGroup
			for range racers / 2 {
				group.Go(func() {
					switch _, err := st.PutNew(t.Context(), leaseName(i), bytes.Repeat([]byte{who}, 300)); {
					case err == nil:
						mine.Add(1)
					case !errors.Is(err, store.ErrExists):
						t.Errorf("process %d, name %d: %v", who, i, err)
					}
				})
			}
			group.Wait()
			for range mine.Load() {
				all = append(all, i)
			}
		}
		return all
	}
	if at := os.Getenv(raceVariable); at != "" {
		st := open(t, at)
		fmt.Println(`"ready"`)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other process begins
		fmt.Printf("%s\n", mustJSON(t, won(2, st)))
		return
	}
	place := prepare()
	st := open(t, place)
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	other.Env = append(os.Environ(), raceVariable+"="+place)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	begin, err := other.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	answers := json.NewDecoder(out)
	var ready string
	require.NoError(t, answers.Decode(&ready))
	require.NoError(t, begin.Close())
	mine := won(1, st)
	var theirs []int
	require.NoError(t, answers.Decode(&theirs))
	_, _ = io.Copy(io.Discard, out)
	require.NoError(t, other.Wait())
	all := slices.Concat(mine, theirs)
	slices.Sort(all)
	require.Len(t, all, names, "each name once: %v here, %v there", mine, theirs)
	require.Len(t, slices.Compact(all), names)
	for i := range names {
		who := byte(2)
		if slices.Contains(mine, i) {
			who = 1
		}
		require.Equal(t, bytes.Repeat([]byte{who}, 300), read(t, st, leaseName(i)))
	}
	t.Logf("%d names here, %d there", len(mine), len(theirs))
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

func testFenceOrPutNew(t *testing.T, st store.Store) {
	for round := range 40 {
		name := leaseName(round)
		var put, fenced error
		var both sync.WaitGroup
		both.Go(func() { _, put = st.PutNew(t.Context(), name, []byte("x")) })
		both.Go(func() { fenced = st.Fence(t.Context(), name) })
		both.Wait()
		info, err := st.Stat(t.Context(), name)
		require.NoError(t, err)
		if info.Fence {
			require.NoError(t, fenced)
			require.ErrorIs(t, put, store.ErrFenced)
		} else {
			require.NoError(t, put)
			require.ErrorIs(t, fenced, store.ErrExists)
		}
	}
}
