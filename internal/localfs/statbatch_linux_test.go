package localfs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// some calls LstatBatch and returns its results.
func some(d *Dir, names []string, l *StatBatch) (stats []Stat, errs []error, rounds int) {
	for len(names) > 0 {
		n := d.LstatBatch("", names, l)
		stats, errs = append(stats, l.Stats[:n]...), append(errs, l.Errs[:n]...)
		names = names[n:]
		rounds++
	}
	return stats, errs, rounds
}

// LstatBatch returns what Lstat returns, and each stat counts as an operation.
func TestLstatBatchIsLstat(t *testing.T) {
	path := t.TempDir()
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint(i))
		if i%7 != 0 {
			write(t, path+"/"+names[i], "content"[:i%7])
		}
	}
	names = append(names, "..", "a/b", "", "nul\x00", ".")
	d, gate := gated(t, t.Context(), path, iopolicy.Standard)
	check := func(l *StatBatch) (rounds int) {
		before := gate.Stats().Operations
		stats, errs, rounds := some(d, names, l)
		require.EqualValues(t, len(names), gate.Stats().Operations-before)
		for i, name := range names {
			var st Stat
			err := d.Lstat(name, &st)
			if err != nil {
				require.EqualError(t, errs[i], err.Error())
				continue
			}
			require.NoError(t, errs[i])
			require.Equal(t, st, stats[i])
		}
		return rounds
	}
	l := &StatBatch{}
	require.LessOrEqual(t, check(l), len(names))
	stop := foreground(t, gate)
	require.Equal(t, len(names), check(l), "each by itself")
	stop()
}

// As long as a cache answers, as many stats as possible form one operation.
func TestLstatBatchSharesOperations(t *testing.T) {
	path := t.TempDir()
	var names []string
	for i := range 31 + 3*MaxStatBatch {
		names = append(names, fmt.Sprint(i))
		write(t, path+"/"+names[i], "x")
	}
	d, gate := gated(t, t.Context(), path, iopolicy.Important)
	before := gate.Stats().Operations
	_, _, rounds := some(d, names, &StatBatch{})
	require.Equal(t, 5+3, rounds) // of 1, 2, 4, 8 and 16, and three of 16
	require.EqualValues(t, len(names), gate.Stats().Operations-before)
	l := &StatBatch{}
	require.Zero(t, testing.AllocsPerRun(100, func() { d.LstatBatch("", names, l) }))
}
