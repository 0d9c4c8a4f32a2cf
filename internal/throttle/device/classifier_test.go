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

// add adds n reads to a classifier.
func add(c *Classifier, n int, latency time.Duration, bytes int) {
	for range n {
		c.Add(latency, bytes)
	}
}

func weak(m Medium) *Classifier {
	return NewClassifier(Info{Medium: m, Weak: true, Why: "The data lies on vda."})
}

func TestClassification(t *testing.T) {
	for name, reads := range map[string]struct {
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
				c := weak(before)
				add(c, sampleWindow-1, reads.latency, reads.bytes)
				m, decided, why := c.Medium()
				require.Equal(t, before, m)
				require.False(t, decided)
				require.Equal(t, "The data lies on vda.", why)
				add(c, 1, reads.latency, reads.bytes)
				m, decided, why = c.Medium()
				require.Equal(t, reads.want, m)
				require.True(t, decided)
				require.Regexp(t, `^Random reads .* an arm: half of 32 took less than .*s, their transfer not counted\.$`, why)
			}
		})
	}
}

func TestReadsThatDoNotCount(t *testing.T) {
	c := weak(Unknown)
	for range 10 * sampleWindow {
		c.Add(50*us, largest+1)
		c.Add(50*us, 0)
		c.Add(0, 4<<10)
		c.Add(-1, 4<<10)
	}
	_, decided, _ := c.Medium()
	require.False(t, decided)
	add(c, sampleWindow, 50*us, largest) // quicker than its transfer was taken for
	m, decided, _ := c.Medium()
	require.True(t, decided)
	require.Equal(t, SSD, m)
}

// The rules of one window, counted: how many reads are fast, and how many wait for an arm.
func TestSampleWindows(t *testing.T) {
	for range 2000 {
		slow, middle := rand.IntN(sampleWindow+1), rand.IntN(sampleWindow+1)
		middle = min(middle, sampleWindow-slow)
		reads := slices.Concat(slices.Repeat([]time.Duration{6 * ms}, slow), slices.Repeat([]time.Duration{2 * ms}, middle),
			slices.Repeat([]time.Duration{100 * us}, sampleWindow-slow-middle))
		rand.Shuffle(len(reads), func(a, b int) { reads[a], reads[b] = reads[b], reads[a] })
		c := weak(Unknown)
		for _, latency := range reads {
			c.Add(latency, 4<<10)
		}
		m, decided, _ := c.Medium()
		switch quick := sampleWindow - slow - middle; {
		case quick <= sampleWindow/2:
			require.True(t, decided)
			require.Equal(t, HDD, m, "%d slow, %d middling", slow, middle)
		case slow > sampleWindow/4:
			require.False(t, decided, "%d slow, %d middling", slow, middle)
		default:
			require.True(t, decided)
			require.Equal(t, SSD, m, "%d slow, %d middling", slow, middle)
		}
	}
}

func TestHysteresis(t *testing.T) {
	for first, second := range map[time.Duration]time.Duration{50 * us: 9 * ms, 9 * ms: 50 * us} {
		c := weak(HDD)
		add(c, sampleWindow, first, 4<<10)
		before, decided, _ := c.Medium()
		require.True(t, decided)
		add(c, (hysteresis-1)*sampleWindow, second, 4<<10)
		add(c, sampleWindow, first, 4<<10) // one that agrees: they must be in a row
		add(c, hysteresis*sampleWindow-1, second, 4<<10)
		m, _, _ := c.Medium()
		require.Equal(t, before, m)
		add(c, 1, second, 4<<10)
		m, decided, _ = c.Medium()
		require.True(t, decided)
		require.NotEqual(t, before, m)
	}
}

func TestStrongEvidenceStands(t *testing.T) {
	for _, info := range []Info{
		{Medium: SSD, Why: "a"}, {Medium: HDD, Why: "b"}, {Medium: Remote, Why: "c"}, {Medium: Memory},
		{Medium: Unknown, Why: "d"},
	} {
		c := NewClassifier(info)
		add(c, 10*sampleWindow, 9*ms, 4<<10)
		add(c, 10*sampleWindow, 9*us, 4<<10)
		m, decided, why := c.Medium()
		require.Equal(t, info.Medium, m)
		require.Equal(t, info.Medium != Unknown, decided)
		require.Equal(t, info.Why, why)
	}
}

func TestClassifierConcurrently(t *testing.T) {
	c := weak(Unknown)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 4 * sampleWindow {
				c.Add(80*us, 4<<10)
				if m, decided, why := c.Medium(); decided && (m != SSD || why == "") {
					t.Error("a decision without a medium or a reason")
				}
			}
		})
	}
	all.Wait()
	m, decided, _ := c.Medium()
	require.True(t, decided)
	require.Equal(t, SSD, m)
}
