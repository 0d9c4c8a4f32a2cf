package sysinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The ballast comes with the first collection, counts, and is not resident.
func TestBallastComesWithTheFirstCollection(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := LimitHeap(1 << 40)
	beside := debug.SetMemoryLimit(-1) - (1<<40 + ballastSize)
	require.Equal(t, int64(36<<20+runtime.NumCPU()*4<<20), beside, "stacks, and a compressor for each processor")
	require.Nil(t, b.pieces.Load())
	require.Eventually(t, func() bool {
		runtime.GC()
		return b.pieces.Load() != nil
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return debug.SetGCPercent(growth) == growth }, time.Minute, time.Millisecond)
	runtime.ReadMemStats(&after)
	const freed = 1 << 20 // garbage of other tests
	require.GreaterOrEqual(t, after.HeapAlloc+freed, before.HeapAlloc+ballastSize)
	runtime.KeepAlive(b)
}
