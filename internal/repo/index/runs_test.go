package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// tester is an index and its expected answers.
type tester struct {
	*sortedRuns
	t     testing.TB
	where map[int]Loc
	packs uint32
}

func newTester(t testing.TB, step int) *tester {
	t.Helper()
	f, err := cachefile.OpenTemp(t.TempDir(), repo, cachefile.IOContext{}, Table())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	x := newSortedRuns(f)
	x.step = step
	return &tester{sortedRuns: x, t: t, where: make(map[int]Loc)}
}

// write adds the blobs as one run, each at a place of its own.
func (x *tester) write(blobs ...int) {
	x.t.Helper()
	x.packs++
	records := make([]record, 0, len(blobs))
	for i, b := range blobs {
		loc := Loc{x.packs, uint32(i), uint32(b), 1<<32 - 1, uint32(i * b)}
		records = append(records, record{id(b), loc})
		x.where[b] = loc
	}
	require.NoError(x.t, x.file.Update("test", func(tx *bolt.Tx) error { return writeRun(tx, records) }))
	require.NoError(x.t, x.settle())
}

func (x *tester) check(span int) {
	x.t.Helper()
	ids := make([]format.ID, span)
	for i := range ids {
		ids[i] = id(i)
	}
	out := make([]Found, span)
	require.NoError(x.t, x.lookup(ids, out))
	for i := range ids {
		loc, ok := x.where[i]
		require.Equal(x.t, Found{loc, ok}, out[i], "blob %d", i)
		if ok {
			require.True(x.t, x.mayContain(ids[i]), "false negative of blob %d", i)
		}
	}
}

func (x *tester) runs() []run {
	x.t.Helper()
	var runs []run
	require.NoError(x.t, x.file.View("test", func(tx *bolt.Tx) (err error) {
		runs, err = listRuns(tx, nil)
		return err
	}))
	return runs
}

func upTo(n int) []int {
	blobs := make([]int, n)
	for i := range blobs {
		blobs[i] = i
	}
	return blobs
}

func TestAgainstModel(t *testing.T) {
	testkit.Slow(t)
	for seed := range uint64(2) {
		const span = 20_000
		r := rand.New(rand.NewPCG(seed, 1))
		x := newTester(t, 500+int(seed)*3000) // merges of runs take several transactions
		x.check(100)
		for round := range 120 {
			size := r.IntN(60)
			if r.IntN(9) == 0 {
				size = r.IntN(9000)
			}
			x.write(r.Perm(span)[:size]...)
			if round%20 == 0 {
				x.check(span + 100)
			}
		}
		x.check(span + 100)
		runs := x.runs()
		require.Less(t, len(runs), 3*runsPerClass)
		for i := 1; i < len(runs); i++ {
			require.LessOrEqual(t, runs[i].class(), runs[i-1].class(), "long runs are the oldest")
		}
		fresh := newSortedRuns(x.file) // as after opening the file again: filters are read from it
		x.sortedRuns = fresh
		x.check(span + 100)
	}
}

func TestLastOfEqualsCounts(t *testing.T) {
	x := newTester(t, 10)
	x.write(1, 2, 1, 3, 1)
	x.check(5)
	require.Equal(t, uint64(3), x.runs()[0].blobs)
	x.write(3)
	x.check(5)
}

func TestClear(t *testing.T) {
	x := newTester(t, 100)
	x.write(upTo(3000)...)
	x.check(3000)
	before := x.runs()[0].number
	require.NoError(t, x.file.Update("test", clearRuns))
	require.NoError(t, x.settle())
	x.where = map[int]Loc{}
	x.check(3000)
	require.False(t, x.mayContain(id(1)))
	x.write(1)
	x.check(10)
	require.Greater(t, x.runs()[0].number, before, "a number never means two runs")
}

func TestLookupNeedsSpace(t *testing.T) {
	x := newTester(t, 100)
	require.ErrorContains(t, x.lookup(make([]format.ID, 2), make([]Found, 1)), "space")
	require.NoError(t, x.lookup(nil, nil))
}

func TestFilterSaysNoToNearlyAllNewBlobs(t *testing.T) {
	x := newTester(t, 100)
	x.write(upTo(20_000)...) // a filter of several chunks
	require.Greater(t, x.runs()[0].blocks*filterBlock, uint32(filterChunk/4))
	alarms := 0
	for i := range 10_000 {
		if x.mayContain(id(20_000 + i)) {
			alarms++
		}
	}
	require.Less(t, alarms, 300, "the rate is about 1 %%")
	x.check(20_000)
}

