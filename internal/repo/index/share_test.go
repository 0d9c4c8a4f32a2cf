package index

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	writerSegments = 60
	writerSpan     = 3000
)

// blobsOfWriter returns the blobs of a segment of the writer in a child process.
func blobsOfWriter(n int) []int {
	r := rand.New(rand.NewPCG(uint64(n), 77))
	return r.Perm(writerSpan)[:20+r.IntN(200)]
}

// expected is what a cache must answer that holds exactly these segments.
func expected(segments map[format.ID]int64) *model {
	m := newModel()
	for n := range writerSegments {
		if _, has := segments[segmentID(n)]; has {
			_, where := segment(n, blobsOfWriter(n))
			for b, place := range where {
				m.where[b] = place
			}
			m.segments = append(m.segments, segmentID(n))
		}
	}
	return m
}

// mend merges the segments that a cache lacks, and requires that then every answer is right.
func mend(t testing.TB, c *Cache) {
	t.Helper()
	for tries := 0; ; tries++ {
		require.Less(t, tries, 50)
		losses := c.Losses()
		has, err := c.Segments()
		if err != nil {
			require.ErrorIs(t, err, ErrLost)
			continue
		}
		lost := false
		for n := range writerSegments {
			if _, had := has[segmentID(n)]; had || lost {
				continue
			}
			seg, _ := segment(n, blobsOfWriter(n))
			if err := c.Merge(segmentID(n), seg); err != nil {
				require.ErrorIs(t, err, ErrLost)
				lost = true
			}
		}
		if lost {
			continue
		}
		c.Restored(losses)
		if c.Lost() {
			continue
		}
		if err := c.Publish(); err != nil {
			require.ErrorIs(t, err, ErrLost)
			continue
		}
		wrong, missing := expected(allOf()).compare(t, c, writerSpan)
		require.Zero(t, wrong)
		if missing == 0 {
			return
		}
		require.True(t, c.Lost(), "blobs are missing, and no damage is noticed")
	}
}

func allOf() map[format.ID]int64 {
	all := make(map[format.ID]int64)
	for n := range writerSegments {
		all[segmentID(n)] = 0
	}
	return all
}

// deadly kills this process at the n-th operation on the cache.
type deadly struct {
	context.Context
	left *atomic.Int64
}

func (d deadly) Err() error {
	if d.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return nil
}

// TestHelperWriter is a writer in a process of its own: "folder operations".
func TestHelperWriter(t *testing.T) {
	args := strings.Fields(os.Getenv("TIDEMARK_TEST_WRITER"))
	if len(args) == 0 {
		return
	}
	kill, err := strconv.Atoi(args[1])
	require.NoError(t, err)
	left := new(atomic.Int64)
	left.Store(int64(kill))
	c := NewCache(Options{Dir: args[0], Repo: repo, Batch: 300, IO: func(string) localfs.IOContext {
		return localfs.IOContext{Ctx: deadly{context.Background(), left}}
	}})
	has, err := c.Segments()
	require.NoError(t, err)
	for n := range writerSegments {
		if _, had := has[segmentID(n)]; !had {
			seg, _ := segment(n, blobsOfWriter(n))
			require.NoError(t, c.Merge(segmentID(n), seg))
		}
	}
	c.Close()
}

// writer starts a writer that is killed at an operation; 0: never.
func writer(t *testing.T, dir string, kill int) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHelperWriter$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("TIDEMARK_TEST_WRITER=%s %d", dir, kill))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	return cmd
}

// A writer is killed at each of its steps. What it has published is right, a reader without the lock loses nothing, and
// the next writer finishes the work and leaves no remains.
func TestKilledAtEachStep(t *testing.T) {
	testkit.Slow(t)
	dir := t.TempDir()
	killed, step := 0, testkit.Rounds(40, 20, 2)
	for kill := 1; ; kill += step {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, runsFolder)))
		err := writer(t, dir, kill).Wait()
		reader := newCache(t, dir, 0)
		has, listErr := reader.Segments()
		require.NoError(t, listErr)
		wrong, missing := expected(has).compare(t, reader, writerSpan)
		require.Zero(t, wrong+missing, "killed at %d", kill)
		if err == nil {
			require.Len(t, has, writerSegments)
			break
		}
		killed++
		next := newCache(t, dir, 0)
		mend(t, next)
		next.Close()
		runNames(t, dir) // and nothing else
	}
	require.Greater(t, killed, 4)
}

