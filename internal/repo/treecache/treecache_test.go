package treecache

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// notes gathers the notes of a cache.
type notes struct {
	mu   sync.Mutex
	text []string
}

func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = append(n.text, text)
}

// roomy is a disk that is never full.
func roomy(string) (space, error) { return space{free: 1 << 50}, nil }

// scanned opens a cache that has scanned its folder.
func scanned(dir string, opt Options, disk func(string) (space, error)) *Cache {
	c := open(dir, opt, disk)
	c.ready()
	return c
}

// opened opens a cache of limit blocks that must not switch itself off.
func opened(t *testing.T, dir string, limit int64) *Cache {
	t.Helper()
	n := &notes{}
	c := scanned(dir, Options{Limit: limit * blockSize, Notify: n.add}, roomy)
	t.Cleanup(func() {
		c.Close()
		require.Empty(t, n.text)
	})
	return c
}

func key(i int) Key {
	return Key{Pack: format.ID{byte(i >> 8), byte(i), 0xab}, Offset: uint32(i) * 48}
}

// frame is the content of frame i: a little less than a block, another one for each i.
func frame(i int) []byte {
	p := make([]byte, 4000+i%90)
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	for j := range p {
		p[j] = byte(rng.Uint32())
	}
	return p
}

func has(t *testing.T, c *Cache, i int) bool {
	t.Helper()
	want := frame(i)
	got := make([]byte, len(want))
	if !c.Get(key(i), got) {
		return false
	}
	require.True(t, bytes.Equal(want, got), "frame %d has other bytes", i)
	return true
}

// kept returns which of the first n frames have files.
func kept(dir string, n int) (list []int) {
	for i := range n {
		if _, err := os.Lstat(filepath.Join(dir, fileName(key(i)))); err == nil {
			list = append(list, i)
		}
	}
	return list
}

// age makes frame i look as if it had last been used that long ago.
func age(t *testing.T, dir string, i int, d time.Duration) {
	t.Helper()
	at := time.Now().Add(-d)
	require.NoError(t, os.Chtimes(filepath.Join(dir, fileName(key(i))), at, at))
}

// usage returns the blocks that the files in dir take.
func usage(t *testing.T, dir string) (n int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		n += blocks(info.Size()) / blockSize
	}
	return n
}

