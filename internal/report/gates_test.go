package report

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// A gate may have been in use before the job began, for instance while the repository was made.
func TestGatesCountFromTheBeginningOfTheJob(t *testing.T) {
	now := time.Unix(0, 0)
	l := New(func() time.Time { return now })
	gate := Gate{Device: "sda", Held: 2 * time.Second, Engaged: 3 * time.Second, Charged: 7,
		Asleep: [iopolicy.Tiers]time.Duration{3: 2 * time.Second}}
	l.Gates(SinceNow(func() []Gate { return []Gate{gate} }))
	now = now.Add(time.Second)
	totals := l.Snapshot()
	require.False(t, totals.Slept(), "the job itself has not slept")
	at, _ := totals.StoodStill()
	require.Nil(t, at)
	gate.Held += 800 * time.Millisecond
	totals = l.Snapshot()
	_, share := totals.StoodStill()
	require.InDelta(t, 0.8, share, 1e-6)
	require.Zero(t, totals.Gates[0].Charged)
}

func TestGatesAreQueriedOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		require.Nil(t, l.Snapshot().Gates)
		asked := 0
		l.Gates(func() []Gate {
			asked++
			l.Policy("throttle") // the callback may use the ledger
			return []Gate{{Device: "sda", Charged: uint64(asked)}}
		})
		require.Zero(t, asked)
		require.Equal(t, uint64(1), l.Snapshot().Gates[0].Charged)
		require.Equal(t, uint64(2), l.Snapshot().Gates[0].Charged)
	})
}

func TestPolicyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		totals := l.Snapshot()
		require.Empty(t, totals.Policy())
		l.Policy("throttle")
		time.Sleep(32 * time.Second)
		l.Policy("throttle")
		before := l.Snapshot()
		l.Policy("important")
		totals = l.Snapshot()
		require.Equal(t, []PolicySpan{{"throttle", 0}, {"important", 32}}, totals.Policies)
		require.Equal(t, "throttle, then important after 32 s", totals.Policy())
		require.Equal(t, "throttle", before.Policy())
	})
}

// What auto begins with until the repository is open is not reported.
func TestAPolicyThatHeldForAMomentIsForgotten(t *testing.T) {
	for _, c := range []struct {
		name string
		say  []PolicySpan // when, in milliseconds
		want []PolicySpan
	}{
		{"first", []PolicySpan{{"throttle", 0}, {"utility", 249}}, []PolicySpan{{"utility", 0}}},
		{"long enough", []PolicySpan{{"throttle", 0}, {"utility", 250}}, []PolicySpan{{"throttle", 0}, {"utility", 250}}},
		{"between", []PolicySpan{{"throttle", 0}, {"utility", 500}, {"important", 600}},
			[]PolicySpan{{"throttle", 0}, {"important", 500}}},
		{"there and back", []PolicySpan{{"throttle", 0}, {"utility", 500}, {"throttle", 600}, {"important", 700}},
			[]PolicySpan{{"throttle", 0}, {"important", 700}}},
		{"said again", []PolicySpan{{"throttle", 0}, {"throttle", 100}, {"utility", 300}},
			[]PolicySpan{{"throttle", 0}, {"utility", 300}}},
		{"many", []PolicySpan{{"throttle", 0}, {"utility", 100}, {"standard", 200}, {"important", 249}},
			[]PolicySpan{{"important", 0}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, start := New(time.Now), time.Now()
			for _, p := range c.say {
				time.Sleep(time.Duration(p.Since)*time.Millisecond - time.Since(start))
				l.Policy(p.Policy)
			}
			for i := range c.want {
				c.want[i].Since /= 1000
			}
			require.Equal(t, c.want, l.Snapshot().Policies, c.name)
		})
	}
}

func TestStoodStill(t *testing.T) {
	totals := Totals{Elapsed: 10 * time.Second}
	g, _ := totals.StoodStill()
	require.Nil(t, g)
	totals.Gates = []Gate{{Device: "sda", Held: 4 * time.Second}, {Device: "sdb", Held: 5 * time.Second}}
	g, _ = totals.StoodStill()
	require.Nil(t, g, "half of the time is not more than half")
	totals.Gates[0].Held = 7 * time.Second
	g, share := totals.StoodStill()
	require.Equal(t, "sda", g.Device)
	require.InDelta(t, 0.7, share, 1e-9)
	totals.Gates[1].Held = time.Minute // of a gate that was opened before the job began
	g, share = totals.StoodStill()
	require.Equal(t, "sdb", g.Device)
	require.Equal(t, 1.0, share)
}

