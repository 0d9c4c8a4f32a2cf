// Package storetest is the contract of a store as a test suite. Every store and every decorator passes it. A rule that
// is not tested here is not part of the contract. It also has a decorator that counts operations.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Run tests the stores that open returns: an empty one for each sub-test.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, st store.Store)
	}{
		{"Empty", testEmpty},
		{"RoundTrip", testRoundTrip},
		{"DataIsCopied", testDataIsCopied},
		{"Replace", testReplace},
		{"Ranges", testRanges},
		{"Short", testShort},
		{"Stat", testStat},
		{"List", testList},
		{"ListStops", testListStops},
		{"Delete", testDelete},
		{"Names", testNames},
		{"Cancelled", testCancelled},
		{"CancelledList", testCancelledList},
		{"AtomicReplace", testAtomicReplace},
		{"ParallelPut", testParallelPut},
		{"PutNew", testPutNew},
		{"Fence", testFence},
		{"OneOfManyPutsNew", testOneOfManyPutsNew},
		{"FenceOrPutNew", testFenceOrPutNew},
		{"Location", testLocation},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Pattern returns n bytes that differ from place to place and from seed to seed.
func Pattern(n int, seed uint64) []byte {
	p := make([]byte, n)
	x := seed*2654435761 + 1
	for i := range p {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		p[i] = byte(x)
	}
	return p
}

// Names returns one valid name of every kind.
func Names() []store.Name {
	id := strings.Repeat("0f1e2d3c4b5a6978", 4)
	var names []store.Name
	for kind := range store.Kinds() {
		n := store.Name{Kind: kind, ID: id}
		if kind == store.Config {
			n.ID = ""
		}
		names = append(names, n)
	}
	return names
}

func packName(i int) store.Name {
	return store.Name{Kind: store.Pack, ID: fmt.Sprintf("%02x%062x", i%7, i)}
}

func read(t *testing.T, st store.Store, name store.Name) []byte {
	t.Helper()
	info, err := st.Stat(t.Context(), name)
	require.NoError(t, err)
	p := make([]byte, info.Size)
	require.NoError(t, st.Get(t.Context(), name, 0, p))
	return p
}

func list(t *testing.T, st store.Store, kind store.Kind) map[store.Name]int64 {
	t.Helper()
	found := make(map[store.Name]int64)
	for info, err := range st.List(t.Context(), kind) {
		require.NoError(t, err)
		require.NotContains(t, found, info.Name, "listed twice")
		found[info.Name] = info.Size
	}
	return found
}

func testEmpty(t *testing.T, st store.Store) {
	for _, name := range Names() {
		require.Empty(t, list(t, st, name.Kind), name)
		_, err := st.Stat(t.Context(), name)
		require.ErrorIs(t, err, store.ErrNotExist, name)
		require.ErrorIs(t, st.Get(t.Context(), name, 0, make([]byte, 1)), store.ErrNotExist, name)
		require.ErrorIs(t, st.Get(t.Context(), name, 0, nil), store.ErrNotExist, "an empty range asks whether it is there")
		require.ErrorIs(t, st.Delete(t.Context(), name), store.ErrNotExist, name)
	}
}

func testRoundTrip(t *testing.T, st store.Store) {
	for i, name := range Names() {
		for _, size := range []int{0, 1, 4095, 1 << 20, 5<<20 + 3} {
			data := Pattern(size, uint64(i))
			require.NoError(t, st.Put(t.Context(), name, data), "%s of %d bytes", name, size)
			require.True(t, bytes.Equal(data, read(t, st, name)), "%s of %d bytes", name, size)
		}
	}
	for _, id := range []string{"0", "ab", "abc", strings.Repeat("f", store.MaxIDLen)} {
		name := store.Name{Kind: store.Pack, ID: id}
		require.NoError(t, st.Put(t.Context(), name, []byte(id)))
		require.Equal(t, id, string(read(t, st, name)))
	}
}

func testDataIsCopied(t *testing.T, st store.Store) {
	data := Pattern(1000, 1)
	want := bytes.Clone(data)
	require.NoError(t, st.Put(t.Context(), packName(1), data))
	require.Equal(t, want, data, "Put changed the caller's bytes")
	clear(data)
	got := read(t, st, packName(1))
	require.Equal(t, want, got, "Put kept the caller's bytes")
	clear(got)
	require.Equal(t, want, read(t, st, packName(1)), "Get gave away the store's bytes")
}

func testReplace(t *testing.T, st store.Store) {
	name := store.Name{Kind: store.Lease, ID: "1"}
	for _, size := range []int{100, 10, 1000, 0} {
		data := Pattern(size, uint64(size))
		require.NoError(t, st.Put(t.Context(), name, data))
		require.Equal(t, data, read(t, st, name))
		require.Equal(t, map[store.Name]int64{name: int64(size)}, list(t, st, store.Lease))
	}
}

func testRanges(t *testing.T, st store.Store) {
	data := Pattern(10_000, 3)
	require.NoError(t, st.Put(t.Context(), packName(1), data))
	for _, r := range [][2]int{{0, 0}, {0, 1}, {0, 10_000}, {1, 9_999}, {9_999, 1}, {4_000, 500}, {10_000, 0}} {
		p := make([]byte, r[1])
		require.NoError(t, st.Get(t.Context(), packName(1), int64(r[0]), p), "range %v", r)
		require.Equal(t, data[r[0]:r[0]+r[1]], p, "range %v", r)
	}
	require.Error(t, st.Get(t.Context(), packName(1), -1, make([]byte, 1)), "a negative offset")
}

func testShort(t *testing.T, st store.Store) {
	require.NoError(t, st.Put(t.Context(), packName(1), Pattern(100, 1)))
	for _, r := range [][2]int64{{0, 101}, {100, 1}, {99, 2}, {101, 1}, {1 << 40, 1}, {1<<63 - 1, 1}} {
		err := st.Get(t.Context(), packName(1), r[0], make([]byte, r[1]))
		require.ErrorIs(t, err, store.ErrShort, "range %v", r)
		require.NotErrorIs(t, err, store.ErrNotExist, "range %v", r)
	}
}

func testStat(t *testing.T, st store.Store) {
	for _, name := range Names() {
		require.NoError(t, st.Put(t.Context(), name, Pattern(321, 1)))
		info, err := st.Stat(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, name, info.Name)
		require.Equal(t, int64(321), info.Size)
		require.False(t, info.Modified.IsZero())
		for listed, err := range st.List(t.Context(), name.Kind) {
			require.NoError(t, err)
			require.Equal(t, info.Size, listed.Size)
			require.True(t, info.Modified.Equal(listed.Modified), "%s: Stat and List differ in the time", name)
		}
	}
}

func testList(t *testing.T, st store.Store) {
	const packs = 600 // more than one batch of a store
	want := make(map[store.Name]int64)
	for i := range packs {
		require.NoError(t, st.Put(t.Context(), packName(i), Pattern(i%5, 1)))
		want[packName(i)] = int64(i % 5)
	}
	for _, name := range Names() {
		if name.Kind != store.Pack {
			require.NoError(t, st.Put(t.Context(), name, []byte("x")))
			require.Equal(t, map[store.Name]int64{name: 1}, list(t, st, name.Kind), "kinds are kept apart")
		}
	}
	require.Equal(t, want, list(t, st, store.Pack))
}

func testListStops(t *testing.T, st store.Store) {
	for i := range 20 {
		require.NoError(t, st.Put(t.Context(), packName(i), nil))
		require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Lease, ID: packName(i).ID}, nil))
	}
	for _, kind := range []store.Kind{store.Pack, store.Lease} {
		seq := st.List(t.Context(), kind)
		for range 2 { // a sequence can be run again
			n := 0
			for _, err := range seq {
				require.NoError(t, err)
				if n++; n == 3 {
					break
				}
			}
			require.Equal(t, 3, n)
		}
	}
}

