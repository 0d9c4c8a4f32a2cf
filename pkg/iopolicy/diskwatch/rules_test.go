package diskwatch

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// fake is a source. A test sets its numbers.
type fake struct {
	Counters
	Process
	drop   uint64
	err    error
	before func() // is called before the device is asked
	after  func() // is called after the device was asked
	closed bool
}

// disks are the fake as a source.
type disks struct{ *fake }

func (f disks) Counters() (Counters, error) {
	if f.before != nil {
		f.before()
	}
	c := f.fake.Counters
	if f.after != nil {
		f.after()
	}
	return c, f.err
}
func (f disks) self() Process     { return f.Process }
func (f disks) cancelled() uint64 { return f.drop }
func (f disks) Close()            { f.closed = true }

// scene is a Watcher with a fake source and the moments of a gate.
type scene struct {
	t *testing.T
	*fake
	w *Watcher
	m iopolicy.Moment
}

func newScene(t *testing.T, opt Options, count int) *scene {
	s := &scene{t: t, fake: &fake{}}
	s.Counters = Counters{Read: 1 << 30, Written: 1 << 30}
	if opt.Interval == 0 {
		opt.Interval = interval
	}
	var err error
	s.w, err = newWatcher(disks{s.fake}, opt, count)
	require.NoError(t, err)
	return s
}

// poll waits and polls.
func (s *scene) poll(after time.Duration) iopolicy.Sighting {
	wait(after)
	s.m.At = time.Now()
	return s.w.Look(s.m)
}

// foreign waits, polls and returns whether foreign I/O was seen.
func (s *scene) foreign(after time.Duration) bool {
	g := s.poll(after)
	return !g.Newest[0].IsZero() || g.Inflight[0]
}

func wait(d time.Duration) { time.Sleep(d) }

// begin and end are one own operation.
func (s *scene) begin(kind iopolicy.Kind) {
	s.m.Begun++
	s.m.Inflight++
	if kind == iopolicy.Write || kind == iopolicy.Sync {
		s.m.Wrote++
		s.m.Writing++
	}
	if kind == iopolicy.Sync {
		s.m.Synced++
		s.m.Syncing++
	}
}

func (s *scene) end(kind iopolicy.Kind) {
	s.m.Inflight--
	if kind == iopolicy.Write || kind == iopolicy.Sync {
		s.m.Writing--
	}
	if kind == iopolicy.Sync {
		s.m.Syncing--
	}
}

// write makes dirty and writes so much in one own operation.
func (s *scene) write(kind iopolicy.Kind, dirty, write, flush uint64) {
	s.begin(kind)
	s.Dirtied += dirty
	s.Written += write
	s.Flushes += flush
	s.end(kind)
}

const (
	ms  = time.Millisecond
	sec = time.Second
)

