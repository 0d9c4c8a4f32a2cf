package diskwatch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// street is a device behind a gate, with own workers and a concurrent foreign one.
type street struct {
	mu sync.Mutex
	Counters
	Process
}

// streetDisks are the street as a source.
type streetDisks struct{ *street }

func (s streetDisks) Counters() (Counters, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.street.Counters, nil
}

func (s streetDisks) self() Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Process
}

func (streetDisks) cancelled() uint64 { return 0 }
func (streetDisks) Close()            {}

// submit and arrive are one request; own ones are counted when they are submitted.
func (s *street) submit(own uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Process.Read += own
	s.Counters.Inflight++
}

func (s *street) arrive(bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Counters.Inflight--
	s.Counters.Read += bytes
}

// traits are the variations of a street.
type traits struct {
	workers   int
	debt      uint64        // bytes that this process has read elsewhere at the start
	leak      uint64        // and with each operation
	hidden    bool          // another process reads for us: own reads are counted nowhere
	ahead     time.Duration // how long read-ahead outlives its operation; 0: there is none
	foreign   time.Duration // between two foreign reads of 4 KiB; 0: there are none
	ceaseless bool          // his next is on the device before the one before is done
}

// works runs all processes for a time, at full speed or as the gate allows.
func (s *street) works(g *iopolicy.Gate, tr traits, long time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	pass := g.Pass(iopolicy.NewClient(iopolicy.Throttle))
	s.Process.Read += tr.debt
	for range tr.workers {
		all.Go(func() { s.worker(ctx, &all, pass, tr) })
	}
	if tr.foreign == 0 {
		return
	}
	all.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			s.submit(0)
			if tr.ceaseless && n == 0 {
				continue
			}
			if tr.ceaseless {
				wait(tr.foreign)
			} else {
				wait(ms / 2)
			}
			s.arrive(4096)
			if !tr.ceaseless {
				wait(tr.foreign)
			}
		}
	})
}

func (s *street) worker(ctx context.Context, all *sync.WaitGroup, pass *iopolicy.Pass, tr traits) {
	const size = 128 << 10
	own := uint64(size)
	if tr.hidden {
		own = 0
	}
	for {
		grant, err := pass.Begin(ctx, iopolicy.Op{Kind: iopolicy.Read, Bytes: size, Certain: true})
		if err != nil {
			return
		}
		s.submit(own + tr.leak)
		if tr.ahead > 0 && grant.Max == 0 {
			s.submit(own / 8)
			all.Go(func() { wait(tr.ahead); s.arrive(size / 8) })
		}
		wait(2 * ms)
		s.arrive(size)
		grant.End(size)
	}
}

// local makes a street with a disk, and its gate.
func (s *street) local(t *testing.T, tr traits) *iopolicy.Gate {
	opt := Options{FS: "ext4", Interval: 5 * ms}
	if tr.hidden {
		opt.GapsOnly = "Another process reads the device for this one"
	}
	w, err := newWatcher(streetDisks{s}, opt, 1)
	require.NoError(t, err)
	return iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Medium: iopolicy.SSD, Watcher: w})
}

// TestHiddenProcessIsFoundInTime: whatever hides other processes, a job at full speed makes gaps, detects them there,
// and then yields for as long as they are there.
func TestHiddenProcessIsFoundInTime(t *testing.T) {
	for name, tr := range map[string]traits{
		"own pages from another disk":              {workers: 4, debt: 1 << 20, foreign: 10 * ms},
		"ever more of them":                        {workers: 4, leak: 64 << 10, foreign: 10 * ms},
		"ever more, and a disk that is never idle": {workers: 4, leak: 64 << 10, foreign: ms, ceaseless: true},
		"another process reads for this one":       {workers: 4, hidden: true, foreign: 10 * ms},
		"and never pauses":                         {workers: 4, hidden: true, foreign: ms, ceaseless: true},
		"and never pauses, and read-ahead is in the way": {workers: 4, hidden: true, ahead: 8 * ms, foreign: ms,
			ceaseless: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &street{}
				g := s.local(t, tr)
				s.works(g, tr, 15*sec)
				require.NotZero(t, g.Stats().Windows[0], "foreign I/O is detected within 15 s")
				before := g.Stats().Engaged
				s.works(g, tr, 15*sec)
				require.Greater(t, g.Stats().Engaged-before, 10*sec, "and from then on the job yields")
			})
		})
	}
}

// TestNoProcessIsSeenOnAnIdleDisk: a device that is busy for long with what own operations have asked for is not in use
// by others.
func TestNoProcessIsSeenOnAnIdleDisk(t *testing.T) {
	testkit.Slow(t)
	for name, tr := range map[string]traits{
		"plain":                              {workers: 4},
		"read-ahead":                         {workers: 4, ahead: 30 * ms},
		"slow read-ahead":                    {workers: 4, ahead: 90 * ms},
		"another process reads for this one": {workers: 4, hidden: true, ahead: 30 * ms},
		"another process reads for this one, slowly": {workers: 4, hidden: true, ahead: 90 * ms},
		"own reads elsewhere":                        {workers: 4, leak: 64 << 10, ahead: 30 * ms},
		"own reads elsewhere, and slow":              {workers: 4, leak: 64 << 10, ahead: 90 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &street{}
				g := s.local(t, tr)
				s.works(g, tr, 30*sec)
				require.Zero(t, g.Stats().Windows)
				full := uint64(4 * 30 * 500)
				require.Greater(t, g.Stats().Operations, full*94/100, "the gaps cost five in a hundred")
			})
		})
	}
}