// A reader in another process sees the runs of a writer as they come, waits for nothing, and never loses what it has.
func TestReaderBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, dir, 0)
	w := writer(t, dir, 0)
	done := make(chan error, 1)
	go func() { done <- w.Wait() }()
	known, longest, rounds := 0, time.Duration(0), 0
	for running := true; running; rounds++ {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		default:
		}
		start := time.Now()
		require.NoError(t, c.Refresh())
		longest = max(longest, time.Since(start))
		has, err := c.Segments()
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(has), known)
		known = len(has)
		wrong, missing := expected(has).compare(t, c, writerSpan)
		require.Zero(t, wrong+missing)
		require.False(t, c.Lost())
	}
	require.Equal(t, writerSegments, known)
	require.Greater(t, rounds, 3)
	t.Logf("%d looks, the longest took %v", rounds, longest)
	require.Less(t, longest, time.Second, "a look never waits for the writer")
}

// A reader that keeps its runs open while another process merges and removes them reads on.
func TestMergeBesideAReader(t *testing.T) {
	dir, m := t.TempDir(), newModel()
	c := newCache(t, dir, 0)
	for i := range runsPerClass - 1 {
		m.merge(t, c, []int{i, i + 100})
		require.NoError(t, c.Publish())
	}
	reader := newCache(t, dir, 0)
	m.check(t, reader, 300)
	before := *m
	m.merge(t, c, []int{200})
	require.NoError(t, c.Publish())
	require.Len(t, runNames(t, dir), 1)
	wrong, missing := before.compare(t, reader, 190)
	require.Zero(t, wrong+missing-1, "of the new blob nothing is known yet")
	require.NoError(t, reader.Refresh())
	m.check(t, reader, 300)
	require.Len(t, reader.runs, 1)
}

// lockOf takes the lock of a folder; nil: another has it.
func lockOf(dir string) (*os.File, error) {
	return cachefile.Lock(filepath.Join(dir, lockName), lockWait, localfs.IOContext{})
}

// Two writers in one folder: the one without the lock keeps its blobs to itself, and a segment is published once.
func TestTwoWriters(t *testing.T) {
	dir := t.TempDir()
	one, two := newCache(t, dir, 50), newCache(t, dir, 50)
	require.NoError(t, one.Refresh())
	require.NoError(t, two.Refresh())
	lock, err := lockOf(dir)
	require.NoError(t, err)
	require.NotNil(t, lock)
	a, b := newModel(), newModel()
	for n := range 6 {
		a.merge(t, two, blobsOfWriter(n))
	}
	require.NoError(t, two.Publish())
	a.check(t, two, writerSpan)
	require.Empty(t, runNames(t, dir), "the other one has the lock")
	require.NoError(t, lock.Close())
	for n := range 6 {
		b.merge(t, one, blobsOfWriter(n))
	}
	require.NoError(t, one.Publish())
	b.check(t, one, writerSpan)
	published := runNames(t, dir)
	require.NotEmpty(t, published)
	require.NoError(t, two.Publish())
	require.Equal(t, published, runNames(t, dir), "its segments are there already")
	a.check(t, two, writerSpan)
	two.Close()
	one.Close()
	b.check(t, newCache(t, dir, 0), writerSpan)

	// Both at once, in processes of their own.
	dir = t.TempDir()
	first, second := writer(t, dir, 0), writer(t, dir, 0)
	require.NoError(t, first.Wait())
	require.NoError(t, second.Wait())
	c := newCache(t, dir, 0)
	mend(t, c)
	c.Close()
	c = newCache(t, dir, 0)
	has, err := c.Segments()
	require.NoError(t, err)
	require.Len(t, has, writerSegments)
}

// Whatever range of bytes of a run is overwritten: no wrong answer is given, no known blob counts as a new one, and
// the cache is whole again afterwards, for this process and the next.
func TestDamageOfEachRange(t *testing.T) {
	testkit.Slow(t)
	dir := t.TempDir()
	c := newCache(t, dir, 1500)
	mend(t, c)
	c.Close()
	names := runNames(t, dir)
	require.Greater(t, len(names), 2)
	sound := make(map[string][]byte)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, runsFolder, name))
		require.NoError(t, err)
		sound[name] = data
	}
	r := rand.New(rand.NewPCG(4, 4))
	mended := 0
	step := testkit.Rounds(8192, 4096, 256)
	for which, name := range []string{names[0], names[len(names)-1]} {
		for at := 0; at < len(sound[name]); at += step {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, runsFolder)))
			require.NoError(t, os.Mkdir(filepath.Join(dir, runsFolder), 0o700))
			for other, data := range sound {
				if other == name {
					data = bytes.Clone(data)
					part := data[at:min(at+step, len(data))]
					switch r.IntN(3) {
					case 0:
						part[r.IntN(len(part))] ^= 1 << r.IntN(8)
					case 1:
						clear(part)
					default:
						copy(part, testkit.Noise(r.Uint64(), len(part)))
					}
				}
				require.NoError(t, os.WriteFile(filepath.Join(dir, runsFolder, other), data, 0o600))
			}
			what := fmt.Sprintf("run %d, byte %d", which, at)
			c := NewCache(Options{Dir: dir, Repo: repo, Batch: 1500})
			has, err := c.Segments()
			if err != nil {
				require.ErrorIs(t, err, ErrLost, what)
			}
			wrong, missing := expected(has).compare(t, c, writerSpan)
			require.Zero(t, wrong, what)
			require.True(t, missing == 0 || c.Lost(), what)
			if c.Lost() || len(has) < writerSegments {
				mended++
			}
			mend(t, c)
			c.Close()
			c = NewCache(Options{Dir: dir, Repo: repo})
			has, err = c.Segments()
			require.NoError(t, err, what)
			require.Len(t, has, writerSegments, what)
			wrong, missing = expected(has).compare(t, c, writerSpan)
			require.Zero(t, wrong+missing, what)
			c.Close()
		}
	}
	require.NotZero(t, mended)
}