func TestRules(t *testing.T) {
	tests := map[string]struct {
		fs    string
		opt   Options
		disks int
		do    func(s *scene)
	}{
		"nothing happens": {do: func(s *scene) {
			require.False(s.t, s.foreign(5*ms))
		}},
		"own read that is complete": {do: func(s *scene) {
			s.begin(iopolicy.Read)
			s.fake.Process.Read += 4096
			s.fake.Counters.Read += 4096
			s.end(iopolicy.Read)
			require.False(s.t, s.foreign(5*ms))
		}},
		"own read-ahead that outlives its operation": {do: func(s *scene) {
			s.begin(iopolicy.Read)
			s.fake.Process.Read += 1 << 20
			s.fake.Inflight = 2
			s.end(iopolicy.Read)
			require.False(s.t, s.foreign(5*ms))
			s.fake.Counters.Read += 1 << 20
			s.fake.Inflight = 0
			require.False(s.t, s.foreign(5*ms), "in a gap that was not calm yet")
			s.fake.Counters.Read += 4096
			require.True(s.t, s.foreign(5*ms), "in a calm gap")
		}},
		"foreign read beside own": {do: func(s *scene) {
			s.begin(iopolicy.Read)
			s.fake.Process.Read += 8192
			s.fake.Counters.Read += 8192 + 512
			require.True(s.t, s.foreign(5*ms))
			require.False(s.t, s.foreign(5*ms), "it counts once")
			require.EqualValues(s.t, 512, s.w.Foreign())
		}},
		"foreign read hidden by what went elsewhere shows in a gap": {do: func(s *scene) {
			s.begin(iopolicy.Read)
			s.fake.Process.Read += 1 << 20 // of another device
			s.fake.Inflight = 1
			require.False(s.t, s.foreign(5*ms))
			s.end(iopolicy.Read)
			s.fake.Inflight = 0
			require.False(s.t, s.foreign(5*ms))
			s.fake.Counters.Read += 512
			require.True(s.t, s.foreign(5*ms))
		}},
		"and beside own reads after the base was lowered": {do: func(s *scene) {
			s.fake.Process.Read += 1 << 20
			require.False(s.t, s.foreign(5*ms))
			s.begin(iopolicy.Read)
			s.fake.Process.Read += 4096
			s.fake.Counters.Read += 4096 + 512
			require.True(s.t, s.foreign(5*ms))
		}},
		"foreign request in flight in a calm gap": {do: func(s *scene) {
			require.False(s.t, s.foreign(5*ms))
			s.fake.Inflight = 1
			g := s.poll(5 * ms)
			require.True(s.t, g.Inflight[0])
			require.Equal(s.t, s.m.At, g.Newest[0])
		}},
		"page of the program itself in a gap": {do: func(s *scene) {
			require.False(s.t, s.foreign(5*ms))
			s.fake.Process.Read += 16384
			s.fake.Process.Faults++
			s.fake.Inflight = 1
			require.False(s.t, s.foreign(5*ms))
			s.fake.Counters.Read += 16384
			s.fake.Inflight = 0
			require.False(s.t, s.foreign(5*ms))
		}},
		"flush of others while we read": {do: func(s *scene) {
			s.begin(iopolicy.Read)
			s.fake.Counters.Flushes++
			require.True(s.t, s.foreign(5*ms))
		}},
		"write of others while we read": {do: func(s *scene) {
			s.begin(iopolicy.Read)
			s.fake.Written += 512
			require.True(s.t, s.foreign(5*ms))
			require.EqualValues(s.t, 512, s.w.Foreign())
		}},
		"flush of others while we write": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Write, 128<<10, 64<<10, 0)
			require.False(s.t, s.foreign(5*ms))
			s.write(iopolicy.Write, 128<<10, 192<<10, 1)
			require.True(s.t, s.foreign(5*ms))
		}},
		"read of others while we write": {fs: "f2fs", do: func(s *scene) {
			s.write(iopolicy.Write, 128<<10, 128<<10, 0)
			s.fake.Counters.Read += 4096
			require.True(s.t, s.foreign(5*ms))
		}},
		"own flush, and more written than was dirty": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Write, 1<<20, 1<<20, 0)
			require.False(s.t, s.foreign(5*ms))
			s.begin(iopolicy.Sync)
			s.Written += 300 << 10
			require.False(s.t, s.foreign(5*ms), "in the middle of it")
			s.Flushes += 2
			s.end(iopolicy.Sync)
			require.False(s.t, s.foreign(5*ms))
			s.Flushes += 2
			require.True(s.t, s.foreign(5*ms), "after it")
		}},
		"own dirty pages come late": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Write, 32<<20, 0, 0)
			require.False(s.t, s.foreign(5*ms))
			require.False(s.t, s.foreign(9*sec))
			s.Written += 32 << 20
			require.False(s.t, s.foreign(sec))
			s.Written += 8 << 20
			require.True(s.t, s.foreign(sec), "but not more than was dirty")
		}},
		"own dirty pages that were dropped come no more": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Write, 32<<20, 0, 0)
			require.False(s.t, s.foreign(5*ms))
			s.drop += 32 << 20
			s.Written += 8 << 20
			require.True(s.t, s.foreign(5*ms))
		}},
		"after 41 seconds nothing is pending": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Write, 32<<20, 0, 0)
			for range 60 {
				require.False(s.t, s.foreign(sec))
			}
			s.Written += 8 << 20
			require.True(s.t, s.foreign(sec))
		}},
		"commit of the journal after own changes": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Write, 4096, 0, 0)
			require.False(s.t, s.foreign(5*ms))
			s.Written += 28<<10 + 4096
			require.False(s.t, s.foreign(5*sec))
			s.Written += 4096
			s.Flushes += 2
			require.False(s.t, s.foreign(100*ms))
			s.Flushes += 2
			require.True(s.t, s.foreign(100*ms), "there is only one")
		}},
		"commit too early to be the journal's": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Write, 4096, 4096, 0)
			require.False(s.t, s.foreign(5*ms))
			s.Written += 28 << 10
			s.Flushes += 2
			require.True(s.t, s.foreign(2*sec))
		}},
		"no commit is due after an own flush": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Write, 4096, 4096, 0)
			require.False(s.t, s.foreign(5*ms))
			s.write(iopolicy.Sync, 0, 28<<10, 2)
			require.False(s.t, s.foreign(5*ms))
			s.Flushes += 2
			require.True(s.t, s.foreign(5*sec))
		}},
		"metadata after own changes, without a flush": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Sync, 16<<20, 17<<20, 4)
			require.False(s.t, s.foreign(5*ms))
			s.Written += 24 << 10
			require.False(s.t, s.foreign(30*sec))
			s.Written += 1 << 20
			require.True(s.t, s.foreign(sec))
		}},
		"head of the log": {fs: "xfs", do: func(s *scene) {
			s.write(iopolicy.Sync, 1<<20, 2<<20, 2)
			require.False(s.t, s.foreign(5*ms))
			s.Written += 1024
			s.Flushes += 2
			require.False(s.t, s.foreign(30*sec))
		}},
		"transaction of btrfs, which reads": {fs: "btrfs", do: func(s *scene) {
			s.write(iopolicy.Sync, 16<<20, 17<<20, 4)
			require.False(s.t, s.foreign(5*ms))
			s.fake.Counters.Read += 32 << 10
			s.Written += 900 << 10
			s.Flushes += 2
			require.False(s.t, s.foreign(30*sec))
			s.Flushes += 2
			require.True(s.t, s.foreign(2*sec))
		}},
		"access times": {fs: "ext4", opt: Options{Touches: true}, do: func(s *scene) {
			for range 1000 {
				s.begin(iopolicy.Read)
				s.end(iopolicy.Read)
			}
			require.False(s.t, s.foreign(5*ms))
			s.Written += 264 << 10
			s.Flushes += 2
			require.False(s.t, s.foreign(5*sec))
			s.Written += 256 << 10
			require.False(s.t, s.foreign(30*sec))
		}},
		"access times that are not kept": {fs: "ext4", do: func(s *scene) {
			s.begin(iopolicy.Read)
			s.end(iopolicy.Read)
			require.False(s.t, s.foreign(5*ms))
			s.Written += 8192
			s.Flushes += 2
			require.True(s.t, s.foreign(5*sec))
		}},
		"a mirror writes twice and reads what it likes": {fs: "ext4", disks: 2,
			do: func(s *scene) {
				s.write(iopolicy.Write, 1<<20, 2<<20, 0)
				s.fake.Counters.Read += 64 << 10
				require.False(s.t, s.foreign(5*ms))
			}},
		"other devices are proven": {opt: Options{Elsewhere: func() iopolicy.Bytes { return iopolicy.Bytes{} }},
			do: func(s *scene) {
				s.w.opt.Elsewhere = func() iopolicy.Bytes { return iopolicy.Bytes{Read: 1 << 20} }
				s.begin(iopolicy.Read)
				s.fake.Process.Read += 1 << 20
				s.fake.Counters.Read += 512
				require.True(s.t, s.foreign(5*ms))
			}},
		"with other devices a gap asks for no " +
			"sums": {opt: Options{Elsewhere: func() iopolicy.Bytes { return iopolicy.Bytes{} }}, do: func(s *scene) {
			require.False(s.t, s.foreign(5*ms))
			s.fake.Process.Read += 64 << 20 // not attributed yet
			s.fake.Counters.Read += 512
			require.True(s.t, s.foreign(5*ms))
		}},
		"another disk takes the name": {do: func(s *scene) {
			s.fake.Counters = Counters{Read: 512}
			require.False(s.t, s.foreign(5*ms))
			s.fake.Counters.Read += 512
			s.begin(iopolicy.Read)
			require.True(s.t, s.foreign(5*ms))
		}},
		"the disk is gone": {do: func(s *scene) {
			s.err = errors.New("no such device")
			s.fake.Counters.Read += 512
			require.False(s.t, s.foreign(5*ms))
			mode, why := s.w.Mode()
			require.Equal(s.t, Blind, mode)
			require.Contains(s.t, why, "no such device")
			require.ErrorIs(s.t, s.w.Err(), s.err)
			require.True(s.t, s.closed)
			every, _ := s.w.NeedsGaps()
			require.Zero(s.t, every)
		}},
		"one flush without a write, after own changes": {fs: "ext4", do: func(s *scene) {
			s.write(iopolicy.Sync, 16<<20, 17<<20, 4)
			require.False(s.t, s.foreign(5*ms))
			s.Flushes++
			require.False(s.t, s.foreign(500*ms), "the file system makes sure of its metadata")
			s.Flushes++
			require.True(s.t, s.foreign(500*ms), "but not so often")
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.opt.FS = tt.fs
				tt.do(newScene(t, tt.opt, max(1, tt.disks)))
			})
		})
	}
}