func TestKeepsFramesAcrossRuns(t *testing.T) {
	testkit.NoLeaks(t)
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	c := opened(t, dir, 100)
	require.False(t, has(t, c, 1))
	require.NoDirExists(t, dir)
	c.Put(key(1), frame(1), Fetched)
	c.Put(key(2), frame(2), Uploaded)
	require.True(t, has(t, c, 1))
	require.True(t, has(t, c, 2))
	require.False(t, c.Get(Key{Pack: key(1).Pack, Offset: 7}, make([]byte, 10)), "another place in the pack")
	c.Close()
	require.False(t, has(t, c, 1), "found after Close")
	c.Put(key(3), frame(3), Uploaded)

	again := opened(t, dir, 100)
	require.True(t, has(t, again, 1))
	require.True(t, has(t, again, 2))
	require.False(t, has(t, again, 3), "kept after Close")

	info, err := os.Stat(filepath.Join(dir, fileName(key(1))))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestDropAndWrongLength(t *testing.T) {
	dir := t.TempDir()
	c := opened(t, dir, 100)
	c.Put(key(1), frame(1), Fetched)
	c.Drop(key(1))
	require.False(t, has(t, c, 1))
	require.Empty(t, kept(dir, 2))
	c.Put(key(1), frame(1), Fetched)
	require.True(t, has(t, c, 1), "not kept again after it was dropped")

	for _, size := range []int64{0, 1, int64(len(frame(1))) - 1, int64(len(frame(1))) + 1} {
		require.NoError(t, os.Truncate(filepath.Join(dir, fileName(key(1))), size))
		require.False(t, has(t, c, 1), "%d bytes", size)
		require.Empty(t, kept(dir, 2), "%d bytes", size)
		c.Put(key(1), frame(1), Fetched)
		require.True(t, has(t, c, 1), "%d bytes", size)
	}
}

func TestEvictsTheLeastRecentlyUsedFirst(t *testing.T) {
	dir := t.TempDir()
	c := opened(t, dir, 5)
	for i := range 5 {
		c.Put(key(i), frame(i), Uploaded)
	}
	c.Close()
	for i, hours := range []time.Duration{3, 5, 1, 4, 2} {
		age(t, dir, i, hours*24*time.Hour)
	}
	c = opened(t, dir, 5) // oldest first: 1 3 0 4 2
	require.True(t, has(t, c, 1))
	c.Put(key(5), frame(5), Fetched)
	require.Equal(t, []int{0, 1, 2, 4, 5}, kept(dir, 9))
	c.Put(key(6), frame(6), Fetched)
	require.Equal(t, []int{1, 2, 4, 5, 6}, kept(dir, 9))
	c.Close()

	// What was used stays young for the runs to come.
	opened(t, dir, 3)
	require.Equal(t, []int{1, 5, 6}, kept(dir, 9))
}

func TestUseRenewsTheTimeOncePerHour(t *testing.T) {
	dir := t.TempDir()
	c := opened(t, dir, 5)
	c.Put(key(1), frame(1), Fetched)
	modified := func() time.Time {
		info, err := os.Stat(filepath.Join(dir, fileName(key(1))))
		require.NoError(t, err)
		return info.ModTime()
	}
	for _, tc := range []struct {
		ago   time.Duration
		renew bool
	}{{50 * time.Minute, false}, {70 * time.Minute, true}, {-50 * time.Minute, false}, {-24 * time.Hour, true}} {
		age(t, dir, 1, tc.ago)
		before := modified()
		require.True(t, has(t, c, 1))
		require.Equal(t, tc.renew, !modified().Equal(before), "%s ago", tc.ago)
		if tc.renew {
			require.WithinDuration(t, time.Now(), modified(), time.Minute)
		}
	}
}

// TestWalkThroughMoreThanFits: the plain rule would evict each frame just before it is needed again.
func TestWalkThroughMoreThanFits(t *testing.T) {
	dir := t.TempDir()
	const fit, all = 10, 25
	for run := range 3 {
		c := opened(t, dir, fit)
		hits := 0
		for i := range all {
			if has(t, c, i) {
				hits++
			} else {
				c.Put(key(i), frame(i), Fetched)
			}
		}
		c.Close()
		if run > 0 {
			require.Equal(t, fit, hits, "run %d", run)
		}
		require.LessOrEqual(t, usage(t, dir), int64(fit))
	}
}

func TestUploadsDisplaceWhatWasFetched(t *testing.T) {
	dir := t.TempDir()
	c := opened(t, dir, 4)
	for i := range 3 {
		c.Put(key(i), frame(i), Fetched)
	}
	for i := 3; i < 10; i++ {
		c.Put(key(i), frame(i), Uploaded)
	}
	require.Equal(t, []int{3, 4, 5, 6}, kept(dir, 10), "uploads do not displace uploads of the same run")
	c.Put(key(0), frame(0), Fetched)
	require.Equal(t, []int{3, 4, 5, 6}, kept(dir, 10), "what is fetched does not displace what was uploaded")
	c.Close()

	c = opened(t, dir, 4)
	c.Put(key(0), frame(0), Fetched)
	require.Equal(t, []int{0, 4, 5, 6}, kept(dir, 10), "what earlier runs uploaded makes way")
}

func TestUploadOfAFrameThatIsKept(t *testing.T) {
	dir := t.TempDir()
	c := opened(t, dir, 2)
	c.Put(key(0), frame(0), Fetched)
	c.Put(key(1), frame(1), Fetched)
	c.Put(key(0), frame(0), Uploaded)
	c.Put(key(2), frame(2), Uploaded)
	require.Equal(t, []int{0, 2}, kept(dir, 3))
}

func TestBoundIsHeld(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 1))
	for run := range 6 {
		limit := int64(5 + rng.IntN(60))
		c := opened(t, dir, limit)
		if run > 0 {
			require.LessOrEqual(t, usage(t, dir), limit, "right after Open")
		}
		for range 150 {
			i := rng.IntN(500)
			switch rng.IntN(6) {
			case 0:
				c.Drop(key(i))
			case 1, 2:
				has(t, c, i)
			default:
				c.Put(key(i), frame(i), Origin(1+rng.IntN(2)))
			}
			require.LessOrEqual(t, c.shelf.size, limit*blockSize)
		}
		require.LessOrEqual(t, usage(t, dir), limit)
		c.Close()
	}
	c := opened(t, dir, 3)
	big := make([]byte, 3*blockSize+1)
	before := kept(dir, 500)
	c.Put(key(501), big, Uploaded)
	require.Equal(t, before, kept(dir, 600), "nothing makes way for what can never fit")
	c.Put(key(501), big[1:], Uploaded)
	require.Equal(t, []int{501}, kept(dir, 600))
}