func TestFilterOfSeveralChunks(t *testing.T) {
	testkit.Slow(t)
	x := newTester(t, 7000)
	for i := range runsPerClass { // written in one piece, and merged in several transactions
		blobs := upTo(15_000)
		for j := range blobs {
			blobs[j] += i * 15_000
		}
		x.write(blobs...)
	}
	require.Len(t, x.runs(), 1)
	require.Greater(t, x.runs()[0].blocks, uint32(2*filterChunk/filterBlock))
	x.check(runsPerClass * 15_000)
	x.sortedRuns = newSortedRuns(x.file)
	x.check(runsPerClass * 15_000)
}

func TestFiltersThatDoNotFitAreUnknown(t *testing.T) {
	x := newTester(t, 100)
	x.write(upTo(2000)...)
	x.write(2000, 2001)
	require.NoError(t, x.file.Update("test", func(tx *bolt.Tx) error { // a head that speaks of a filter beyond the bound
		runs, err := listRuns(tx, nil)
		if err != nil {
			return err
		}
		runs[0].blocks = maxFilters/filterBlock + 1
		return cachefile.Bucket(tx, bucketRuns).Put(cachefile.Number(runs[0].number), runs[0].append(nil))
	}))
	require.True(t, x.mayContain(id(-77)))
	x.check(3000)
}

// TestInterruptedMerge leaves a run that is not listed, as a crash between two transactions does.
func TestInterruptedMerge(t *testing.T) {
	x := newTester(t, 100)
	for i := range 5 {
		x.write(upTo(20 + i)...)
	}
	runs := x.runs()
	require.NoError(t, x.file.Update("test", func(tx *bolt.Tx) error {
		w, err := newRunWriter(tx, 1000)
		if err != nil {
			return err
		}
		_, err = copyRuns(tx, runs, nil, 10, w)
		return err
	}))
	x.sortedRuns = newSortedRuns(x.file)
	x.check(30)
	for i := range runsPerClass {
		x.write(i, 100+i)
	}
	x.check(200)
	require.NoError(t, x.file.View("test", func(tx *bolt.Tx) error {
		for _, name := range []string{bucketBlobs, bucketFilters} {
			n := 0
			err := tx.Bucket([]byte(name)).ForEach(func(_, _ []byte) error { n++; return nil })
			require.NoError(t, err)
			require.Len(t, x.runs(), n, "the leftover is gone")
		}
		return nil
	}))
}

