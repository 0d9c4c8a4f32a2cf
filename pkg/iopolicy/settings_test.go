package iopolicy_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestDefaultSettings(t *testing.T) {
	require.Equal(t, `lowpri_throttle_enabled: 1
lowpri_throttle_max_iosize: 131072
lowpri_throttle_tier1_window_msecs: 25
lowpri_throttle_tier1_io_period_msecs: 40
lowpri_throttle_tier1_io_period_ssd_msecs: 5
lowpri_throttle_tier2_window_msecs: 100
lowpri_throttle_tier2_io_period_msecs: 85
lowpri_throttle_tier2_io_period_ssd_msecs: 15
lowpri_throttle_tier3_window_msecs: 500
lowpri_throttle_tier3_io_period_msecs: 200
lowpri_throttle_tier3_io_period_ssd_msecs: 25
`, iopolicy.DefaultSettings().String())
	require.NoError(t, iopolicy.DefaultSettings().Validate())
	for _, s := range iopolicy.DefaultSettings().All() {
		require.NotEmpty(t, s.Help, s.Name)
	}
}

func TestSet(t *testing.T) {
	s := iopolicy.DefaultSettings()
	require.NoError(t, s.Set("debug.lowpri_throttle_tier3_window_msecs", " 750 "))
	require.NoError(t, s.Set("lowpri_throttle_tier2_io_period_msecs", "0"))
	require.NoError(t, s.Set("lowpri_throttle_tier1_io_period_ssd_msecs", "1"))
	require.NoError(t, s.Set("lowpri_throttle_enabled", "0"))
	require.NoError(t, s.Set("lowpri_throttle_max_iosize", "262144"))
	want := iopolicy.DefaultSettings()
	want.Enabled, want.MaxIOSize = false, 256<<10
	want.Window[3], want.PeriodHDD[2], want.PeriodSSD[1] = 750*time.Millisecond, 0, time.Millisecond
	require.Equal(t, want, s)
	for _, bad := range [][3]string{
		{"lowpri_throttle_enabled", "2", "from 0 to 1"},
		{"lowpri_throttle_enabled", "yes", "whole number"},
		{"lowpri_throttle_max_iosize", "0", "from 4096 to 16777216 (bytes)"},
		{"lowpri_throttle_max_iosize", "128k", "whole number"},
		{"lowpri_throttle_tier3_window_msecs", "-1", `cannot be "-1"`},
		{"lowpri_throttle_tier3_window_msecs", "600001", "to 600000 (milliseconds)"},
		{"lowpri_throttle_tier3_window_msecs", "500ms", "whole number"},
		{"lowpri_throttle_tier1_io_period_msecs", "60001", "to 60000"},
		{"lowpri_throttle_tier1_io_period_msecs", "99999999999999999999", "whole number"},
		{"lowpri_throttle_tier1_io_period_msecs", "", "whole number"},
		{"lowpri_throttle_tier0_window_msecs", "1", "there are lowpri_throttle_enabled, "},
		{"lowpri_throttle_tier4_window_msecs", "1", "no setting"},
		{"", "1", "no setting"},
	} {
		err := s.Set(bad[0], bad[1])
		require.ErrorIs(t, err, iopolicy.ErrSetting)
		require.ErrorContains(t, err, bad[2])
		require.Equal(t, want, s, "%v", bad)
	}
}

func TestValidate(t *testing.T) {
	s := iopolicy.DefaultSettings()
	s.Window[2] = -time.Millisecond
	require.ErrorContains(t, s.Validate(), "lowpri_throttle_tier2_window_msecs is -1")
	s = iopolicy.DefaultSettings()
	s.PeriodSSD[1] = 1500 * time.Microsecond
	require.ErrorIs(t, s.Validate(), iopolicy.ErrSetting)
	require.ErrorContains(t, s.Validate(), "1.5ms for tier 1")
	require.Error(t, iopolicy.Settings{Enabled: true}.Validate())
}

func TestLoad(t *testing.T) {
	s := iopolicy.DefaultSettings()
	require.NoError(t, s.Load(strings.NewReader(`
# as sysctl prints it
debug.lowpri_throttle_tier1_window_msecs: 26 # a little more
  lowpri_throttle_tier2_window_msecs=101
lowpri_throttle_tier2_window_msecs = 102`)))
	require.Equal(t, 26*time.Millisecond, s.Window[1])
	require.Equal(t, 102*time.Millisecond, s.Window[2])
	before := s
	for text, want := range map[string]string{
		"lowpri_throttle_enabled: 0\n\nnonsense": `line 3: not a setting of the I/O policy: "nonsense"; write "name: value"`,
		"lowpri_throttle_enabled: 0\nno_such: " +
			"1": `line 2: not a setting of the I/O policy: no setting is called "no_such"`,
		"lowpri_throttle_enabled: 0\n" + strings.Repeat("a", 1<<17): "read settings",
	} {
		require.ErrorContains(t, s.Load(strings.NewReader(text)), want)
		require.Equal(t, before, s, "nothing changes on an error")
	}
	require.ErrorIs(t, s.Load(iotest.ErrReader(iotest.ErrTimeout)), iotest.ErrTimeout)
}

// TestPrintedSettingsReadBack: whatever can be set can be printed and read back, over whatever was there before.
func TestPrintedSettingsReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most+1)) * time.Millisecond }
	random := func() iopolicy.Settings {
		s := iopolicy.Settings{Enabled: r.IntN(2) == 0, MaxIOSize: 4096 + r.IntN(16<<20-4096+1)}
		for t := 1; t < iopolicy.Tiers; t++ {
			s.Window[t], s.PeriodHDD[t], s.PeriodSSD[t] = ms(600_000), ms(60_000), ms(60_000)
		}
		return s
	}
	for range 1000 {
		want, got := random(), random()
		require.NoError(t, want.Validate())
		require.NoError(t, got.Load(strings.NewReader(want.String())))
		require.Equal(t, want, got)
		got = random()
		require.NoError(t, got.Load(strings.NewReader(strings.ReplaceAll(want.String(), ": ", "="))))
		require.Equal(t, want, got)
	}
}

func TestPolicies(t *testing.T) {
	tiers := map[iopolicy.Policy]iopolicy.Tier{
		iopolicy.Important: 0, iopolicy.Standard: 1, iopolicy.Utility: 2, iopolicy.Throttle: 3, iopolicy.Passive: 0,
	}
	for p, tier := range tiers {
		require.Equal(t, tier, p.Tier())
		for _, word := range []string{p.String(), strings.ToUpper(p.String())} {
			got, err := iopolicy.ParsePolicy(word)
			require.NoError(t, err)
			require.Equal(t, p, got)
		}
	}
	_, err := iopolicy.ParsePolicy("idle")
	require.ErrorIs(t, err, iopolicy.ErrPolicy)
	require.Equal(t, "policy 9", iopolicy.Policy(9).String())
	require.Zero(t, iopolicy.Policy(9).Tier())
}