// TestManyAtOnce: several handles, as of several processes, with many goroutines each.
func TestManyAtOnce(t *testing.T) {
	testkit.NoLeaks(t)
	dir := filepath.Join(t.TempDir(), "trees")
	const limit, handles, workers = 24, 3, 3
	var open []*Cache
	var wg sync.WaitGroup
	var hits [handles]int
	for h := range handles {
		c := opened(t, dir, limit)
		open = append(open, c)
		var mu sync.Mutex
		for w := range workers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(h), uint64(w)))
				p := make([]byte, 5000)
				for range 150 {
					i := rng.IntN(40)
					want := frame(i)
					if c.Get(key(i), p[:len(want)]) {
						mu.Lock()
						hits[h]++
						mu.Unlock()
						if !bytes.Equal(want, p[:len(want)]) {
							t.Errorf("frame %d has other bytes", i)
						}
						continue
					}
					c.Put(key(i), want, Origin(1+rng.IntN(2)))
				}
			})
		}
	}
	wg.Wait()
	for h, c := range open {
		require.NotZero(t, hits[h])
		c.Close()
	}
	require.LessOrEqual(t, usage(t, dir), int64(limit), "after the last one has closed")
	last := opened(t, dir, limit)
	found := 0
	for i := range 40 {
		if has(t, last, i) {
			found++
		}
	}
	require.NotZero(t, found)
}

func TestFolderRemovedUnderfoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trees")
	c := opened(t, dir, 10)
	c.Put(key(1), frame(1), Fetched)
	require.NoError(t, os.RemoveAll(dir))
	require.False(t, has(t, c, 1))
	c.Put(key(1), frame(1), Fetched)
	require.True(t, has(t, c, 1))
}

func TestForeignFilesAndLeftovers(t *testing.T) {
	dir := t.TempDir()
	name := fileName(key(1))
	long := make([]byte, 50*blockSize)
	foreign := []string{"README", strings.ToUpper(name), name + "0", name[:len(name)-1] + "x", tempPrefix + "young"}
	for _, f := range foreign {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), long, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, fileName(key(2))), 0o700))
	stale := filepath.Join(dir, tempPrefix+"old")
	require.NoError(t, os.WriteFile(stale, long, 0o600))
	old := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(stale, old, old))

	c := opened(t, dir, 1)
	require.NoFileExists(t, stale)
	c.Put(key(1), frame(1), Fetched)
	require.True(t, has(t, c, 1), "foreign files were counted")
	c.Close()
	for _, f := range foreign {
		require.FileExists(t, filepath.Join(dir, f))
	}
	require.DirExists(t, filepath.Join(dir, fileName(key(2))))
}