func testDelete(t *testing.T, st store.Store) {
	for _, name := range Names() {
		require.NoError(t, st.Put(t.Context(), name, []byte("x")))
		require.NoError(t, st.Delete(t.Context(), name))
		_, err := st.Stat(t.Context(), name)
		require.ErrorIs(t, err, store.ErrNotExist)
		require.ErrorIs(t, st.Get(t.Context(), name, 0, make([]byte, 1)), store.ErrNotExist)
		require.ErrorIs(t, st.Delete(t.Context(), name), store.ErrNotExist)
		require.Empty(t, list(t, st, name.Kind))
		require.NoError(t, st.Put(t.Context(), name, []byte("y")), "a name can be used again")
	}
}

func testNames(t *testing.T, st store.Store) {
	bad := []store.Name{
		{}, {ID: "ab"}, {Kind: 99, ID: "ab"}, {Kind: store.Config, ID: "ab"}, {Kind: store.Pack},
		{Kind: store.Pack, ID: strings.Repeat("a", store.MaxIDLen+1)},
	}
	for _, id := range []string{"AB", "g", "a b", "a/b", "..", ".", "../../etc/passwd", "ab\x00", "ab.tmp", "tmp-1", "é"} {
		bad = append(bad, store.Name{Kind: store.Pack, ID: id}, store.Name{Kind: store.Snapshot, ID: id})
	}
	for _, name := range bad {
		require.ErrorIs(t, st.Put(t.Context(), name, nil), store.ErrName, "%q", name.ID)
		require.ErrorIs(t, st.Get(t.Context(), name, 0, nil), store.ErrName, "%q", name.ID)
		_, err := st.Stat(t.Context(), name)
		require.ErrorIs(t, err, store.ErrName, "%q", name.ID)
		require.ErrorIs(t, st.Delete(t.Context(), name), store.ErrName, "%q", name.ID)
	}
	n := 0
	for _, err := range st.List(t.Context(), 99) {
		require.ErrorIs(t, err, store.ErrName)
		n++
	}
	require.Equal(t, 1, n)
}