// TestNeverMoreThanTheTruth lets own threads, read-ahead, pages from elsewhere and foreign processes do anything in any
// order, also during a poll. The watcher never reports more foreign I/O than there is, and none on an idle device.
// Where nothing went elsewhere, every byte is found in the end.
func TestNeverMoreThanTheTruth(t *testing.T) {
	testkit.Slow(t)
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, r, seed%4 < 2, seed%2 == 0)
			for range 400 {
				for range r.IntN(6) {
					w.step(true)
				}
				if w.s.foreign(time.Duration(r.IntN(8)) * ms) {
					require.True(t, w.strangers, "seed %d: there was no foreign I/O", seed)
				}
				require.LessOrEqual(t, w.s.w.Foreign(), w.foreign, "seed %d", seed)
			}
			w.drain()
			w.s.foreign(5 * ms)
			w.s.foreign(5 * ms)
			require.LessOrEqual(t, w.s.w.Foreign(), w.foreign, "seed %d", seed)
			if !w.pages {
				require.Equal(t, w.foreign, w.s.w.Foreign(), "seed %d", seed)
			}
		})
	}
}

// world is everything that may happen at a device.
type world struct {
	s                *scene
	r                *rand.Rand
	strangers, pages bool
	way              []int // requests on their way, in bytes; foreign ones are negative
	open             int   // own operations
	foreign          uint64
}

