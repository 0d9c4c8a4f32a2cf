package foreign

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOwnRise(t *testing.T) {
	th := func(bytes ...uint64) map[int]uint64 {
		out := map[int]uint64{}
		for i, b := range bytes {
			out[10+i] = b
		}
		return out
	}
	old := usage{start: 5, total: 1000, threads: th(100, 200), faults: 7, settled: true, location: offDevice}
	for name, c := range map[string]struct {
		now   usage
		fresh bool
		want  uint64
	}{
		"a child was waited for": {now: usage{start: 5, total: 9000, threads: th(100, 200), faults: 8,
			settled: true}},
		"and it has moved something itself": {now: usage{start: 5, total: 9000, threads: th(130, 200), faults: 8,
			settled: true}, want: 30},
		"a thread ended": {now: usage{start: 5, total: 1500, threads: th(110), faults: 7,
			settled: true}, want: 500},
		"a thread and a child ended": {now: usage{start: 5, total: 1500, threads: th(110), faults: 8,
			settled: true}, want: 10},
		"a child was waited for meanwhile":    {now: usage{start: 5, total: 9000, threads: th(100, 207), faults: 7}, want: 7},
		"a thread has the number of another":  {now: usage{start: 5, total: 1500, threads: th(100, 20), faults: 8}, want: 20},
		"a process has the number of another": {now: usage{start: 6, total: 60, threads: th(60), settled: true}, want: 60},
		"it has just been born": {now: usage{start: 5, total: 70, threads: th(20), settled: true},
			fresh: true, want: 70},
		"and has waited for a child": {now: usage{start: 5, total: 70, threads: th(20), faults: 9, settled: true},
			fresh: true, want: 20},
		"cancelled writes": {now: usage{start: 5, total: 900, threads: th(100, 200), faults: 7,
			settled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			u := c.now
			if c.fresh {
				u.since(usage{}, false)
			} else {
				u.since(old, true)
			}
			require.Equal(t, c.want, u.rose)
			if !c.fresh && u.start == old.start {
				require.Equal(t, offDevice, u.location)
			}
		})
	}
}