func TestWithout(t *testing.T) {
	totals := Totals{Elapsed: 49 * time.Second}
	without := func() time.Duration {
		took, ok := totals.Without()
		require.True(t, ok)
		return took
	}
	require.Equal(t, 49*time.Second, without())
	require.False(t, totals.Slept())
	totals.Gates = []Gate{{Held: 10 * time.Second}, {Held: 37 * time.Second}, {}}
	require.Equal(t, 12*time.Second, without())
	require.True(t, totals.Slept())
	totals.Gates[0].Held = time.Minute // of a gate that was opened before the job began
	_, ok := totals.Without()
	require.False(t, ok)
	totals.Gates[0].Held = 45 * time.Second
	_, ok = totals.Without()
	require.False(t, ok, "4 s of 49 s are nothing to rely on")
}

func TestYielded(t *testing.T) {
	for _, g := range []Gate{{Held: 1}, {Asleep: [iopolicy.Tiers]time.Duration{3: 1}}} {
		require.True(t, g.Yielded())
	}
	require.False(t, (&Gate{Engaged: 1, Windows: [iopolicy.Tiers]uint64{1}}).Yielded(), "no operation slept")
	// An important job opens windows for others and never yields itself.
	require.False(t, (&Gate{Windows: [iopolicy.Tiers]uint64{5}, Charged: 1}).Yielded())
}

func TestTextsOfAGate(t *testing.T) {
	g := Gate{Device: "sda", Medium: "ssd"}
	require.Equal(t, "other programs on sda (ssd)", g.Whom())
	g.Blamed = []Process{{PID: 1234, Name: "fio"}}
	require.Equal(t, "fio 1234 on sda (ssd)", g.Whom())
	require.Equal(t, "other programs on sda (ssd)", g.WhomNow(), "it has ended")
	g.Current = []Process{{PID: 77, Name: "tidemark-12", Peer: true}}
	require.Equal(t, "another tidemark (77) on sda (ssd)", g.WhomNow())
	require.Equal(t, "the kernel on sda", (&Gate{Device: "sda", Blamed: []Process{{Name: "the kernel"}}}).Whom())
	g.Blamed = append(g.Blamed, Process{}, Process{})
	g.Blamed[0].Name = "f\x1b[2J"
	require.Equal(t, `f\x1b[2J 1234 and 2 more on sda (ssd)`, g.Whom())
	require.Equal(t, "unknown device (medium unknown)", (&Gate{Medium: "unknown"}).Title())
	require.Equal(t, "sda (ssd)", g.Title())
	require.Equal(t, `//nas/\x07`, (&Gate{Device: "//nas/\a"}).Title())
	for s := iopolicy.Disengaged; s <= iopolicy.Waiting; s++ {
		require.NotEmpty(t, stateText(s))
		require.NotEmpty(t, StateKey(s))
	}
}

func TestGatesSince(t *testing.T) {
	earlier := []Gate{{
		Device: "sda", Charged: 5, Held: 1, Engaged: 2, Asleep: [iopolicy.Tiers]time.Duration{1, 2, 3, 4},
		Windows: [iopolicy.Tiers]uint64{1, 1, 1, 1},
	}}
	now := []Gate{
		{Device: "sdb", Charged: 7, Held: 3},
		{
			Device: "sda", Charged: 9, Held: 4, Engaged: 8, Asleep: [iopolicy.Tiers]time.Duration{2, 4, 6, 8},
			Windows: [iopolicy.Tiers]uint64{1, 2, 3, 4},
			State:   iopolicy.Waiting,
		},
	}
	require.Equal(t, []Gate{now[0], {
		Device: "sda", Charged: 4, Held: 3, Engaged: 6, Asleep: [iopolicy.Tiers]time.Duration{1, 2, 3, 4},
		Windows: [iopolicy.Tiers]uint64{0, 1, 2, 3},
		State:   iopolicy.Waiting,
	}}, GatesSince(now, earlier))
	require.Equal(t, uint64(9), now[1].Charged, "what was given is left as it is")
}

func TestStateIncludesGates(t *testing.T) {
	l := New(time.Now)
	l.Policy("utility")
	l.Gates(func() []Gate {
		return []Gate{
			{Device: "sda", Medium: "ssd", State: iopolicy.Waiting, Engaged: 1, Held: 37 * time.Second},
			{Device: "sdb", Medium: "hdd"},
		}
	})
	require.Contains(t, l.State(), "  I/O policy: utility\n"+
		"  sda (ssd): waiting; yielded for 37 s to other programs on sda (ssd)\n  sdb (hdd): full speed\n")
}
