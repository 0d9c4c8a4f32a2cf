package foreign

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// TestMain lets the test also run as another process.
func TestMain(m *testing.M) {
	if role := os.Getenv("TIDEMARK_TEST_ACTOR"); role != "" {
		actorMain(role)
		return
	}
	if os.Getenv("TIDEMARK_TEST_STRANGER") != "" {
		strangerMain()
		return
	}
	testkit.WatchGates()
	os.Exit(testkit.RunWithOwnMounts(m))
}

// strangerMain executes commands, one a line, and answers when each is done.
func strangerMain() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var what, path string
		var n, at int64
		fmt.Sscan(in.Text(), &what, &path, &n, &at)
		fmt.Println(strangerDoes(what, path, n, at))
	}
}

func strangerDoes(what, path string, n, at int64) error {
	switch what {
	case "read":
		return directRead(path, n, at)
	case "fsync":
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(strings.Repeat("x", int(n))), at); err != nil {
			return err
		}
		return f.Sync()
	case "child": // its child reads
		cmd := exec.Command("dd", "if="+path, "of=/dev/null", "bs=4096", "iflag=direct", fmt.Sprint("count=", n/4096),
			fmt.Sprint("skip=", at/4096))
		return cmd.Run()
	}
	return fmt.Errorf("%q is not known", what)
}

// aligned returns memory for direct I/O.
func aligned(n int) []byte {
	b := make([]byte, n+4096)
	off := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 4095)
	return b[4096-off : 4096-off+n]
}

func directRead(path string, n, at int64) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_NOATIME, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// btrfs goes through the cache where there are checksums.
	unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
	unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM)
	_, err = unix.Pread(fd, aligned(int(n)), at)
	return err
}

// stranger is a foreign process.
type stranger struct {
	t   *testing.T
	pid int
	in  io.WriteCloser
	out *bufio.Scanner
}

func newStranger(t *testing.T) *stranger {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_STRANGER=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return &stranger{t, cmd.Process.Pid, in, bufio.NewScanner(out)}
}

// moved returns the bytes that it has read so far.
func (s *stranger) moved() uint64 {
	var rest, read uint64
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", s.pid))
	require.NoError(s.t, err)
	_, err = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\nread_bytes: %d", &rest, &rest, &rest,
		&rest, &read)
	require.NoError(s.t, err)
	return read
}

// does one thing and returns when it is done.
func (s *stranger) does(what, path string, n, at int64) {
	fmt.Fprintln(s.in, what, path, n, at)
	require.True(s.t, s.out.Scan())
	require.Equal(s.t, "<nil>", s.out.Text())
}

// disk is a file system of its own on a loop device.
type disk struct {
	dir, dev, stat, fs string
}

func (d disk) path(name string) string { return filepath.Join(d.dir, name) }

// newDisk makes a disk, or skips.
func newDisk(t *testing.T, fs string) disk {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	base := t.TempDir()
	image, dir := filepath.Join(base, "image"), filepath.Join(base, "mnt")
	require.NoError(t, os.Mkdir(dir, 0o755))
	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1<<30))
	f.Close()
	mkfs := exec.Command("mkfs."+fs, "-q", image)
	if fs == "ext4" {
		mkfs = exec.Command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
	}
	if out, err := mkfs.CombinedOutput(); err != nil {
		t.Skipf("mkfs.%s: %v: %s", fs, err, out)
	}
	out, err := exec.Command("losetup", "--direct-io=on", "-f", "--show", image).CombinedOutput()
	if err != nil {
		t.Skipf("losetup: %v: %s", err, out)
	}
	dev := strings.TrimSpace(string(out))
	// It ends with its last opener, which is this process between two mounts: nothing is left if that is killed.
	hold, err := os.Open(dev)
	run(t, "losetup", "-d", dev)
	require.NoError(t, err)
	t.Cleanup(func() { hold.Close() })
	require.NoError(t, os.Remove(image))
	if out, err := exec.Command("mount", "-t", fs, "-o", mountOptions(fs), dev, dir).CombinedOutput(); err != nil {
		t.Skipf("mount %s: %v: %s", fs, err, out)
	}
	t.Cleanup(func() { run(t, "umount", dir) })
	return disk{dir, dev, "/sys/block/" + filepath.Base(dev) + "/stat", fs}
}

