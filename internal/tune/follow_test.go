package tune

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// live is a plant. Its counters grow with the clock.
type live struct {
	plant
	at      time.Time
	setting Setting
	sum     Counters
	applied []Setting
}

func (l *live) Counters() Counters {
	took := time.Since(l.at)
	l.at = time.Now()
	if l.setting == (Setting{}) {
		return l.sum
	}
	s := l.sample(l.setting)
	all := took.Seconds() * float64(l.setting.Compressors) * float64(time.Second)
	l.sum.Work += int64(s.Work * took.Seconds())
	l.sum.Starved += time.Duration(s.Starved * all)
	l.sum.Blocked += time.Duration(s.Blocked * all)
	l.sum.Busy += time.Duration(s.Busy * float64(took))
	return l.sum
}

func (l *live) Apply(s Setting, _ Sample) {
	l.setting = s
	l.applied = append(l.applied, s)
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &live{at: time.Now(), plant: plant{
			seek: 100e6, disk: 1e9, cpus: 2, line: 1e6, wire: 4e6, random: rand.New(rand.NewPCG(1, 1)),
		}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Minute, cancel)
		tuner := New(Setting{8, 2, 1, 2}, everything)
		Follow(ctx, tuner, l)
		require.Equal(t, l.setting, tuner.now)
		require.GreaterOrEqual(t, l.setting.Uploads, 4)
		require.Equal(t, 3, l.setting.Level)
	})
}

// TestBusyProcessorsSoon: a processor that is a fraction of one is found out in three seconds, not in three times the
// time that 64 MiB take it.
func TestBusyProcessorsSoon(t *testing.T) {
	for after, want := range map[time.Duration]int{2900 * time.Millisecond: 2, 3100 * time.Millisecond: 1} {
		synctest.Test(t, func(t *testing.T) {
			l := &live{at: time.Now(), plant: plant{
				seek: 100e6, disk: 1e9, cpus: 0.05, line: 1e9, wire: 1e9, random: rand.New(rand.NewPCG(1, 1)),
			}}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(after, cancel)
			Follow(ctx, New(Setting{8, 2, 2, 2}, everything), l)
			require.Equal(t, want, l.setting.Level, "after %v", after)
		})
	}
}

// TestShortRun: a run of a fraction of a second is left alone.
func TestShortRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &live{at: time.Now(), plant: plant{seek: 1e9, disk: 1e9, cpus: 2, line: 1e9, wire: 1e9,
			random: rand.New(rand.NewPCG(1, 1))}}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(400*time.Millisecond, cancel)
		Follow(ctx, New(Setting{8, 2, 1, 2}, everything), l)
		require.Len(t, l.applied, 1)
	})
}

func TestNothingMayChange(t *testing.T) {
	fixed := Setting{3, 2, 1, 0}
	l := &live{}
	Follow(t.Context(), New(fixed, Bounds{fixed, fixed}), l)
	require.Empty(t, l.applied)
}

// TestHeldBackIsNotIdle: processors that are busy whenever a gate lets I/O go on are the bottleneck.
func TestHeldBackIsNotIdle(t *testing.T) {
	for _, c := range []struct {
		busy, held time.Duration
		want       float64
	}{
		{900 * time.Millisecond, 0, 0.9},
		{450 * time.Millisecond, 500 * time.Millisecond, 0.9},
		{700 * time.Millisecond, 500 * time.Millisecond, 1}, // computed in gaps too
		{0, time.Second, 0},
		{20 * time.Millisecond, time.Second, 0.2}, // too little to say
		{50 * time.Millisecond, 2 * time.Second, 0.5},
	} {
		before := Counters{Work: 5, Busy: time.Hour, Held: time.Minute}
		now := Counters{Work: 105, Busy: before.Busy + c.busy, Held: before.Held + c.held}
		seen := now.since(&before, time.Second, 2)
		require.InDelta(t, c.want, seen.Busy, 1e-9, "%v busy, %v held", c.busy, c.held)
		require.InDelta(t, 100, seen.Work, 0)
	}
}
