package foreign

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

func fileSystems() []string { return []string{"ext4", "xfs", "btrfs"}[:testkit.Rounds(1, 1, 3)] }

// ownReads are the ways in which a program reads, with some threads.
func ownReads(g *turnstile, d disk, threads int) map[string]func(i int) error {
	const size = 64 << 20
	return map[string]func(i int) error{
		"buffered": func(int) error { return g.buffered(d.path("big")) },
		"direct":   func(i int) error { return g.direct(d.path("big"), size, int64(i)<<16, int64(threads)<<16) },
		"small":    func(i int) error { return g.walk(d.dir, i, threads) },
	}
}

func TestOwnReadsAreNoFalseAlarm(t *testing.T) {
	testkit.Slow(t)
	for _, fs := range fileSystems() {
		t.Run(fs, func(t *testing.T) {
			d := newDisk(t, fs)
			d.fill(t, 64, 1000)
			for threads, every := range map[int]time.Duration{1: 0, 4: 5 * time.Millisecond} {
				looks := 0
				for _, name := range []string{"buffered", "direct", "small"} {
					quietOnce(t, func() *turnstile {
						d.chill(t)
						g := d.watch(t, every, Options{})
						together(t, threads, ownReads(g, d, threads)[name])
						d.settle(t)
						g.poll(true)
						mode, why := g.w.Mode()
						require.Equal(t, diskwatch.Exact, mode, why)
						looks += g.looks
						return g
					})
				}
				t.Logf("%d threads, every %v: %d looks, none false", threads, every, looks)
			}
		})
	}
}

// quietOnce repeats do a few times at most and requires one run without foreign I/O. A sync(2) of any process on the
// machine commits the journals of all file systems, this one too, and counts as foreign rightly.
func quietOnce(t *testing.T, do func() *turnstile) {
	var quarrels []string
	for range 8 {
		g := do()
		g.sightings()
		if g.seenTotal == 0 {
			return
		}
		quarrels = append(quarrels, g.quarrels...)
	}
	require.Empty(t, quarrels, "seen every time without foreign I/O")
}

func TestMeterCountsAsTheDeviceDoes(t *testing.T) {
	testkit.Slow(t)
	for _, fs := range fileSystems() {
		t.Run(fs, func(t *testing.T) {
			d := newDisk(t, fs)
			d.fill(t, 16, 200)
			src, err := diskwatch.OpenDisks(d.stat)
			require.NoError(t, err)
			defer src.Close()
			g := &turnstile{w: &Watcher{counters: blind("")}, every: time.Hour}
			for _, name := range []string{"buffered", "direct", "small"} {
				// for want of memory, pages of this program are read again
				for faults := diskwatch.Self().Faults - 1; faults != diskwatch.Self().Faults; {
					faults = diskwatch.Self().Faults
					d.chill(t)
					before := d.counters(t)
					own, self := diskwatch.Self(), selfIO(t)
					require.NoError(t, ownReads(g, d, 1)[name](0))
					d.settle(t)
					if diskwatch.Self().Faults != faults {
						continue
					}
					read := diskwatch.Self().Read - own.Read
					require.NotZero(t, read)
					require.Equal(t, d.counters(t).Read-before.Read, read, name)
					require.Equal(t, selfIO(t)-self, read, "%s: /proc/self/io", name)
				}
			}
		})
	}
}

// settle waits until the device is idle: read-ahead may be on its way.
func (d disk) settle(t *testing.T) {
	src, err := diskwatch.OpenDisks(d.stat)
	require.NoError(t, err)
	defer src.Close()
	require.Eventually(t, func() bool { c, err := src.Counters(); return err == nil && c.Inflight == 0 }, time.Minute,
		time.Millisecond)
}

// selfIO returns read_bytes of this process.
func selfIO(t *testing.T) uint64 {
	var rest, read uint64
	text, err := os.ReadFile("/proc/self/io")
	require.NoError(t, err)
	_, err = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\nread_bytes: %d", &rest, &rest, &rest,
		&rest, &read)
	require.NoError(t, err)
	return read
}

