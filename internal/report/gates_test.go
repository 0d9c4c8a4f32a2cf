package report

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGatesAreAskedWhenSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		require.Nil(t, l.Snapshot().Gates)
		asked := 0
		l.Gates(func() []Gate {
			asked++
			l.Policy("throttle") // whoever answers may use the ledger
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
		require.Equal(t, []PolicySpan{{"throttle", 0}, {"important", 32 * time.Second}}, totals.Policies)
		require.Equal(t, "throttle, then important after 32 s", totals.Policy())
		require.Equal(t, "throttle", before.Policy())
	})
}

// What auto begins with until the repository is open is not worth telling.
func TestAPolicyThatHeldForAMomentIsForgotten(t *testing.T) {
	for _, c := range []struct {
		name string
		say  []PolicySpan // when
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
				time.Sleep(p.Since*time.Millisecond - time.Since(start))
				l.Policy(p.Policy)
			}
			for i := range c.want {
				c.want[i].Since *= time.Millisecond
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
	require.False(t, totals.GaveWay())
	totals.Gates = []Gate{{Held: 10 * time.Second}, {Held: 37 * time.Second}, {}}
	require.Equal(t, 12*time.Second, without())
	require.True(t, totals.GaveWay())
	totals.Gates[0].Held = time.Minute // of a gate that was opened before the job began
	_, ok := totals.Without()
	require.False(t, ok)
	totals.Gates[0].Held = 45 * time.Second
	_, ok = totals.Without()
	require.False(t, ok, "4 s of 49 s are nothing to rely on")
}

func TestGaveWay(t *testing.T) {
	for _, g := range []Gate{{Held: 1}, {Asleep: TierTimes{3: 1}}} {
		require.True(t, g.GaveWay())
	}
	require.False(t, (&Gate{Engaged: 1, Windows: [Tiers]uint64{1}}).GaveWay(), "nobody slept")
	// An important job opens windows for others and never gives way itself.
	require.False(t, (&Gate{Windows: [Tiers]uint64{5}, Charged: 1}).GaveWay())
}

func TestTextsOfAGate(t *testing.T) {
	g := Gate{Device: "sda", Medium: "ssd"}
	require.Equal(t, "others on sda", g.Others())
	require.Equal(t, "never asleep", g.Asleep.String())
	g.Blamed = []Culprit{{PID: 1234, Name: "fio"}}
	require.Equal(t, "others on sda (fio 1234)", g.Others())
	require.Equal(t, "others on sda (the kernel)", (&Gate{Device: "sda", Blamed: []Culprit{{Name: "the kernel"}}}).Others())
	g.Blamed = append(g.Blamed, Culprit{}, Culprit{})
	g.Blamed[0].Name = "f\x1b[2J"
	require.Equal(t, `others on sda (f\x1b[2J 1234 and 2 more)`, g.Others())
	g.Asleep = TierTimes{2: 1200 * time.Millisecond, 3: 37 * time.Second}
	require.Equal(t, "37 s asleep at tier 3, 1.2 s at tier 2", g.Asleep.String())
	require.Equal(t, "sda (ssd)", g.Title())
	require.Equal(t, `//nas/\x07`, (&Gate{Device: "//nas/\a"}).Title())
	for s := FullSpeed; s <= Waiting; s++ {
		require.NotContains(t, s.String(), "unknown")
		require.NotEqual(t, "unknown", s.Key())
	}
	require.Equal(t, "unknown", (Waiting + 1).Key())
}

func TestGatesSince(t *testing.T) {
	earlier := []Gate{{
		Device: "sda", Charged: 5, Held: 1, Engaged: 2, Asleep: TierTimes{1, 2, 3, 4}, Windows: [Tiers]uint64{1, 1, 1, 1},
	}}
	now := []Gate{
		{Device: "sdb", Charged: 7, Held: 3},
		{
			Device: "sda", Charged: 9, Held: 4, Engaged: 8, Asleep: TierTimes{2, 4, 6, 8}, Windows: [Tiers]uint64{1, 2, 3, 4},
			State: Waiting,
		},
	}
	require.Equal(t, []Gate{now[0], {
		Device: "sda", Charged: 4, Held: 3, Engaged: 6, Asleep: TierTimes{1, 2, 3, 4}, Windows: [Tiers]uint64{0, 1, 2, 3},
		State: Waiting,
	}}, GatesSince(now, earlier))
	require.Equal(t, uint64(9), now[1].Charged, "what was given is left as it is")
}

func TestStateTellsOfGates(t *testing.T) {
	l := New(time.Now)
	l.Policy("utility")
	l.Gates(func() []Gate {
		return []Gate{
			{Device: "sda", Medium: "ssd", State: Waiting, Engaged: 1, Asleep: TierTimes{2: 37 * time.Second}},
			{Device: "sdb", Medium: "hdd"},
		}
	})
	var b strings.Builder
	require.NoError(t, l.WriteState(&b))
	require.NotContains(t, b.String(), "held up")
	require.Contains(t, b.String(), "  I/O policy: utility\n"+
		"  sda (ssd): waiting; gave way to others on sda: 37 s asleep at tier 2\n  sdb (hdd): full speed\n")
}
