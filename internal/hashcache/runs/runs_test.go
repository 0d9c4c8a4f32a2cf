package runs

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"
	bolt "go.etcd.io/bbolt"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// plain is a file without any guard.
type plain struct{ *bolt.DB }

func (p plain) View(_ string, read func(*bolt.Tx) error) error { return p.DB.View(read) }

func (p plain) Looked(*bolt.Tx) {}

func (p plain) Update(_ string, change func(*bolt.Tx) error) error { return p.DB.Update(change) }

// tester is an index and what it must say.
type tester struct {
	*Index
	t     testing.TB
	db    plain
	where map[int]Loc
	packs uint32
}

func newTester(t testing.TB, step int) *tester {
	t.Helper()
	// Nothing crashes here, so nothing needs flushing.
	db, err := bolt.Open(filepath.Join(t.TempDir(), "runs.db"), 0o600, &bolt.Options{NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	require.NoError(t, db.Update(Create))
	x := New(plain{db})
	x.step = step
	return &tester{Index: x, t: t, db: plain{db}, where: make(map[int]Loc)}
}

func id(i int) format.ID { return blake3.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(i))) }

// write adds the blobs as one run, each at a place of its own.
func (x *tester) write(blobs ...int) {
	x.t.Helper()
	x.packs++
	records := make([]Record, 0, len(blobs))
	for i, b := range blobs {
		loc := Loc{x.packs, uint32(i), uint32(b), 1<<32 - 1, uint32(i * b)}
		records = append(records, Record{id(b), loc})
		x.where[b] = loc
	}
	require.NoError(x.t, x.db.DB.Update(func(tx *bolt.Tx) error { return Write(tx, records) }))
	require.NoError(x.t, x.Settle())
}

func (x *tester) check(span int) {
	x.t.Helper()
	ids := make([]format.ID, span)
	for i := range ids {
		ids[i] = id(i)
	}
	out := make([]Found, span)
	require.NoError(x.t, x.Lookup(ids, out))
	for i := range ids {
		loc, ok := x.where[i]
		require.Equal(x.t, Found{loc, ok}, out[i], "blob %d", i)
		if ok {
			require.True(x.t, x.MayContain(ids[i]), "false negative of blob %d", i)
		}
	}
}

