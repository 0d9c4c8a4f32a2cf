package hdd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestArm(t *testing.T) {
	const size = 4 << 30
	start := time.Unix(1000, 0)
	a := newArm(Usual(size))
	end := a.serve(start, 0, 4096)
	require.Equal(t, end, a.free)

	// Reads in sequence take the time of the transfer, also when each is asked for a little after the last was done.
	from := end
	for i := range 100 {
		end = a.serve(end.Add(100*time.Microsecond), 4096+int64(i)<<20, 1<<20)
	}
	require.InEpsilon(t, 100*float64(1<<20)/120e6, end.Sub(from).Seconds(), 0.01)

	// A request for which the disk was idle begins when it comes.
	later := end.Add(time.Second)
	require.Greater(t, a.serve(later, a.at, 4096), later)

	// Random reads over an eighth of the disk.
	now := a.free
	from = now
	for i := range 1000 {
		now = a.serve(now, int64(i*7919%1000)*size/8000, 4096)
	}
	perSecond := 1000 / now.Sub(from).Seconds()
	require.InDelta(t, 105, perSecond, 25)
}

func TestSeek(t *testing.T) {
	a := newArm(Usual(1 << 30))
	require.Equal(t, 2*time.Millisecond, a.seek(0))
	require.Equal(t, 15*time.Millisecond, a.seek(1<<30))
	require.Equal(t, a.seek(1000000), a.seek(-1000000))
	require.Less(t, a.seek(1<<20), a.seek(1<<25))
	require.Equal(t, 15*time.Millisecond, a.seek(1<<40))
}