// TestLookupsBesideMerges: a blob that was there is there at every moment, whatever is written meanwhile.
func TestLookupsBesideMerges(t *testing.T) {
	x := newTester(t, 300)
	x.write(upTo(1000)...)
	var known []format.ID
	for b := range maps.Keys(x.where) {
		known = append(known, id(b))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for range 3 {
		wg.Go(func() {
			out := make([]Found, len(known))
			for {
				err := x.lookup(known, out)
				for i := range out {
					if err == nil && (!out[i].OK || !x.mayContain(known[i])) {
						err = fmt.Errorf("blob %s was lost", known[i])
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
	r := rand.New(rand.NewPCG(2, 9))
	for range 60 {
		x.write(r.Perm(2000)[:r.IntN(400)]...)
	}
	close(stop)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func TestMergeable(t *testing.T) {
	of := func(classes ...int) (runs []run) {
		for i, class := range classes {
			blobs := uint64(1)
			if class > 0 {
				blobs = smallRun
				for range class - 1 {
					blobs *= runsPerClass
				}
			}
			runs = append(runs, run{number: uint32(i), blobs: blobs})
			require.Equal(t, class, runs[i].class())
		}
		return runs
	}
	for _, c := range []struct {
		runs []run
		want int // how many of the newest
	}{
		{nil, 0},
		{of(0), 0},
		{of(0, 0, 0, 0, 0, 0, 0), 0},
		{of(0, 0, 0, 0, 0, 0, 0, 0), 8},
		{of(1, 0, 0, 0, 0, 0, 0, 0, 0), 8},
		{of(1, 1, 1, 1, 1, 1, 1, 0, 0, 0), 0},
		{of(2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0), 10},
		{of(3, 2, 1, 0, 0, 2), 4},
		{of(0, 1), 2},
		{of(1, 1), 0},
	} {
		require.Len(t, mergeable(c.runs), c.want, "%v", c.runs)
	}
}

func FuzzBlock(f *testing.F) {
	var locs []byte
	ids := id(1)
	locs = appendLoc(locs, &Loc{1, 2, 3, 4, 1<<32 - 1})
	f.Add(append(append([]byte{1, 0}, ids[:]...), locs...), ids[:])
	f.Add([]byte{}, []byte{})
	f.Add([]byte{255, 255, 0}, []byte{1})
	f.Fuzz(func(t *testing.T, value, want []byte) {
		var id format.ID
		copy(id[:], want)
		value = append(binary.LittleEndian.AppendUint32(nil, blockSum(7, value)), value...)
		_, err := find(value, 8, &id)
		require.ErrorIs(t, err, cachefile.ErrDamaged, "a block of another run")
		found, err := find(value, 7, &id)
		if err != nil {
			require.ErrorIs(t, err, cachefile.ErrDamaged)
			require.False(t, found.OK)
		}
		b, err := parseBlock(value, 7)
		if err != nil {
			return
		}
		rest := b.locs
		for range b.len() {
			if _, rest, err = takeLoc(rest); err != nil {
				require.ErrorIs(t, err, cachefile.ErrDamaged)
				return
			}
		}
		require.LessOrEqual(t, len(rest), len(value))
	})
}

// TestSorted: IDs with equal first bytes are compared as a whole, and of equal IDs the last record remains.
func TestSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	records := make([]record, 3000)
	for i := range records {
		records[i].loc.Pack = uint32(i)
		for _, at := range []int{0, 3, 7, 8, 20, 31} {
			records[i].id[at] = byte(random.IntN(3))
		}
	}
	last := make(map[format.ID]record)
	for _, r := range records {
		last[r.id] = r
	}
	want := slices.SortedFunc(maps.Values(last), func(a, b record) int { return a.id.Compare(b.id) })
	before := slices.Clone(records)
	got := make([]record, 0, len(records))
	for i := range sorted(records, nil) {
		got = append(got, records[i])
	}
	require.Equal(t, want, got)
	require.Equal(t, before, records, "sorting does not move records")
}

func BenchmarkWrite(b *testing.B) {
	x := newTester(b, blobsPerCommit)
	records := make([]record, 64<<10)
	for i := range records {
		records[i].id = id(i)
	}
	for b.Loop() {
		undone := errors.New("rolled back")
		require.ErrorIs(b, x.file.Update("test", func(tx *bolt.Tx) error {
			require.NoError(b, writeRun(tx, records))
			return undone
		}), undone)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(records)), "ns/blob")
}

// TestEachTransactionRemovesOneRun: a transaction reads all pages of what it removes, so each removes one run at most.
func TestEachTransactionRemovesOneRun(t *testing.T) {
	x := newTester(t, 1000)
	for i := range runsPerClass - 1 {
		x.write(3*i, 3*i+1, 3*i+2)
	}
	runs := x.runs()
	require.NoError(t, x.file.Update("test", func(tx *bolt.Tx) error { return unlist(tx, runs) }))
	transactions := func() (n int) {
		require.NoError(t, x.file.View("test", func(tx *bolt.Tx) error { n = tx.ID(); return nil }))
		return n
	}
	before := transactions()
	require.NoError(t, x.removeUnlisted())
	require.Equal(t, len(runs), transactions()-before)
	require.NoError(t, x.file.View("test", func(tx *bolt.Tx) error {
		n := 0
		require.NoError(t, cachefile.Bucket(tx, bucketBlobs).ForEach(func(_, _ []byte) error { n++; return nil }))
		require.Zero(t, n)
		return nil
	}))
}

// mayContain returns false only if the index does not contain the blob. It reads only filters in memory, and returns
// true if it cannot decide: after an error, or because the filters of the longest runs exceed maxFilters.
func (x *sortedRuns) mayContain(id format.ID) bool {
	filters, err := x.loadedFilters()
	if err != nil {
		return true
	}
	for i := range filters.runs {
		if filters.runs[i].filter.mayContain(&id) {
			return true
		}
	}
	return false
}
