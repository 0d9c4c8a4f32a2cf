package index

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

func newCache(t testing.TB, dir string, batch int) *Cache {
	t.Helper()
	c := NewCache(Options{Dir: dir, Repo: repo, Batch: batch, Notify: func(text string) { t.Log(text) }})
	t.Cleanup(c.Close)
	return c
}

// Whatever is merged in whatever pieces: the newest place of a blob counts, in this process and in the next.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(testkit.Rounds(1, 2, 6)) {
		const span = 20_000
		r := rand.New(rand.NewPCG(seed, 1))
		dir, m := t.TempDir(), newModel()
		for range 4 {
			c := newCache(t, dir, 1+r.IntN(5000))
			m.check(t, c, span)
			for range 40 {
				size := r.IntN(60)
				if r.IntN(9) == 0 {
					size = r.IntN(9000)
				}
				m.merge(t, c, r.Perm(span)[:size])
			}
			m.check(t, c, span)
			c.Close()
			require.Less(t, len(runNames(t, dir)), 3*runsPerClass)
		}
		m.check(t, newCache(t, dir, 0), span)
	}
}

// A run without a name is as good: nothing of it is left.
func TestPrivateCacheLeavesNothing(t *testing.T) {
	dir, m := t.TempDir(), newModel()
	c := NewCache(Options{Dir: dir, Private: true, Repo: repo, Batch: 500})
	r := rand.New(rand.NewPCG(3, 1))
	for range 60 {
		m.merge(t, c, r.Perm(5000)[:r.IntN(400)])
	}
	m.check(t, c, 5000)
	require.NotEmpty(t, c.runs)
	require.Less(t, len(c.runs), 3*runsPerClass)
	c.Close()
	require.Empty(t, runNames(t, dir))
}

// What several segments say is kept in order: of one pack that two name, and of one blob in two packs of a segment.
func TestLastOfEqualsCounts(t *testing.T) {
	dir, m := t.TempDir(), newModel()
	c := newCache(t, dir, 0)
	m.merge(t, c, []int{1, 2, 3})
	require.NoError(t, c.Publish())
	m.merge(t, c, []int{3, 4})
	m.check(t, c, 10)
	require.NoError(t, c.Publish())
	m.check(t, c, 10)
	seg, _ := segment(0, []int{5})
	require.NoError(t, c.Merge(segmentID(0), seg), "merged before: nothing changes")
	m.check(t, c, 10)
}

// A segment that is forgotten takes with it what was merged since, and nothing older.
func TestForget(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, dir, 0)
	m := newModel()
	for i := range 5 {
		m.merge(t, c, []int{i, i + 10, 100})
		require.NoError(t, c.Publish())
	}
	m.merge(t, c, []int{99})
	require.NoError(t, c.Forget(segmentID(3), segmentID(4)))
	older := newModel()
	other := newCache(t, t.TempDir(), 0)
	for i := range 3 {
		older.merge(t, other, []int{i, i + 10, 100})
	}
	older.check(t, c, 200)
	c.Close()
	older.check(t, newCache(t, dir, 0), 200)
}

// A segment that another one replaces counts as merged as long as that one does.
func TestSupersededAreForgottenTogether(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, dir, 0)
	seg, _ := segment(0, []int{1})
	require.NoError(t, c.Merge(id(7), seg))
	require.NoError(t, c.Publish())
	seg, _ = segment(1, []int{2})
	require.NoError(t, c.Merge(id(8), seg, id(9)))
	require.NoError(t, c.Publish())
	all, err := c.Segments()
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.NoError(t, c.Forget(id(9)))
	all, err = c.Segments()
	require.NoError(t, err)
	require.Equal(t, map[format.ID]int64{id(7): 0}, all)
}

// TestLookupsBesideMerges: a blob that was there is there at every moment, whatever is written meanwhile.
func TestLookupsBesideMerges(t *testing.T) {
	dir, m := t.TempDir(), newModel()
	c := newCache(t, dir, 300)
	m.merge(t, c, upTo(1000))
	known := make([]format.ID, 1000)
	for i := range known {
		known[i] = id(i)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	errs := make(chan error, 3)
	for range 3 {
		wg.Go(func() {
			out := make([]Found, len(known))
			for {
				err := c.Lookup(known, out)
				for i := range out {
					if err == nil && out[i].Pack == nil {
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
	for range 20 {
		m.merge(t, c, r.Perm(2000)[:r.IntN(400)])
	}
	close(stop)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	m.check(t, c, 2000)
}

// Where no disk takes a run, memory holds a bounded number of blobs, and all packs.
func TestMemoryIsBounded(t *testing.T) {
	t.Setenv("TMPDIR", "/proc/none")
	var noted []string
	c := NewCache(Options{Dir: "/proc/nothing", Repo: repo, MemoryBlobs: 100, Batch: 10,
		Notify: func(text string) { noted = append(noted, text) }})
	defer c.Close()
	for i := range 30 {
		seg, _ := segment(i, []int{10 * i, 10*i + 1, 10*i + 2, 10*i + 3, 10*i + 4})
		require.NoError(t, c.Merge(segmentID(i), seg))
	}
	require.True(t, c.Full())
	n := 0
	require.NoError(t, c.Packs(func(PackInfo) error { n++; return nil }))
	require.Equal(t, 30, n)
	ids, out := make([]format.ID, 300), make([]Found, 300)
	for i := range ids {
		ids[i] = id(i)
	}
	require.NoError(t, c.Lookup(ids, out))
	n = 0
	for i := range out {
		if out[i].Pack != nil {
			n++
		}
	}
	require.Equal(t, 100, n)
	require.Len(t, noted, 2, "the cache, and the folder for files without names: %q", noted)
}

func TestLookupNeedsSpace(t *testing.T) {
	c := newCache(t, t.TempDir(), 0)
	require.ErrorContains(t, c.Lookup(make([]format.ID, 2), make([]Found, 1)), "space")
	require.NoError(t, c.Lookup(nil, nil))
}

// The filters reject nearly all new blobs, and none that is known.
func TestFilterSaysNoToNearlyAllNewBlobs(t *testing.T) {
	c := newCache(t, t.TempDir(), 0)
	m := newModel()
	m.merge(t, c, upTo(30_000)) // a filter of several pages
	require.NoError(t, c.Publish())
	require.Len(t, c.runs, 1)
	require.Greater(t, c.runs[0].Filter*filterBlock, uint32(2*cachefile.PageSize))
	f, err := c.runs[0].filterOf()
	require.NoError(t, err)
	alarms := 0
	for i := range 40_000 {
		id := id(i)
		if !f.mayContain(&id) {
			require.GreaterOrEqual(t, i, 30_000, "a false negative")
		} else if i >= 30_000 {
			alarms++
		}
	}
	require.Less(t, alarms, 300, "the rate is about 1 %%")
	c.runs[0].keepFilter(false) // as of a run that exceeds the bound
	m.check(t, c, 30_000)
}

func TestMergeable(t *testing.T) {
	of := func(classes ...int) (runs []*run) {
		for i, class := range classes {
			blobs := uint64(1)
			if class > 0 {
				blobs = smallRun
				for range class - 1 {
					blobs *= runsPerClass
				}
			}
			runs = append(runs, &run{head: head{Blobs: blobs}})
			require.Equal(t, class, runs[i].class())
		}
		return runs
	}
	for _, c := range []struct {
		runs []*run
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
		require.Equal(t, c.want, mergeable(c.runs))
	}
}
