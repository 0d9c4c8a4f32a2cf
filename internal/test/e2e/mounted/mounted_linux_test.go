package mounted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestMountShowsTheSource compares a hostile tree with its mount: every byte and every attribute but inode flags, which
// FUSE has no way to show.
func TestMountShowsTheSource(t *testing.T) {
	testkit.Slow(t)
	src := filepath.Join(testkit.TempDir(t), "src")
	testkit.Hostile(t, src, testkit.HostileOptions{Entries: testkit.Rounds(300, 800, 3000), Depth: 60,
		SparseSize: 1 << 30})
	m := mountAll(t, saved(t, src))
	most := testkit.CompareOptions{Ignore: testkit.AspectFlags}
	require.Empty(t, testkit.Compare(t.Context(), src, m.latest(src), most))
	require.Empty(t, testkit.RSyncCompare(t, src+"/", m.latest(src)+"/", "beyond path max"))
	require.Empty(t, m.reported())
}

// TestReadsAtRandomOffsets reads files of several hundred chunks, with holes, at any offset, many at once.
func TestReadsAtRandomOffsets(t *testing.T) {
	testkit.Slow(t)
	src := testkit.TempDir(t)
	want := map[string][]byte{"data": testkit.Noise(1, 70<<20), "holes": make([]byte, 48<<20),
		"small": testkit.Noise(2, 90)}
	for at := 1 << 20; at < len(want["holes"]); at += 5 << 20 {
		copy(want["holes"][at:], testkit.Noise(uint64(at), 1<<20+at%4096))
	}
	for name, content := range want {
		f, err := os.Create(filepath.Join(src, name))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(int64(len(content))))
		for at := 0; at < len(content); at += 4096 {
			if part := content[at:min(at+4096, len(content))]; !bytes.Equal(part, make([]byte, len(part))) {
				_, err = f.WriteAt(part, int64(at))
				require.NoError(t, err)
			}
		}
		require.NoError(t, f.Close())
	}
	m := mountAll(t, saved(t, src))
	for name, content := range want {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(m.latest(src), name))
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			random := rand.New(rand.NewPCG(7, 7))
			for range testkit.Rounds(500, 3400, 5000) { // 10,200 in all
				at, p := random.IntN(len(content)+10), make([]byte, random.IntN(1<<uint(random.IntN(20))+1))
				n, err := f.ReadAt(p, int64(at))
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
				}
				at = min(at, len(content))
				require.Equal(t, min(len(p), len(content)-at), n)
				require.True(t, bytes.Equal(content[at:at+n], p[:n]), "%d bytes at %d", n, at)
			}
			all, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, all))
		})
	}
	require.Equal(t, dataOf(t, filepath.Join(src, "holes")), dataOf(t, filepath.Join(m.latest(src), "holes")))
	require.Empty(t, m.reported())
}

// dataOf returns where a file has data, as begin and end.
func dataOf(t *testing.T, path string) (parts [][2]int64) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for end := int64(0); ; {
		begin, err := f.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return parts
		}
		require.NoError(t, err)
		end, err = f.Seek(begin, unix.SEEK_HOLE)
		require.NoError(t, err)
		parts = append(parts, [2]int64{begin, end})
	}
}

