package backup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup/reread"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// The window of a boot begins with the second-last run and ends with the boot.
func TestWindowOfABoot(t *testing.T) {
	at := func(h int) time.Time { return time.Unix(0, 0).Add(time.Duration(h) * time.Hour) }
	boot := func(id byte, h int) sysinfo.Boot { return sysinfo.Boot{ID: [16]byte{id}, At: at(h)} }
	const daily = 1000

	var s rereadState
	run := func(b sysinfo.Boot, h int) bool { return s.note(b, at(h), at(h), daily) }
	require.True(t, run(boot(1, 0), 100))
	require.False(t, s.Cut.pending(), "the first run knows of no earlier boot")
	require.False(t, s.note(boot(1, 0), at(100).Add(time.Minute), at(100), daily), "nothing to write for frequent runs")
	require.True(t, run(boot(1, 0), 124))
	require.False(t, s.Cut.pending())

	require.True(t, run(boot(2, 140), 148))
	require.Equal(t, bootState{Window: reread.Window{From: at(100), Until: at(140)}, Extra: 3 * daily, Ends: at(172)},
		s.Cut)

	s.Cut.After = []byte("half way")
	require.True(t, run(boot(2, 140), 171))
	require.EqualValues(t, 3*daily, s.Cut.Extra)
	run(boot(2, 140), 172)
	require.Zero(t, s.Cut.Extra, "it lapses")
	require.True(t, s.Cut.pending(), "the window does not")
	require.Equal(t, "half way", string(s.Cut.After))

	require.True(t, run(boot(3, 180), 181))
	require.Equal(t, reread.Window{From: at(100), Until: at(180)}, s.Cut.Window, "with the one that is not read yet")
	require.Empty(t, s.Cut.After)

	s.Cut = bootState{}
	require.True(t, run(sysinfo.Boot{}, 183), "a run is recorded without a boot")
	require.Equal(t, boot(3, 180), s.Boot, "and the boot of the run before stays")
	require.False(t, s.Cut.pending())
	require.True(t, run(sysinfo.Boot{ID: [16]byte{4}}, 185))
	require.Equal(t, reread.Window{From: at(181), Until: at(185)}, s.Cut.Window,
		"a boot at an unknown time ends at the run")

	s = rereadState{Boot: boot(1, 0), Runs: [2]time.Time{at(100)}}
	require.True(t, run(boot(2, 110), 120))
	require.Equal(t, reread.Window{From: at(76), Until: at(110)}, s.Cut.Window, "a day stands for an unknown earlier run")
}

// The extra budget is spent before the share that is due.
func TestExtraIsPaidFirst(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		spent, extra uint64
		paid         time.Duration // before now
	}{
		{spent: 0, extra: 300, paid: 10 * time.Hour},
		{spent: 200, extra: 100, paid: 10 * time.Hour},
		{spent: 350, extra: 0, paid: 5 * time.Hour},
		{spent: 400, extra: 0, paid: 0},
	} {
		s := share{now: now, state: rereadState{Paid: now.Add(-10 * time.Hour), Cut: bootState{Extra: 300}}}
		s.pay(c.spent, 100, 10*time.Hour)
		require.Equal(t, c.extra, s.state.Cut.Extra, "%d spent", c.spent)
		require.Equal(t, now.Add(-c.paid), s.state.Paid, "%d spent", c.spent)
	}
}