// mountOptions keep the kernel from reading and writing by itself.
func mountOptions(fs string) string {
	if fs == "ext4" {
		return "noatime,no_prefetch_block_bitmaps"
	}
	return "noatime"
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// fill writes a file of some MiB and small ones, and makes all cold.
func (d disk) fill(t *testing.T, mib, small int) {
	block := make([]byte, 1<<20)
	f, err := os.Create(d.path("big"))
	require.NoError(t, err)
	for i := range mib {
		for j := range block {
			block[j] = byte(i + j*7)
		}
		_, err := f.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	require.NoError(t, os.WriteFile(d.path("foreign"), block, 0o644))
	for i := range small {
		dir := d.path(fmt.Sprint("small", i%10))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), block[:5000], 0o644))
	}
	d.chill(t)
}

// chill mounts the disk again, which empties the caches, and waits until the device has been idle for a while.
func (d disk) chill(t *testing.T) {
	require.Eventually(t, func() bool { return exec.Command("umount", d.dir).Run() == nil }, time.Minute,
		50*time.Millisecond)
	run(t, "mount", "-t", d.fs, "-o", mountOptions(d.fs), d.dev, d.dir)
	before, since := "", time.Now()
	for time.Since(since) < 200*time.Millisecond {
		now, err := os.ReadFile(d.stat)
		require.NoError(t, err)
		if string(now) != before {
			before, since = string(now), time.Now()
		}
		pause(10 * time.Millisecond)
	}
}

// pause lets the kernel and other processes go on.
func pause(d time.Duration) { time.Sleep(d) }

// turnstile stands for a gate: it counts operations, polls at their boundaries, and makes the gaps that its watcher
// needs.
type turnstile struct {
	w     *Watcher
	every time.Duration // between looks; 0: at every boundary

	gap   sync.RWMutex // held alone while no operation may be under way
	gapMu sync.Mutex
	gapAt time.Time // when the last gap was over, or none was needed

	mu              sync.Mutex
	m               iopolicy.Moment
	looking         sync.Mutex
	last            time.Time
	looks           int
	seen, seenTotal int
	quarrels        []string
}

// watch begins to watch d.
func (d disk) watch(t *testing.T, every time.Duration, opt Options) *turnstile {
	g := &turnstile{every: every}
	g.m.At = time.Now()
	leaf := device.Leaf{Sysfs: filepath.Dir(d.stat)}
	g.w = Watch(device.Info{Medium: device.SSD, FS: d.fs, Leaves: []device.Leaf{leaf}}, opt)
	mode, why := g.w.Mode()
	require.Equal(t, diskwatch.Checking, mode, why)
	t.Cleanup(g.w.Close)
	return g
}

// do is one operation.
func (g *turnstile) do(kind iopolicy.Kind, f func() error) error {
	g.poll(kind == iopolicy.Sync)
	g.gap.RLock()
	g.count(kind, 1)
	err := f()
	g.count(kind, -1)
	g.gap.RUnlock()
	g.poll(kind == iopolicy.Sync)
	g.makeGap()
	return err
}

// makeGap makes a forced gap if one is due.
func (g *turnstile) makeGap() {
	if !g.gapMu.TryLock() {
		return
	}
	defer g.gapMu.Unlock()
	every, length := g.w.NeedsGaps()
	if now := time.Now(); every == 0 || g.gapAt.IsZero() {
		g.gapAt = now
	}
	if time.Since(g.gapAt) < every || every == 0 {
		return
	}
	g.gap.Lock()
	defer g.gap.Unlock()
	g.poll(true)
	for range 2 {
		pause(length / 2)
		g.poll(true)
	}
	g.gapAt = time.Now()
}