func testCancelled(t *testing.T, st store.Store) {
	require.NoError(t, st.Put(t.Context(), packName(1), []byte("x")))
	cause := errors.New("the reason")
	for _, want := range []error{context.Canceled, cause} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(want)
		require.ErrorIs(t, st.Put(ctx, packName(2), []byte("x")), want)
		require.ErrorIs(t, st.Get(ctx, packName(1), 0, make([]byte, 1)), want)
		_, err := st.Stat(ctx, packName(1))
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, st.Delete(ctx, packName(1)), want)
	}
	require.Equal(t, map[store.Name]int64{packName(1): 1}, list(t, st, store.Pack), "a cancelled operation did something")
}

func testCancelledList(t *testing.T, st store.Store) {
	for i := range 50 {
		require.NoError(t, st.Put(t.Context(), packName(i), nil))
		require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Snapshot, ID: packName(i).ID}, nil))
	}
	for _, kind := range []store.Kind{store.Pack, store.Snapshot, store.Lease} {
		ctx, cancel := context.WithCancel(t.Context())
		var last error
		n := 0
		cancelAt := 5
		if kind == store.Lease {
			cancel() // before the list of an empty folder
		}
		for _, err := range st.List(ctx, kind) {
			require.NoError(t, last, "the list went on after an error")
			if last = err; err != nil {
				continue
			}
			if n++; n == cancelAt {
				cancel()
			}
		}
		cancel()
		require.ErrorIs(t, last, context.Canceled, kind)
		require.Less(t, n, 50, kind)
	}
}

// testAtomicReplace: a reader sees one whole version while a file is replaced.
func testAtomicReplace(t *testing.T, st store.Store) {
	const size, rounds, writers, readers = 200_000, 15, 2, 3
	name := packName(1)
	require.NoError(t, st.Put(t.Context(), name, bytes.Repeat([]byte{0}, size)))
	stop := make(chan struct{})
	errs := make(chan error, writers+readers)
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for r := range rounds {
				if err := st.Put(t.Context(), name, bytes.Repeat([]byte{byte(1 + w*rounds + r)}, size)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for range readers {
		reading.Go(func() {
			p := make([]byte, size)
			for {
				if err := readWhole(t.Context(), st, name, p); err != nil {
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
	writing.Wait()
	close(stop)
	reading.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, map[store.Name]int64{name: size}, list(t, st, store.Pack), "something was left behind")
}

func readWhole(ctx context.Context, st store.Store, name store.Name, p []byte) error {
	info, err := st.Stat(ctx, name)
	if err != nil {
		return err
	}
	if info.Size != int64(len(p)) {
		return fmt.Errorf("a part is visible: %d bytes", info.Size)
	}
	if err := st.Get(ctx, name, 0, p); err != nil {
		return err
	}
	if i := slices.IndexFunc(p, func(b byte) bool { return b != p[0] }); i >= 0 {
		return fmt.Errorf("two versions are mixed from byte %d on", i)
	}
	return nil
}

func testParallelPut(t *testing.T, st store.Store) {
	const workers, each = 4, 15
	var wg sync.WaitGroup
	errs := make(chan error, workers*each)
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				errs <- st.Put(t.Context(), packName(w*each+i), Pattern(500+i, uint64(w)))
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Len(t, slices.Collect(maps.Keys(list(t, st, store.Pack))), workers*each)
	for w := range workers {
		for i := range each {
			require.Equal(t, Pattern(500+i, uint64(w)), read(t, st, packName(w*each+i)))
		}
	}
}

func testLocation(t *testing.T, st store.Store) {
	require.NotEmpty(t, st.Location())
}