// A damaged run that this process may not remove is not used again, and a reader without the lock reads its segments
// into files of its own.
func TestDamageWithoutTheLock(t *testing.T) {
	testkit.Slow(t)
	dir := t.TempDir()
	c := newCache(t, dir, 1500)
	mend(t, c)
	c.Close()
	names := runNames(t, dir)
	path := filepath.Join(dir, runsFolder, names[0])
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := 3 * 4096; at < len(data); at += 200 {
		data[at] ^= 255
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	lock, err := lockOf(dir)
	require.NoError(t, err)
	reader := newCache(t, dir, 300)
	mend(t, reader)
	require.NoError(t, reader.Refresh())
	mend(t, reader)
	require.Equal(t, names, runNames(t, dir), "nothing is removed")
	require.NoError(t, lock.Close())
	require.NoError(t, reader.Refresh())
	mend(t, reader)
	reader.Close()
	mend(t, newCache(t, dir, 0))
}

// The cache of an earlier version is removed, and that is reported.
func TestOldCacheIsRemoved(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, oldCache)
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))
	var noted []string
	open := func() {
		c := NewCache(Options{Dir: dir, Repo: repo, Notify: func(text string) { noted = append(noted, text) }})
		require.NoError(t, c.Refresh())
		c.Close()
	}
	lock, err := lockOf(dir)
	require.NoError(t, err)
	open()
	require.FileExists(t, old)
	require.NoError(t, lock.Close())
	open()
	open()
	require.NoFileExists(t, old)
	require.Len(t, noted, 1)
	require.Contains(t, noted[0], "earlier version")
}

// The lock of a removed folder is not taken for that of a new one, and what is open stays readable.
func TestFolderIsRemovedMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	c := newCache(t, dir, 0)
	m := newModel()
	m.merge(t, c, upTo(50))
	require.NoError(t, c.Publish())
	require.NoError(t, os.RemoveAll(dir))
	m.check(t, c, 100)
	m.merge(t, c, []int{60})
	require.NoError(t, c.Publish())
	m.check(t, c, 100)
	c.Close()
	require.Empty(t, runNames(t, dir), "the older runs are lost, so what is newer is not published")
	next := newCache(t, dir, 0)
	require.NoError(t, next.Refresh())
	m = newModel()
	m.merge(t, next, upTo(50))
	require.NoError(t, next.Publish())
	require.Len(t, runNames(t, dir), 1)
}

// What is said of a file that cannot be used as a run: it is of another version or repository, or it is damaged.
func TestHeadsThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, dir, 1500)
	mend(t, c)
	runs, err := filepath.Glob(filepath.Join(dir, runsFolder, "*.run"))
	require.NoError(t, err)
	require.NotEmpty(t, runs)
	whole, err := os.ReadFile(runs[0])
	require.NoError(t, err)
	const damaged = "the local cache is damaged"
	const foreign = "it belongs to another repository or another version of tidemark"
	older := bytes.Clone(whole)
	copy(older[cachefile.PageHead:], "\x00\x00\x00\x00\x04\x00\x00\x00\xed\xda\x0c\xed") // as of bbolt
	flipped := bytes.Clone(whole)
	flipped[cachefile.PageHead+len(magic)+20] ^= 4
	for text, content := range map[string][]byte{
		damaged + ": " + foreign:                      older,
		"head of a run: page 0: " + damaged:           flipped,
		damaged + ": head of a run: read page 0: EOF": whole[:cachefile.PageSize/2],
	} {
		path := filepath.Join(t.TempDir(), "1-1.run")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, err := c.openRun(path)
		require.EqualError(t, err, text)
		require.ErrorIs(t, err, cachefile.ErrDamaged)
	}
}