func (x *tester) runs() []run {
	x.t.Helper()
	var runs []run
	require.NoError(x.t, x.db.DB.View(func(tx *bolt.Tx) (err error) {
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
		fresh := New(x.db) // as after opening the file again: filters are read from it
		x.Index = fresh
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
	require.NoError(t, x.db.DB.Update(Clear))
	require.NoError(t, x.Settle())
	x.where = map[int]Loc{}
	x.check(3000)
	require.False(t, x.MayContain(id(1)))
	x.write(1)
	x.check(10)
	require.Greater(t, x.runs()[0].number, before, "a number never means two runs")
}

func TestLookupNeedsRoom(t *testing.T) {
	x := newTester(t, 100)
	require.ErrorContains(t, x.Lookup(make([]format.ID, 2), make([]Found, 1)), "room")
	require.NoError(t, x.Lookup(nil, nil))
}

func TestFilterSaysNoToNearlyAllNewBlobs(t *testing.T) {
	x := newTester(t, 100)
	x.write(upTo(20_000)...) // a filter of several chunks
	require.Greater(t, x.runs()[0].blocks*filterBlock, uint32(filterChunk/4))
	alarms := 0
	for i := range 10_000 {
		if x.MayContain(id(20_000 + i)) {
			alarms++
		}
	}
	require.Less(t, alarms, 300, "the rate is about 1 %%")
	x.check(20_000)
}

func TestFilterOfSeveralChunks(t *testing.T) {
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
	x.Index = New(x.db)
	x.check(runsPerClass * 15_000)
}

func TestFiltersThatDoNotFitAreUnknown(t *testing.T) {
	x := newTester(t, 100)
	x.write(upTo(2000)...)
	x.write(2000, 2001)
	require.NoError(t, x.db.DB.Update(func(tx *bolt.Tx) error { // a head that speaks of a filter beyond the bound
		runs, err := listRuns(tx, nil)
		if err != nil {
			return err
		}
		runs[0].blocks = maxFilters/filterBlock + 1
		return tx.Bucket([]byte(bucketRuns)).Put(number(runs[0].number), runs[0].append(nil))
	}))
	require.True(t, x.MayContain(id(-77)))
	x.check(3000)
}

// TestInterruptedMerge leaves a run that is not listed, as a crash between two transactions does.
func TestInterruptedMerge(t *testing.T) {
	x := newTester(t, 100)
	for i := range 5 {
		x.write(upTo(20 + i)...)
	}
	runs := x.runs()
	require.NoError(t, x.db.DB.Update(func(tx *bolt.Tx) error {
		w, err := newRunWriter(tx, 1000)
		if err != nil {
			return err
		}
		_, err = copyRuns(tx, runs, nil, 10, w)
		return err
	}))
	x.Index = New(x.db)
	x.check(30)
	for i := range runsPerClass {
		x.write(i, 100+i)
	}
	x.check(200)
	require.NoError(t, x.db.DB.View(func(tx *bolt.Tx) error {
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
				err := x.Lookup(known, out)
				for i := range out {
					if err == nil && (!out[i].OK || !x.MayContain(known[i])) {
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

func TestCrowded(t *testing.T) {
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
		require.Len(t, crowded(c.runs), c.want, "%v", c.runs)
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
		require.ErrorIs(t, err, ErrDamaged, "a block of another run")
		found, err := find(value, 7, &id)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			require.False(t, found.OK)
		}
		b, err := parseBlock(value, 7)
		if err != nil {
			return
		}
		rest := b.locs
		for range b.len() {
			if _, rest, err = takeLoc(rest); err != nil {
				require.ErrorIs(t, err, ErrDamaged)
				return
			}
		}
		require.LessOrEqual(t, len(rest), len(value))
	})
}

// TestOrder: records that agree in their first bytes are told apart by the others, and equals keep their order.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	records := make([]Record, 3000)
	for i := range records {
		records[i].Loc.Pack = uint32(i)
		for _, at := range []int{0, 3, 7, 8, 20, 31} {
			records[i].ID[at] = byte(random.IntN(3))
		}
	}
	want := slices.Clone(records)
	slices.SortStableFunc(want, func(a, b Record) int { return a.ID.Compare(b.ID) })
	before := slices.Clone(records)
	got := make([]Record, 0, len(records))
	for _, o := range sorted(records) {
		got = append(got, records[o.at])
	}
	require.Equal(t, want, got)
	require.Equal(t, before, records, "they stay where they are")
}

func BenchmarkWrite(b *testing.B) {
	x := newTester(b, perCommit)
	records := make([]Record, 64<<10)
	for i := range records {
		records[i].ID = id(i)
	}
	for b.Loop() {
		tx, err := x.db.Begin(true)
		require.NoError(b, err)
		require.NoError(b, Write(tx, records))
		require.NoError(b, tx.Rollback())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(records)), "ns/blob")
}

// noted is a file that notes what the changes are called, and of how many runs each has removed the blocks.
type noted struct {
	plain
	names   []string
	removed []int
}

func (n *noted) Update(what string, change func(*bolt.Tx) error) error {
	before, after := 0, 0
	err := n.DB.Update(func(tx *bolt.Tx) error {
		before = blocksOf(tx)
		err := change(tx)
		after = blocksOf(tx)
		return err
	})
	n.names, n.removed = append(n.names, what), append(n.removed, before-after)
	return err
}

func blocksOf(tx *bolt.Tx) (runs int) {
	_ = tx.Bucket([]byte(bucketBlobs)).ForEach(func(_, _ []byte) error { runs++; return nil })
	return runs
}

// TestAMergedRunGoesByItself: no transaction removes more than one run, for each looks at all pages of what it removes.
func TestAMergedRunGoesByItself(t *testing.T) {
	x := newTester(t, 1000)
	n := &noted{plain: x.db}
	x.Index.db = n
	for i := range runsPerClass {
		x.write(3*i, 3*i+1, 3*i+2)
	}
	x.check(3 * runsPerClass)
	gone := 0
	for i, removed := range n.removed {
		require.LessOrEqual(t, removed, 1, n.names[i])
		gone += max(removed, 0)
	}
	require.Equal(t, runsPerClass, gone)
	require.NoError(t, x.db.DB.View(func(tx *bolt.Tx) error {
		require.Equal(t, 1, blocksOf(tx), "the merged run is all that is left")
		return nil
	}))
}