func (g *turnstile) count(kind iopolicy.Kind, by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	begun := uint64(max(0, by))
	g.m.Inflight += by
	g.m.Begun += begun
	if kind == iopolicy.Write || kind == iopolicy.Sync {
		g.m.Writing += by
		g.m.Wrote += begun
	}
	if kind == iopolicy.Sync {
		g.m.Syncing += by
		g.m.Synced += begun
	}
}

// look asks the watcher, if it is time.
func (g *turnstile) poll(now bool) {
	if now {
		g.looking.Lock()
	} else if !g.looking.TryLock() {
		return
	}
	defer g.looking.Unlock()
	at := time.Now()
	if !now && at.Sub(g.last) < g.every {
		return
	}
	g.last = at
	g.mu.Lock() // no operation begins meanwhile
	m := g.m
	m.At = time.Now()
	s := g.w.Look(m)
	g.mu.Unlock()
	g.looks++
	if !s.Newest[0].IsZero() || s.Inflight[0] {
		g.seen++
		g.seenTotal++
		if len(g.quarrels) < 5 {
			g.quarrels = append(g.quarrels, fmt.Sprintf("%+v by %d bytes; %+v", s, g.w.Foreign(), m))
		}
	}
}

// sightings looks once more, and returns how many were seen since the last question.
func (g *turnstile) sightings() int {
	g.poll(true)
	g.looking.Lock()
	defer g.looking.Unlock()
	n := g.seen
	g.seen = 0
	return n
}

// buffered reads a file through the cache.
func (g *turnstile) buffered(path string) error {
	var f *os.File
	err := g.do(iopolicy.Metadata, func() (err error) { f, err = os.Open(path); return })
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 128<<10)
	for {
		var n int
		err := g.do(iopolicy.Read, func() (err error) { n, err = f.Read(buf); return })
		if n == 0 || err != nil {
			return nil
		}
	}
}

// direct reads pieces of a file past the cache.
func (g *turnstile) direct(path string, size int64, from, step int64) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	buf := aligned(64 << 10)
	for at := from; at < size; at += step {
		if err := g.do(iopolicy.Read, func() error { _, err := unix.Pread(fd, buf, at); return err }); err != nil {
			return err
		}
	}
	return nil
}

// walk reads all small files.
func (g *turnstile) walk(dir string, part, parts int) error {
	for i := part; i < 10; i += parts {
		var list []os.DirEntry
		sub := filepath.Join(dir, fmt.Sprint("small", i))
		if err := g.do(iopolicy.Metadata, func() (err error) { list, err = os.ReadDir(sub); return }); err != nil {
			return err
		}
		for _, e := range list {
			if err := g.buffered(filepath.Join(sub, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// pack writes a file as a repository does.
func (g *turnstile) pack(dir, name string, pieces int) error {
	tmp := filepath.Join(dir, name+".tmp")
	var f *os.File
	if err := g.do(iopolicy.Write, func() (err error) { f, err = os.Create(tmp); return }); err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 128<<10)
	for i := range pieces {
		buf[0] = byte(i)
		err := g.do(iopolicy.Write, func() error {
			if _, err := f.WriteAt(buf, int64(i*len(buf))); err != nil {
				return err
			}
			return unix.SyncFileRange(int(f.Fd()), int64(i*len(buf)), int64(len(buf)), unix.SYNC_FILE_RANGE_WRITE)
		})
		if err != nil {
			return err
		}
	}
	return g.flush(f, tmp, filepath.Join(dir, name))
}

// flush makes a file last under its name.
func (g *turnstile) flush(f *os.File, tmp, name string) error {
	for _, step := range []func() error{
		func() error { return unix.Fdatasync(int(f.Fd())) },
		func() error { return os.Rename(tmp, name) },
		func() error {
			dir, err := os.Open(filepath.Dir(name))
			if err != nil {
				return err
			}
			defer dir.Close()
			return dir.Sync()
		},
	} {
		if err := g.do(iopolicy.Sync, step); err != nil {
			return err
		}
	}
	return nil
}

// together runs f in some threads.
func together(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	for range n {
		require.NoError(t, <-errs)
	}
}
