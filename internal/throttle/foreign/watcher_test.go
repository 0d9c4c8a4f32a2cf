package foreign

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

func wait(d time.Duration) { time.Sleep(d) }

func TestBlindWatcher(t *testing.T) {
	for _, info := range []device.Info{{Medium: device.Memory}, {Medium: device.SSD, FS: "ext4"},
		{Medium: device.Remote, FS: "9p"}} {
		w := Watch(info, Options{})
		mode, why := w.Mode()
		require.Equal(t, diskwatch.Blind, mode)
		require.NotEmpty(t, why)
		require.Zero(t, w.Look(iopolicy.Moment{At: time.Now()}))
		every, _ := w.NeedsGaps()
		require.Zero(t, every)
		require.Positive(t, w.Interval())
		w.Close()
	}
}

// share is a mount behind a gate, as its counters show it.
type share struct {
	mu    sync.Mutex
	moved traffic
}

func (s *share) mount() (traffic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved, nil
}

func (s *share) arrive(bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved.read += bytes
	s.moved.ops++
}

// worker reads through the gate, with read-ahead that outlives an operation.
func (s *share) worker(ctx context.Context, all *sync.WaitGroup, pass *iopolicy.Pass, ahead time.Duration) {
	const size = 128 << 10
	for {
		grant, err := pass.Begin(ctx, iopolicy.Op{Kind: iopolicy.Read, Bytes: size, Certain: true})
		if err != nil {
			return
		}
		if ahead > 0 && grant.Max == 0 {
			all.Go(func() { wait(ahead); s.arrive(size / 8) })
		}
		wait(2 * ms)
		s.arrive(size)
		grant.End(size)
	}
}

// TestOthersOnAMountAreSeenInGaps: what moves on a mount while nothing of our own is under way.
func TestOthersOnAMountAreSeenInGaps(t *testing.T) {
	for name, tt := range map[string]struct{ foreign, ahead time.Duration }{
		"another program": {foreign: 150*ms + ms/2}, // no divisor of the time between gaps
		"read-ahead":      {ahead: 90 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &share{}
				j, err := newMountDetector(s.mount, func() {})
				require.NoError(t, err)
				g := iopolicy.New(iopolicy.Config{
					Settings: iopolicy.DefaultSettings(), Medium: iopolicy.SSD,
					Watcher: &Watcher{interval: 50 * ms, counters: j},
				})
				ctx, cancel := context.WithTimeout(t.Context(), 30*sec)
				defer cancel()
				var all sync.WaitGroup
				defer all.Wait()
				pass := g.Pass(iopolicy.NewClient(iopolicy.Throttle))
				for range 4 {
					all.Go(func() { s.worker(ctx, &all, pass, tt.ahead) })
				}
				for ctx.Err() == nil {
					wait(max(tt.foreign, 10*ms))
					if tt.foreign != 0 {
						s.arrive(4096)
					}
				}
				require.Equal(t, tt.foreign != 0, g.Stats().Windows[0] > 0)
			})
		})
	}
}