func newWorld(t *testing.T, r *rand.Rand, strangers, pages bool) *world {
	w := &world{s: newScene(t, Options{FS: "ext4"}, 1), r: r, strangers: strangers, pages: pages}
	w.s.before = func() { // what was on its way may arrive
		for range r.IntN(3) {
			w.arrive()
		}
	}
	w.s.after = func() {
		for range r.IntN(4) {
			w.step(false)
		}
	}
	return w
}

// step is one event. An own operation that begins after the moment was taken is not known to the watcher.
func (w *world) step(known bool) {
	size := 512 * (1 + w.r.IntN(64))
	switch w.r.IntN(8) {
	case 0, 1:
		if known {
			w.s.m.Begun++
			w.s.m.Inflight++
			w.open++
			w.submit(size)
		}
	case 2:
		if known && w.open > 0 { // with or without waiting for what it asked for
			w.open--
			w.s.m.Inflight--
		}
	case 3:
		if w.open > 0 { // one operation, many requests
			w.submit(size)
		}
	case 4:
		if w.strangers {
			w.way = append(w.way, -size)
			w.s.fake.Inflight++
		}
	case 5:
		if w.pages { // of the program, on another disk
			w.s.fake.Process.Read += 4096
			w.s.fake.Process.Faults++
		}
	default:
		w.arrive()
	}
}

func (w *world) submit(size int) {
	w.s.fake.Process.Read += uint64(size)
	w.s.fake.Inflight++
	w.way = append(w.way, size)
}

// arrive completes one request.
func (w *world) arrive() {
	if len(w.way) == 0 {
		return
	}
	i := w.r.IntN(len(w.way))
	size := w.way[i]
	w.way = append(w.way[:i], w.way[i+1:]...)
	w.s.fake.Inflight--
	if size < 0 {
		w.foreign += uint64(-size)
		size = -size
	}
	w.s.fake.Counters.Read += uint64(size)
}

// drain completes everything.
func (w *world) drain() {
	w.s.before, w.s.after = nil, nil
	for len(w.way) > 0 {
		w.arrive()
	}
	w.s.m.Inflight = 0
}

func TestGivesUpSumsThatDoNotAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, Options{}, 1)    // FUSE over a disk: a daemon reads for us
		for range 2*int(mismatches) + 1 { // half of the time is in gaps, once the first one is known
			require.False(t, s.foreign(20*ms))
			s.begin(iopolicy.Read)
			s.fake.Counters.Read += 64 << 10
			s.end(iopolicy.Read)
			mode, _ := s.w.Mode()
			require.Equal(t, Checking, mode)
			s.foreign(5 * ms)
			s.foreign(5 * ms)
		}
		mode, why := s.w.Mode()
		require.Equal(t, Gaps, mode)
		require.NotEmpty(t, why)
		s.begin(iopolicy.Read)
		s.fake.Counters.Read += 64 << 10
		s.end(iopolicy.Read)
		require.False(t, s.foreign(5*ms), "not any more")
		s.fake.Counters.Read += 512
		require.True(t, s.foreign(5*ms), "but in a gap")
	})
}

func TestRealStrangersDoNotShakeTrust(t *testing.T) {
	for _, every := range []int{1, 2, 3, 7, 40} { // gaps and operations from one foreign read to the next
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, Options{FS: "ext4"}, 1)
			for i := range 2000 {
				s.foreign(20 * ms)
				s.begin(iopolicy.Read)
				s.fake.Process.Read += 4096
				s.fake.Counters.Read += 4096
				s.end(iopolicy.Read)
				s.foreign(5 * ms)
				if i%every == 0 {
					s.fake.Counters.Read += 4096
				}
			}
			mode, _ := s.w.Mode()
			require.Equal(t, Exact, mode, "every %d", every)
		})
	}
}

// TestStrangersAtRandomDoNotShakeTrust: reads of others that most often fall beside own operations, and into gaps only
// as often as gaps have a part of the time.
func TestStrangersAtRandomDoNotShakeTrust(t *testing.T) {
	for _, perSecond := range []float64{20, 50, 80, 200} {
		synctest.Test(t, func(t *testing.T) {
			s, dice := newScene(t, Options{FS: "ext4"}, 1), rand.New(rand.NewPCG(1, 2))
			next := time.Now()
			others := func() {
				for ; time.Now().After(next); next = next.Add(time.Duration(dice.ExpFloat64() / perSecond * float64(sec))) {
					s.fake.Counters.Read += 4096
				}
			}
			for range 20000 {
				s.begin(iopolicy.Read)
				s.fake.Process.Read += 4096
				s.fake.Counters.Read += 4096
				wait(20 * ms)
				others()
				s.end(iopolicy.Read)
				s.poll(0)
				wait(5 * ms)
				others()
				s.poll(0)
			}
			mode, why := s.w.Mode()
			require.Equal(t, Exact, mode, "%v a second: %s", perSecond, why)
		})
	}
}

func TestReadsThatDoNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, Options{}, 1)
		w := s.w
		every, length := w.NeedsGaps()
		require.Zero(t, every+length)
		s.begin(iopolicy.Read)
		s.fake.Process.Read += proof // something between has a cache
		s.end(iopolicy.Read)
		require.False(t, s.foreign(5*ms))
		mode, _ := w.Mode()
		require.Equal(t, Gaps, mode)
		every, length = w.NeedsGaps()
		require.Equal(t, 200*ms, every)
		require.Equal(t, 5*ms, length)
		require.False(t, s.foreign(5*ms))
		s.fake.Counters.Read += 512
		require.True(t, s.foreign(5*ms))
		s.fake.Process.Read += proof // it was warming up
		s.fake.Counters.Read += proof
		s.m.Begun++
		s.foreign(5 * ms)
		mode, _ = w.Mode()
		require.Equal(t, Exact, mode)
	})
}

func TestAsksForAGapWhenOwnRequestsHideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, Options{FS: "ext4", Interval: 20 * ms}, 1)
		w := s.w
		s.begin(iopolicy.Read)
		s.fake.Process.Read += 1 << 20
		s.fake.Inflight = 3
		for range 40 {
			s.foreign(20 * ms)
			every, _ := w.NeedsGaps()
			require.Zero(t, every)
		}
		for range 20 {
			s.foreign(20 * ms)
		}
		every, length := w.NeedsGaps()
		require.Equal(t, sec, every)
		require.Equal(t, 20*ms, length)
		s.end(iopolicy.Read)
		s.fake.Counters.Read += 1 << 20
		s.fake.Inflight = 0
		s.foreign(20 * ms)
		every, _ = w.NeedsGaps()
		require.Zero(t, every)
	})
}