func TestDiskFillsUp(t *testing.T) {
	dir := t.TempDir()
	n := &notes{}
	disk := space{free: 100 * blockSize, reserve: 90 * blockSize}
	var failure error
	// A simulated disk: every file takes from what is free.
	stat := func(string) (space, error) {
		s := disk
		s.free -= usage(t, dir) * blockSize
		return s, failure
	}
	opt := Options{Limit: 1000 * blockSize, Notify: n.add}
	c := scanned(dir, opt, stat)
	for i := range 15 {
		c.Put(key(i), frame(i), Fetched)
	}
	require.EqualValues(t, 10, usage(t, dir), "the reserve was touched")
	require.Len(t, n.text, 1)
	require.Contains(t, n.text[0], "free")
	require.True(t, has(t, c, 0), "what is there still serves")
	c.Close()

	// Fuller than that when it is opened: frames are given back, oldest first.
	for i := range 10 {
		age(t, dir, i, time.Duration(30-i)*time.Hour)
	}
	disk.free -= 4 * blockSize
	c = scanned(dir, opt, stat)
	require.Equal(t, []int{4, 5, 6, 7, 8, 9}, kept(dir, 20))
	require.Len(t, n.text, 1)

	// Within a run unused frames are evicted.
	require.True(t, has(t, c, 4))
	c.Put(key(11), frame(11), Uploaded)
	require.Equal(t, []int{4, 6, 7, 8, 9, 11}, kept(dir, 20))
	c.Close()

	// A disk of unknown free space does no harm.
	failure = errors.New("no such call")
	c = scanned(dir, opt, stat)
	c.Put(key(12), frame(12), Uploaded)
	require.True(t, has(t, c, 12))
	c.Close()
	require.Len(t, n.text, 1)
}

func TestReserve(t *testing.T) {
	s, err := statDisk(filepath.Join(t.TempDir(), "not", "there", "yet"))
	require.NoError(t, err)
	require.Positive(t, s.free)
	require.Positive(t, s.reserve)
	require.LessOrEqual(t, s.reserve, int64(maxReserve))
	require.EqualValues(t, 0, space{free: 10, reserve: 4}.missing(6))
	require.EqualValues(t, 1, space{free: 10, reserve: 4}.missing(7))
}

// TestFullDisk fills a real, small file system to the last block.
func TestFullDisk(t *testing.T) {
	testkit.NoLeaks(t)
	mount := t.TempDir()
	testkit.MountMemory(t, mount, "256k")
	for _, tc := range []struct {
		name string
		disk func(string) (space, error)
	}{{"asked before", statDisk}, {"refuses", roomy}} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(mount, strings.ReplaceAll(tc.name, " ", "-"))
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			n := &notes{}
			c := scanned(dir, Options{Limit: 1 << 30, Notify: n.add}, tc.disk)
			for i := range 100 {
				c.Put(key(i), frame(i), Fetched)
			}
			require.Len(t, n.text, 1)
			require.Contains(t, n.text[0], "no more tree data is kept")
			require.True(t, has(t, c, 0))
			require.NotEmpty(t, kept(dir, 100))
			for _, i := range kept(dir, 100) {
				require.True(t, has(t, c, i))
			}
			require.EqualValues(t, len(kept(dir, 100)), usage(t, dir), "a temporary file was left")
			c.Close()
		})
	}
}

func TestFolderThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	n := &notes{}
	c := scanned(filepath.Join(file, "trees"), Options{Limit: 1 << 20, Notify: n.add}, statDisk)
	defer c.Close()
	c.Put(key(1), frame(1), Fetched)
	c.Put(key(2), frame(2), Fetched)
	require.False(t, has(t, c, 1))
	require.Len(t, n.text, 1)
}

func TestFramesOfOthersCountInTime(t *testing.T) {
	dir := t.TempDir()
	mine, theirs := opened(t, dir, 80), opened(t, dir, 80)
	for i := range 60 {
		theirs.Put(key(i), frame(i), Fetched)
	}
	for i := 100; i < 160; i++ {
		mine.Put(key(i), frame(i), Fetched)
	}
	// An eighth of the limit is written between two scans of the folder.
	require.LessOrEqual(t, usage(t, dir), int64(80+80/rescans+1))
	mine.Close()
	require.LessOrEqual(t, usage(t, dir), int64(80))
	require.Len(t, kept(dir, 200)[kept60(dir):], 60, "what this run used itself was displaced by what others put there")
}

// kept60 returns how many of the first 60 frames have files.
func kept60(dir string) int { return len(kept(dir, 60)) }

func TestNames(t *testing.T) {
	for _, k := range []Key{{}, key(7), {Pack: format.ID{1}, Offset: 1<<32 - 1}, {Offset: 0xabcdef01}} {
		got, ok := parseName(fileName(k))
		require.True(t, ok)
		require.Equal(t, k, got)
	}
}