// TestLargeDirectory lists one of several pages: each entry once, with a buffer of any size, and each found by its
// name.
func TestLargeDirectory(t *testing.T) {
	src := testkit.RamDir(t)
	var names []string
	for i := range testkit.Rounds(3000, 12_000, 30_000) {
		name := fmt.Sprintf("%s-%d", strings.Repeat("n", i%200), i)
		require.NoError(t, os.WriteFile(filepath.Join(src, name), []byte(name), 0o600))
		names = append(names, name)
	}
	slices.Sort(names)
	m := mountAll(t, saved(t, src))
	for _, size := range []int{512, 4096, 1 << 16} {
		require.Equal(t, names, listed(t, m.latest(src), size), size)
	}
	for i := 0; i < len(names); i += 97 {
		got, err := os.ReadFile(filepath.Join(m.latest(src), names[i]))
		require.NoError(t, err)
		require.Equal(t, names[i], string(got))
	}
	_, err := os.Lstat(filepath.Join(m.latest(src), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// listed reads a directory with buffers of that size.
func listed(t *testing.T, dir string, size int) (names []string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	for buf := make([]byte, size); ; {
		n, err := unix.ReadDirent(fd, buf)
		require.NoError(t, err)
		if n == 0 {
			slices.Sort(names)
			return names
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// TestInodesOfSnapshots: objects with several names have one inode number in a snapshot, and another in the next one.
func TestInodesOfSnapshots(t *testing.T) {
	src := testkit.TempDir(t)
	kit.Written(t, src, map[string]string{"a": "1", "b": "2"})
	require.NoError(t, os.Link(filepath.Join(src, "a"), filepath.Join(src, "c")))
	e := saved(t, src)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	m := mountAll(t, e)
	snapshots, err := os.ReadDir(filepath.Join(m.dir, "snapshots"))
	require.NoError(t, err)
	require.Len(t, snapshots, 2)
	seen := map[uint64]string{}
	for _, s := range snapshots {
		at := func(name string) uint64 {
			ino := kit.Inode(t, filepath.Join(m.dir, "snapshots", s.Name(), src, name))
			require.Empty(t, seen[ino], name)
			return ino
		}
		a, b, c := at("a"), at("b"), at("c")
		require.Equal(t, a, c)
		require.NotEqual(t, a, b)
		seen[a], seen[b], seen[at("")] = s.Name(), s.Name(), s.Name()
	}
}

// TestLatestMoves: a link that the kernel has cached gets its new target within a second or two of the listing.
func TestLatestMoves(t *testing.T) {
	testkit.Slow(t)
	src := testkit.TempDir(t)
	kit.Written(t, src, map[string]string{"a": "old"})
	e := saved(t, src)
	var hours atomic.Int64
	m := mountRoot(t, e, false, snapshotsAt(func() time.Time { return time.Unix(hours.Load()*3600, 0) }))
	latest := func() string {
		target, err := os.Readlink(filepath.Join(m.dir, "latest"))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(m.latest(src), "a"))
		require.NoError(t, err)
		return filepath.Base(target) + " " + string(got)
	}
	first := latest()
	kit.Written(t, src, map[string]string{"a": "new"})
	kit.Settle()
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Equal(t, first, latest(), "the listing is fresh")
	hours.Add(1)
	require.Eventually(t, func() bool { return strings.HasSuffix(latest(), " new") }, 10*time.Second, 50*time.Millisecond)
	names, err := os.ReadDir(m.dir)
	require.NoError(t, err)
	require.Len(t, names, 4)
}

// TestDamageBeneathAMount: a damaged frame is an error for what lies in it, and for nothing else, with one line that
// names the file and the pack.
func TestDamageBeneathAMount(t *testing.T) {
	testkit.Slow(t)
	src := testkit.TempDir(t)
	content := testkit.Noise(3, 24<<20)
	kit.Written(t, src, map[string]string{"small": strings.Repeat("s", 2000)})
	e := saved(t, src) // before the large file: in one backup, the two may share a frame
	require.NoError(t, os.WriteFile(filepath.Join(src, "large"), content, 0o600))
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	var damaged store.Name
	for info, err := range e.Store.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		if info.Size > 8<<20 {
			damaged = info.Name
		}
	}
	require.NoError(t, e.Store.Put(t.Context(), damaged, faultstore.Flip(kit.Load(t, e.Store, damaged), 4<<20)))
	m := mountAll(t, e)
	f, err := os.Open(filepath.Join(m.latest(src), "large"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	failed := 0
	for at := 0; at < len(content); at += 1 << 16 {
		p := make([]byte, 1<<16)
		if _, err := f.ReadAt(p, int64(at)); err != nil {
			require.ErrorIs(t, err, syscall.EIO)
			failed++
			continue
		}
		require.True(t, bytes.Equal(content[at:at+len(p)], p), at)
	}
	require.NotZero(t, failed)
	require.Less(t, failed<<16, 12<<20, "what is intact is read")
	require.Contains(t, m.reported(), "large")
	require.Contains(t, m.reported(), damaged.ID)
	got, err := os.ReadFile(filepath.Join(m.latest(src), "small"))
	require.NoError(t, err)
	require.Len(t, got, 2000)
}

// TestTargetGoesAwayBeneathAMount: reads fail while it is away, and go on when it is back.
func TestTargetGoesAwayBeneathAMount(t *testing.T) {
	src := testkit.TempDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(src, "large"), testkit.Noise(4, 40<<20), 0o600))
	e := saved(t, src)
	target := &target{Store: e.Store}
	e.Store = target
	m := mountAll(t, e)
	f, err := os.Open(filepath.Join(m.latest(src), "large"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	target.away.Store(true)
	p := make([]byte, 1<<16)
	_, err = f.ReadAt(p, 30<<20)
	require.ErrorIs(t, err, syscall.EIO)
	require.Contains(t, m.reported(), "large")
	target.away.Store(false)
	_, err = f.ReadAt(p, 30<<20)
	require.NoError(t, err)
	require.True(t, bytes.Equal(testkit.Noise(4, 40<<20)[30<<20:][:1<<16], p))
}

// target is a store that is away for a time.
type target struct {
	store.Store
	away atomic.Bool
}

func (s *target) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if s.away.Load() {
		return fmt.Errorf("the server is away: %w", store.ErrTemporary)
	}
	return s.Store.Get(ctx, name, off, p)
}

// TestPruneBeneathAMount: a forgotten snapshot stays until its data is removed; then reading it fails, with a line, and
// another snapshot is still readable.
func TestPruneBeneathAMount(t *testing.T) {
	p := kit.NewPruned(t, mem.New())
	first := p.Snapshot(1)
	p.Snapshot(2)
	m := mountAll(t, p.Engine)
	entries, err := os.ReadDir(filepath.Join(m.dir, "snapshots"))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	old := filepath.Join(m.dir, "snapshots", entries[0].Name(), p.Src)
	_, err = os.ReadDir(old)
	require.NoError(t, err)
	p.Forget(first)
	_, err = p.Prune(kit.SmallPrune())
	require.NoError(t, err)
	failed := 0
	for _, dir := range []string{old, m.latest(p.Src)} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				_, err = os.ReadFile(path)
			}
			if err != nil && dir == old && errors.Is(err, syscall.EIO) {
				failed++
				return nil
			}
			return err
		})
		require.NoError(t, err)
	}
	require.NotZero(t, failed)
	require.NotEmpty(t, m.reported())
}

// TestUnmountWhileFilesAreRead: programs read while the mount is detached and the repository is closed. They get
// errors, and nothing else happens.
func TestUnmountWhileFilesAreRead(t *testing.T) {
	testkit.Slow(t)
	src := testkit.TempDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(src, "large"), testkit.Noise(5, 60<<20), 0o600))
	e := saved(t, src)
	for range testkit.Rounds(2, 3, 10) {
		m := mountAll(t, e)
		f, err := os.Open(filepath.Join(m.latest(src), "large"))
		require.NoError(t, err)
		var readers errgroup.Group
		for i := range 4 {
			readers.Go(func() error {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				for p := make([]byte, 1<<16); ; {
					if _, err := f.ReadAt(p, random.Int64N(59<<20)); err != nil {
						return nil //nolint:nilerr // it was detached
					}
				}
			})
		}
		m.end(nil)
		err = <-m.done
		require.NoError(t, err)
		require.NoError(t, m.close())
		require.NoError(t, f.Close())
		require.NoError(t, readers.Wait())
		m.done <- nil
	}
}

