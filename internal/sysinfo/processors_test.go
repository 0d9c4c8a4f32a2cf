package sysinfo

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAtMost(t *testing.T) {
	n := float64(runtime.NumCPU())
	require.Equal(t, n, atMost(0, false))
	require.Equal(t, n, atMost(n+3, true), "a quota of more than there are")
	require.InDelta(t, 0.4, atMost(0.4, true), 0)
}

func TestWhole(t *testing.T) {
	for allowed, want := range map[float64]int{0.01: 1, 0.4: 1, 1: 1, 1.2: 2, 16: 16} {
		require.Equal(t, want, WholeCPUs(allowed), "%v", allowed)
	}
}

func TestUsed(t *testing.T) {
	before := CPUTime()
	sum := 0
	for end := before + time.Millisecond; CPUTime() < end; {
		for i := range 1000 {
			sum += i
		}
	}
	require.Positive(t, sum)
	require.Greater(t, CPUTime(), before)
}