// noticed does foreign things while own ones go on, and returns for how many there was a sighting meanwhile or within
// some looks after they were done.
func noticed(t *testing.T, g *turnstile, times int, foreign func(i int), looks int) (seen, atOnce int) {
	for i := range times {
		if times > 1 {
			g.sightings()
		}
		foreign(i)
		for n := range looks {
			if g.sightings() > 0 {
				seen++
				if n == 0 {
					atOnce++
				}
				break
			}
			pause(time.Millisecond)
		}
	}
	return seen, atOnce
}

func TestForeignReadsAreNoticed(t *testing.T) {
	testkit.Slow(t)
	for _, fs := range fileSystems() {
		t.Run(fs, func(t *testing.T) {
			d := newDisk(t, fs)
			d.fill(t, 64, 0)
			s := newStranger(t)
			s.does("read", d.path("foreign"), 4096, 0)
			// The share of separated events depends on how busy the machine is: many own requests under way hide single ones
			// until a moment without. On a quiet machine it is nearly all.
			for _, with := range []struct{ threads, least int }{{0, 95}, {1, 70}, {4, 50}} {
				again := 2 // times on a busy machine
				for ; !readsNoticed(t, d, s, with.threads, with.least, again == 0); again-- {
				}
			}
		})
	}
}

// readsNoticed has a stranger read beside own threads, and requires that no own read counts as foreign, and that at
// least this many of 100 reads are noticed. Unless it is the last attempt, it reports whether they are.
func readsNoticed(t *testing.T, d disk, s *stranger, threads, least int, last bool) bool {
	was := d.counters(t)
	g := d.watch(t, 5*time.Millisecond, Options{})
	stop := make(chan struct{})
	done := make(chan error, threads)
	for i := range threads {
		go func() { done <- g.readOn(d, i, stop) }()
	}
	const times = 100
	before := s.moved()
	seen, atOnce := noticed(t, g, times, func(i int) {
		pause(time.Duration(i%7) * time.Millisecond)
		s.does("read", d.path("foreign"), 4096, int64(i)*4096)
	}, 100)
	close(stop)
	for range threads {
		require.NoError(t, <-done)
	}
	d.settle(t)
	g.poll(true)
	all, truth := g.w.Foreign(), s.moved()-before
	// No process writes here. But the mount has changed the head of the file system, and a sync(2) of any process
	// writes that out: this is foreign work as well, and was rightly detected.
	written := d.counters(t).Written - was.Written
	t.Logf("%d own threads: %d of %d single reads noticed, %d at the first look; %d of %d bytes, and %d written",
		threads, seen, times, atOnce, all, truth, written)
	require.LessOrEqual(t, all, truth+written, "own reads are not foreign")
	enough := all >= truth*uint64(least)/100 // what came together with pages of the test itself may be lost
	if !last {
		return seen >= least && enough
	}
	require.GreaterOrEqual(t, seen, least, "those that are missing were noticed together with the next")
	require.True(t, enough)
	return true
}

// counts is what the device has done so far.
func (d disk) counters(t *testing.T) diskwatch.Counters {
	t.Helper()
	src, err := diskwatch.OpenDisks(d.stat)
	require.NoError(t, err)
	defer src.Close()
	c, err := src.Counters()
	require.NoError(t, err)
	return c
}

// readOn reads until stop: buffered and direct in turn.
func (g *turnstile) readOn(d disk, i int, stop chan struct{}) error {
	for n := i; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		if n%2 == 0 {
			if err := g.direct(d.path("big"), 8<<20, 0, 64<<10); err != nil {
				return err
			}
			continue
		}
		f, err := os.Open(d.path("big"))
		if err != nil {
			return err
		}
		unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		f.Close()
		if err := g.buffered(d.path("big")); err != nil {
			return err
		}
	}
}

func TestOwnWritesAreNoFalseAlarm(t *testing.T) {
	testkit.Slow(t)
	for _, fs := range fileSystems() {
		t.Run(fs, func(t *testing.T) {
			d := newDisk(t, fs)
			d.fill(t, 1, 0)
			quietOnce(t, func() *turnstile {
				g := d.watch(t, time.Millisecond, Options{})
				for i := range 6 {
					require.NoError(t, g.pack(d.dir, fmt.Sprint(i), 64))
					require.NoError(t, g.commits(d.path("book"), 20))
				}
				pause(2 * time.Second)
				g.poll(true)
				t.Logf("%d looks", g.looks)
				return g
			})
		})
	}
}

