package priority

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// set returns a set of processors.
func set(all ...int) (s unix.CPUSet) {
	for _, i := range all {
		s.Set(i)
	}
	return s
}

// TestProcessorsInTheLeastUseAreChosen: what this process does itself does not drive it from a processor, and a small
// difference does not either.
func TestProcessorsInTheLeastUseAreChosen(t *testing.T) {
	const whole = time.Second
	for name, c := range map[string]struct {
		chosen unix.CPUSet
		used   []time.Duration // of 1 s, of each processor
		own    time.Duration   // of this process
		needed int
		want   unix.CPUSet
	}{
		"others on the second":             {set(), []time.Duration{whole / 9, whole}, 0, 1, set(0)},
		"others on the first":              {set(), []time.Duration{whole, whole / 9}, 0, 1, set(1)},
		"others come to the chosen one":    {set(0), []time.Duration{whole, whole / 9}, 0, 1, set(1)},
		"it is busy with its own work":     {set(0), []time.Duration{whole, whole / 9}, whole, 1, set(0)},
		"they differ little":               {set(1), []time.Duration{whole / 5, whole / 3}, 0, 1, set(1)},
		"two of four":                      {set(), []time.Duration{whole, whole / 9, whole / 2, whole / 3}, 0, 2, set(1, 3)},
		"one more is needed":               {set(2), []time.Duration{whole, whole / 3, whole / 2, 0}, 0, 2, set(2, 3)},
		"own work on two, others on both":  {set(0, 1), []time.Duration{whole, whole, 0, 0}, whole, 2, set(2, 3)},
		"own work on two, others on none":  {set(0, 1), []time.Duration{whole, whole, whole / 9, 0}, 2 * whole, 2, set(0, 1)},
		"all are equal, more than 64     ": {set(3), make([]time.Duration, 128), 0, 3, set(0, 1, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			p := Processors{chosen: c.chosen}
			p.last = use{at: time.Unix(101, 0), all: map[int]time.Duration{}, own: time.Hour + c.own}
			before := use{at: time.Unix(100, 0), all: map[int]time.Duration{}, own: time.Hour}
			for i, d := range c.used {
				p.allowed.Set(i)
				before.all[i], p.last.all[i] = time.Hour, time.Hour+d
			}
			require.Equal(t, c.want, p.choose(c.needed, before))
		})
	}
}

// affinities returns the sets of all threads of this process.
func affinities(t *testing.T) map[unix.CPUSet]int {
	tids, err := (&Process{pid: os.Getpid(), own: true}).threads()
	require.NoError(t, err)
	all := map[unix.CPUSet]int{}
	for _, tid := range tids {
		var s unix.CPUSet
		if unix.SchedGetaffinity(tid, &s) == nil {
			all[s]++
		}
	}
	return all
}

// narrow has p choose one processor by its use since the call before. The kernel counts 10 ms each.
func narrow(p *Processors) {
	time.Sleep(3 * statTick)
	p.Use(0.01)
}

// TestProcessorsOfAllThreads: all threads are moved, and get back what they had; a set from outside stays.
func TestProcessorsOfAllThreads(t *testing.T) {
	var all unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(os.Getpid(), &all))
	if all.Count() < 2 {
		t.Skip("needs two processors")
	}
	t.Cleanup(func() { assign(all) })
	var p Processors
	p.Use(0.01)
	require.Len(t, affinities(t), 1)
	require.Contains(t, affinities(t), all, "what others use is not known yet")
	narrow(&p)
	for s := range affinities(t) {
		require.Equal(t, 1, s.Count())
	}
	require.Len(t, affinities(t), 1)
	p.Use(1)
	require.Len(t, affinities(t), 1)
	require.Contains(t, affinities(t), all)

	narrow(&p)
	narrow(&p)
	outside := all
	for i := range len(all) * 64 {
		if p.chosen.IsSet(i) {
			outside.Clear(i)
		}
	}
	require.True(t, assign(outside)) // as taskset does
	p.Use(1)
	require.Contains(t, affinities(t), outside, "set by another program meanwhile")
}

// TestChildrenHaveAllProcessors: what is started while this process keeps to one processor has all of them.
func TestChildrenHaveAllProcessors(t *testing.T) {
	var all, now unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(os.Getpid(), &all))
	if all.Count() < 2 {
		t.Skip("needs two processors")
	}
	var p Processors
	t.Cleanup(func() { p.Use(1) })
	processorsOf := func(start func(func() error) error) int {
		cmd := exec.CommandContext(t.Context(), "cat")
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, start(cmd.Start))
		require.NoError(t, unix.SchedGetaffinity(cmd.Process.Pid, &now))
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
		return now.Count()
	}
	require.Equal(t, all.Count(), processorsOf(p.Start), "nothing was changed")
	narrow(&p)
	narrow(&p)
	require.Equal(t, 1, processorsOf(func(start func() error) error { return start() }))
	require.Equal(t, all.Count(), processorsOf(p.Start))
	require.Len(t, affinities(t), 1, "the process itself stays where it is")
	require.NotContains(t, affinities(t), all)
}

// TestUseOfProcessorsIsKnown: each processor has a figure, and the own work of the process is in their sum. A single
// figure may fall: the kernel corrects the time of waiting for a disk.
func TestUseOfProcessorsIsKnown(t *testing.T) {
	var all unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(os.Getpid(), &all))
	before := usedNow()
	now := before
	for now.own-before.own < 30*statTick { // work
		now = usedNow()
	}
	var sum time.Duration
	for i := range len(all) * 64 {
		if all.IsSet(i) {
			require.Contains(t, now.all, i)
			sum += now.all[i] - before.all[i]
		}
	}
	own := now.own - before.own
	require.Greater(t, sum, own/2)
}
