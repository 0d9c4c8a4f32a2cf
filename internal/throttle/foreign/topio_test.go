package foreign

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// fakeTable is processes that a test makes up, with what each has moved since the last scan.
type fakeTable struct {
	rose   map[int]usage
	places map[int]location
}

func (v *fakeTable) scan(before map[int]usage) map[int]usage {
	out := maps.Clone(v.rose)
	for pid, u := range out {
		u.location = before[pid].location
		out[pid] = u
	}
	return out
}

func (v *fakeTable) where(pid int, _ OnDevice) location { return v.places[pid] }
func (v *fakeTable) name(pid int) string {
	return []string{"?", "init", "fio", "tidemark", "rsync"}[pid]
}

func anyDevice(uint64) (here, known bool) { return false, false }

func TestBlame(t *testing.T) {
	b := topProcesses{onDevice: anyDevice}
	v := &fakeTable{}
	ask := func(foreignBytes uint64, rose map[int]usage, places map[int]location) []report.Process {
		v.rose, v.places = rose, places
		return b.update(foreignBytes, v)
	}
	fio := report.Process{PID: 2, Name: "fio", Bytes: 900}
	busy := map[int]usage{1: {}, 2: {rose: 900}, 3: {rose: 93}, 90: {rose: 400, kernel: true}}
	require.Empty(t, ask(500, busy, nil), "the first only begins")
	require.Equal(t, []report.Process{
		{Name: unnamed, Bytes: 5000 - 900 - 93 - 400}, fio, {Name: kernel, Bytes: 400},
		{PID: 3, Name: "tidemark", Bytes: 93},
	}, ask(5500, busy, nil))

	// Less was seen at the device: then the kernel's bytes are those of the others once more.
	require.Equal(t, []report.Process{fio, {Name: kernel, Bytes: 50}},
		ask(6450, map[int]usage{2: {rose: 900}, 90: {rose: 400, kernel: true}}, nil))

	// A process marked offDevice does not count towards maxNamed until it opens something here. A process with nothing
	// open stays as it was.
	moved := map[int]usage{2: {rose: 900}, 4: {rose: 5000}}
	require.Equal(t, []report.Process{fio}, ask(6450, moved, map[int]location{2: onDevice, 4: offDevice}))
	require.Equal(t, []report.Process{fio}, ask(6450, moved, nil))
	require.Equal(t, []report.Process{{PID: 4, Name: "rsync", Bytes: 5000}},
		ask(6450, moved, map[int]location{2: offDevice, 4: onDevice}))
	require.Empty(t, ask(6450, map[int]usage{4: {}}, nil))
}

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