// TestUnmountWhileInUse: the end of the run does not wait for programs that use the mount.
func TestUnmountWhileInUse(t *testing.T) {
	testkit.Slow(t)
	src := testkit.TempDir(t)
	kit.Written(t, src, map[string]string{"a": "content"})
	m := mountAll(t, saved(t, src))
	f, err := os.Open(filepath.Join(m.latest(src), "a"))
	require.NoError(t, err)
	m.end(nil)
	err = <-m.done
	m.done <- err
	require.NoError(t, err)
	require.Contains(t, m.reported(), "in use")
	entries, err := os.ReadDir(m.dir)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing is mounted there")
	require.NoError(t, f.Close())
}

// TestMissingPackIsNoAbsentName: what a lost pack of trees held cannot be read, which is not the same as absent, and
// is found as soon as the pack is back.
func TestMissingPackIsNoAbsentName(t *testing.T) {
	src, folder := testkit.TempDir(t), filepath.Join(t.TempDir(), "repo")
	kit.Written(t, src, map[string]string{"sub/file": "content"})
	st, err := local.Create(folder, nil)
	require.NoError(t, err)
	kit.Settle()
	e := kit.NewEngine(t, st)
	_, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	trees, hidden := filepath.Join(folder, "trees"), filepath.Join(folder, "hidden")
	require.NoError(t, os.Rename(trees, hidden))
	require.NoError(t, os.Mkdir(trees, 0o755))
	m := mountAll(t, e)
	for range 2 {
		_, err = os.Lstat(m.latest(src))
		require.ErrorIs(t, err, syscall.EIO)
	}
	require.NotEmpty(t, m.reported())
	require.NoError(t, os.Remove(trees))
	require.NoError(t, os.Rename(hidden, trees))
	got, err := os.ReadFile(filepath.Join(m.latest(src), "sub", "file"))
	require.NoError(t, err)
	require.Equal(t, "content", string(got))
}