// commits writes pages of a database and flushes them, as bbolt does.
func (g *turnstile) commits(path string, n int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	page := make([]byte, 4096)
	for i := range n {
		err := g.do(iopolicy.Sync, func() error {
			for _, at := range []int{0, 3 + i%5, 17 + i, 40 + 2*i} {
				page[0] = byte(i)
				if _, err := f.WriteAt(page, int64(at)*4096); err != nil {
					return err
				}
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				return err
			}
			if _, err := f.WriteAt(page, 4096); err != nil {
				return err
			}
			return unix.Fdatasync(int(f.Fd()))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestForeignFlushesAreNoticed(t *testing.T) {
	testkit.Slow(t)
	for _, fs := range fileSystems() {
		t.Run(fs, func(t *testing.T) {
			d := newDisk(t, fs)
			d.fill(t, 64, 0)
			s := newStranger(t)
			s.does("fsync", d.path("foreign"), 4096, 0)
			foreign := func(i int) {
				pause(time.Duration(i%7) * time.Millisecond)
				s.does("fsync", d.path("foreign"), 4096, int64(i%10)*4096)
			}
			const times = 40
			var g *turnstile
			stop, done := make(chan struct{}), make(chan error)
			for again := range 3 {
				g, stop = d.watch(t, 5*time.Millisecond, Options{}), make(chan struct{})
				go func() { done <- g.readOn(d, 0, stop) }()
				seen, _ := noticed(t, g, times, foreign, 100)
				close(stop)
				require.NoError(t, <-done)
				t.Logf("while reading: %d of %d", seen, times)
				if 10*seen >= 8*times {
					break
				}
				require.Less(t, again, 2, "all, on a machine that is not busy")
			}
			d.settle(t)

			g = d.watch(t, 5*time.Millisecond, Options{})
			stop = make(chan struct{})
			go func() { done <- g.writeOn(d, stop) }()
			pause(500 * time.Millisecond)
			alone, seenAlone := 0, 0
			for i := range 100 {
				g.sightings()
				was, before := noSync(g)
				foreign(i)
				is, after := noSync(g)
				seen, _ := noticed(t, g, 1, func(int) {}, 20)
				if was && is && before == after {
					alone++
					seenAlone += seen
				}
			}
			close(stop)
			require.NoError(t, <-done)
			t.Logf("while writing packs: %d of 100 beside no own flush, of those noticed: %d", alone, seenAlone)
			require.GreaterOrEqual(t, 10*seenAlone, 8*alone, "nearly all, on a machine that is not busy")
		})
	}
}

// TestForeignReadsBesideOwnPacks: what is forgiven for own writes does not hide others' reads, also on a file system
// whose late writes are not known.
func TestForeignReadsBesideOwnPacks(t *testing.T) {
	testkit.Slow(t)
	d := newDisk(t, "ext4")
	d.fill(t, 64, 0)
	s := newStranger(t)
	s.does("read", d.path("foreign"), 4096, 0)
	for _, fs := range []string{"ext4", "unknown"} {
		g := disk{d.dir, d.dev, d.stat, fs}.watch(t, 5*time.Millisecond, Options{})
		stop, done := make(chan struct{}), make(chan error)
		go func() { done <- g.writeOn(d, stop) }()
		const times = 50
		seen, _ := noticed(t, g, times, func(i int) {
			pause(40 * time.Millisecond)
			s.does("read", d.path("foreign"), 4096, int64(i)*4096)
		}, 60)
		close(stop)
		require.NoError(t, <-done)
		t.Logf("%s: %d of %d", fs, seen, times)
		require.GreaterOrEqual(t, 10*seen, 8*times, fs)
	}
}

// TestLateWritesAreNoFalseAlarm: the file system commits seconds after own changes, and writes metadata half a minute
// later.
func TestLateWritesAreNoFalseAlarm(t *testing.T) {
	testkit.Slow(t)
	d := newDisk(t, "ext4")
	d.fill(t, 1, 1000)
	run(t, "mount", "-o", "remount,strictatime", d.dir)
	quietOnce(t, func() *turnstile {
		g := d.watch(t, 5*time.Millisecond, Options{Options: diskwatch.Options{Touches: true}})
		require.NoError(t, g.pack(d.dir, "pack", 128))
		require.NoError(t, g.walk(d.dir, 0, 1))
		was := d.counters(t)
		for range 20 * testkit.Rounds(8, 8, 45) {
			pause(50 * time.Millisecond)
			g.poll(true)
		}
		require.Greater(t, d.counters(t).Written, was.Written, "the file system has written")
		return g
	})
}

// noSync returns whether own flushes are in flight, and how many there were.
func noSync(g *turnstile) (bool, uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m.Syncing == 0, g.m.Synced
}

// writeOn writes packs until stop, as fast as some data comes.
func (g *turnstile) writeOn(d disk, stop chan struct{}) error {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := g.pack(d.dir, fmt.Sprint("pack", n%20), 128); err != nil {
			return err
		}
		pause(20 * time.Millisecond)
	}
}

func TestPeersAreOfTheirTier(t *testing.T) {
	testkit.Slow(t)
	d := newDisk(t, "ext4")
	d.fill(t, 16, 0)
	friend, s := newStranger(t), newStranger(t)
	friend.does("read", d.path("foreign"), 4096, 0)
	s.does("read", d.path("foreign"), 4096, 0)
	peers := []shared.Process{{PID: friend.pid, Tier: 2}}
	g := d.watch(t, 5*time.Millisecond, Options{Cooperating: func() []shared.Process { return peers }})
	var edges [iopolicy.Tiers]int
	look := func() {
		m := g.m
		m.At = time.Now()
		for tier, at := range g.w.Look(m).Newest {
			if !at.IsZero() {
				edges[tier]++
			}
		}
	}
	look()
	pause(150 * time.Millisecond)
	for i := range 50 {
		require.NoError(t, g.direct(d.path("big"), 1<<20, 0, 64<<10))
		friend.does("read", d.path("foreign"), 4096, int64(i)*4096)
		look()
	}
	require.Zero(t, edges[0], "a peer is no stranger")
	require.Equal(t, 50, edges[2])
	for i := range 10 {
		friend.does("child", d.path("foreign"), 4096, int64(i)*4096)
		look()
		pause(25 * time.Millisecond)
	}
	require.LessOrEqual(t, edges[0], 1, "its children neither, but one that ends before it was found")
	edges = [iopolicy.Tiers]int{}
	pause(150 * time.Millisecond)
	look()
	seen := 0
	for i := range 50 {
		s.does("read", d.path("foreign"), 4096, int64(i)*4096)
		edges = [iopolicy.Tiers]int{}
		look()
		look()
		seen += min(1, edges[0])
	}
	t.Logf("strangers beside a peer: %d of 50 noticed", seen)
	require.GreaterOrEqual(t, seen, 45)
}

func TestWatchingTheWrongDisk(t *testing.T) {
	testkit.Slow(t)
	d, other := newDisk(t, "ext4"), newDisk(t, "ext4")
	d.fill(t, 32, 0)
	g := disk{d.dir, d.dev, other.stat, d.fs}.watch(t, 0, Options{})
	require.NoError(t, g.direct(d.path("big"), 32<<20, 0, 64<<10))
	require.Zero(t, g.sightings())
	mode, why := g.w.Mode()
	require.Equal(t, diskwatch.Gaps, mode)
	require.NotEmpty(t, why)
}

func TestBlameNamesTheStranger(t *testing.T) {
	testkit.Slow(t)
	d := newDisk(t, "ext4")
	d.fill(t, 16, 0)
	s := newStranger(t)
	g := d.watch(t, 5*time.Millisecond, Options{})
	require.Empty(t, g.w.TopProcesses())
	s.does("read", d.path("big"), 8<<20, 0)
	g.poll(true)
	var top []report.Process
	require.Eventually(t, func() bool { top = g.w.TopProcesses(); return len(top) > 0 }, time.Minute, 50*time.Millisecond)
	found := false
	for _, c := range top {
		found = found || c.PID == s.pid && c.Bytes >= 8<<20
	}
	require.True(t, found, "%+v", top)
}
