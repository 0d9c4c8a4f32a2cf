package device

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// hear tells a judge of n random reads.
func hear(j *Judge, n int, latency time.Duration, bytes int) {
	for range n {
		j.Note(latency, bytes, false)
	}
}

func weak(m Medium) *Judge {
	return NewJudge(Info{Medium: m, Weak: true, Why: "The data lies on vda."})
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		latency time.Duration
		bytes   int
		want    Medium
	}{
		"virtio on flash":        {51 * us, 4 << 10, SSD},
		"flash behind USB 2":     {900 * us, 16 << 10, SSD},
		"just in time":           {1500*us - 1 + 4096*10, 4 << 10, SSD},
		"just too late":          {1500*us + 4096*10, 4 << 10, HDD},
		"an arm":                 {8 * ms, 4 << 10, HDD},
		"a fast arm, large read": {5 * ms, 128 << 10, HDD},
		"flash, large read":      {2800 * us, 128 << 10, SSD},
		"slower than its bytes":  {2900 * us, 128 << 10, HDD},
	} {
		t.Run(name, func(t *testing.T) {
			for _, before := range []Medium{Unknown, HDD} {
				j := weak(before)
				hear(j, panel-1, c.latency, c.bytes)
				m, decided, why := j.Medium()
				require.Equal(t, before, m)
				require.False(t, decided)
				require.Equal(t, "The data lies on vda.", why)
				hear(j, 1, c.latency, c.bytes)
				m, decided, why = j.Medium()
				require.Equal(t, c.want, m)
				require.True(t, decided)
				require.Regexp(t, `^Random reads .* an arm: half of 32 took less than .*s, their transfer not counted\.$`, why)
			}
		})
	}
}

func TestReadsThatDoNotCount(t *testing.T) {
	j := weak(Unknown)
	for range 10 * panel {
		j.Note(50*us, 4<<10, true)
		j.Note(50*us, largest+1, false)
		j.Note(50*us, 0, false)
		j.Note(0, 4<<10, false)
		j.Note(-1, 4<<10, false)
	}
	_, decided, _ := j.Medium()
	require.False(t, decided)
	hear(j, panel, 50*us, largest) // quicker than its transfer was taken for
	m, decided, _ := j.Medium()
	require.True(t, decided)
	require.Equal(t, SSD, m)
}

// The rules for one panel, in other words: how many are quick, and how many wait for an arm.
func TestPanels(t *testing.T) {
	for range 2000 {
		slow, middle := rand.IntN(panel+1), rand.IntN(panel+1)
		middle = min(middle, panel-slow)
		reads := slices.Concat(slices.Repeat([]time.Duration{6 * ms}, slow), slices.Repeat([]time.Duration{2 * ms}, middle),
			slices.Repeat([]time.Duration{100 * us}, panel-slow-middle))
		rand.Shuffle(len(reads), func(a, b int) { reads[a], reads[b] = reads[b], reads[a] })
		j := weak(Unknown)
		for _, latency := range reads {
			j.Note(latency, 4<<10, false)
		}
		m, decided, _ := j.Medium()
		switch quick := panel - slow - middle; {
		case quick <= panel/2:
			require.True(t, decided)
			require.Equal(t, HDD, m, "%d slow, %d middling", slow, middle)
		case slow > panel/4:
			require.False(t, decided, "%d slow, %d middling", slow, middle)
		default:
			require.True(t, decided)
			require.Equal(t, SSD, m, "%d slow, %d middling", slow, middle)
		}
	}
}

func TestAppeal(t *testing.T) {
	for first, second := range map[time.Duration]time.Duration{50 * us: 9 * ms, 9 * ms: 50 * us} {
		j := weak(HDD)
		hear(j, panel, first, 4<<10)
		before, decided, _ := j.Medium()
		require.True(t, decided)
		hear(j, (appeal-1)*panel, second, 4<<10)
		hear(j, panel, first, 4<<10) // one that agrees: they must be in a row
		hear(j, appeal*panel-1, second, 4<<10)
		m, _, _ := j.Medium()
		require.Equal(t, before, m)
		hear(j, 1, second, 4<<10)
		m, decided, _ = j.Medium()
		require.True(t, decided)
		require.NotEqual(t, before, m)
	}
}

func TestNothingToJudge(t *testing.T) {
	for _, info := range []Info{
		{Medium: SSD, Why: "a"}, {Medium: HDD, Why: "b"}, {Medium: Remote, Why: "c"}, {Medium: Memory}, {Medium: Unknown, Why: "d"},
	} {
		j := NewJudge(info)
		hear(j, 10*panel, 9*ms, 4<<10)
		hear(j, 10*panel, 9*us, 4<<10)
		m, decided, why := j.Medium()
		require.Equal(t, info.Medium, m)
		require.Equal(t, info.Medium != Unknown, decided)
		require.Equal(t, info.Why, why)
	}
}

func TestJudgeTogether(t *testing.T) {
	j := weak(Unknown)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 4 * panel {
				j.Note(80*us, 4<<10, false)
				if m, decided, why := j.Medium(); decided && (m != SSD || why == "") {
					t.Error("half a verdict")
				}
			}
		})
	}
	all.Wait()
	m, decided, _ := j.Medium()
	require.True(t, decided)
	require.Equal(t, SSD, m)
}

func BenchmarkNote(b *testing.B) {
	j := weak(Unknown)
	for b.Loop() {
		j.Note(80*us, 4<<10, false)
	}
}

func BenchmarkVerdict(b *testing.B) {
	j := weak(Unknown)
	for b.Loop() {
		j.Medium()
	}
}
