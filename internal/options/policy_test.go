package options

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// defaults are the numbers that count where no option is given.
func defaults() iopolicy.Settings {
	s := iopolicy.DefaultSettings()
	s.MaxImpact = 0.05
	return s
}

func TestPolicyDefaults(t *testing.T) {
	io := machine{}.spec(t).IO()
	require.Equal(t, IO{Auto: true, Settings: defaults()}, io)
	require.Equal(t, iopolicy.Utility, io.Choose(FirstBackup))
	require.Equal(t, iopolicy.Throttle, io.Choose(LaterBackup))
	require.Equal(t, iopolicy.Important, io.Choose(Attended))

	io = machine{args: []string{"--policy=Standard", "--medium=HDD", "--blame"}}.spec(t).IO()
	require.Equal(t, IO{Policy: iopolicy.Standard, Medium: device.HDD, Settings: defaults(), Blame: true}, io)
	for _, use := range []Use{Attended, FirstBackup, LaterBackup} {
		require.Equal(t, iopolicy.Standard, io.Choose(use), "a policy that is named holds whatever the job")
	}
	for _, p := range []iopolicy.Policy{iopolicy.Important, iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle} {
		require.Equal(t, p, file("POLICY "+p.String()).spec(t).IO().Policy)
	}
}

// Every number of the settings is an option under the kernel's name, and what is given arrives in its field.
func TestEveryNumberOfThePolicy(t *testing.T) {
	want := map[string]func(*iopolicy.Settings){
		"lowpri_throttle_enabled 0":       func(s *iopolicy.Settings) { s.Enabled = false },
		"lowpri_throttle_max_iosize 8192": func(s *iopolicy.Settings) { s.MaxIOSize = 8192 },
	}
	for tier := 1; tier < iopolicy.Tiers; tier++ {
		prefix := "lowpri_throttle_tier" + string(rune('0'+tier))
		want[prefix+"_window_msecs 7"] = func(s *iopolicy.Settings) { s.Window[tier] = 7 * time.Millisecond }
		want[prefix+"_io_period_msecs 8"] = func(s *iopolicy.Settings) { s.PeriodHDD[tier] = 8 * time.Millisecond }
		want[prefix+"_io_period_ssd_msecs 9"] = func(s *iopolicy.Settings) { s.PeriodSSD[tier] = 9 * time.Millisecond }
	}
	count := 0
	for _, o := range Table() {
		if o.Sysctl != "" {
			count++
			require.Equal(t, strings.ReplaceAll(o.Sysctl, "_", "-"), o.Name)
			require.Equal(t, "TIDEMARK_"+strings.ToUpper(o.Sysctl), o.Env())
		}
	}
	require.Equal(t, len(want), count)
	require.Len(t, want, len(iopolicy.DefaultSettings().All()))
	for line, change := range want {
		settings := defaults()
		change(&settings)
		require.NotEqual(t, defaults(), settings)
		name, value, _ := strings.Cut(line, " ")
		for _, m := range []machine{
			file(line), file(strings.ToUpper(line)), file("debug." + line), file(name + ": " + value),
			file("debug." + name + ": " + value),
			{env: map[string]string{"TIDEMARK_" + strings.ToUpper(name): value}},
			{args: []string{"--" + strings.ReplaceAll(name, "_", "-") + "=" + value}},
		} {
			require.Equal(t, settings, m.spec(t).IO().Settings, line)
		}
	}
}

func TestPolicyListing(t *testing.T) {
	m := file("lowpri_throttle_tier3_window_msecs 750\nLOWPRI_THROTTLE_MAX_IOSIZE 64K\nMAXIMPACT 2.5\n")
	m.args = []string{"--lowpri-throttle-enabled=no", "--policy=utility"}
	m.env = map[string]string{"TIDEMARK_MEDIUM": "ssd"}
	rows := m.spec(t).Policy()
	const words = 5
	require.Len(t, rows, words+11)
	for _, want := range []Effective{
		{"policy", "utility", "--policy"},
		{"max-impact", "2.5%", "/etc/tidemark/tidemark.opt:3"},
		{"policy-by", "tidemark", "default"},
		{"medium", "ssd", "TIDEMARK_MEDIUM"},
		{"blame", "no", "default"},
		{"lowpri_throttle_enabled", "0", "--lowpri-throttle-enabled"},
		{"lowpri_throttle_max_iosize", "65536", "/etc/tidemark/tidemark.opt:2"},
		{"lowpri_throttle_tier3_window_msecs", "750", "/etc/tidemark/tidemark.opt:1"},
		{"lowpri_throttle_tier1_io_period_ssd_msecs", "5", "default"},
	} {
		require.Contains(t, rows, want)
	}
	// What is listed sets the same settings again, as the kernel's own viewer and setter do.
	again := iopolicy.DefaultSettings()
	again.MaxImpact = 0.025
	for _, row := range rows[words:] {
		require.NoError(t, again.Set(row.Name, row.Value))
	}
	require.Equal(t, m.spec(t).IO().Settings, again)
	var printed strings.Builder // as "policy show" does
	for _, row := range rows {
		printed.WriteString(row.Name + ": " + row.Value + "\n")
	}
	require.Equal(t, m.spec(t).IO(), file(printed.String()).spec(t).IO(), "what is printed is an option file")
}

func TestWrongPolicies(t *testing.T) {
	for text, want := range map[string]string{
		"POLICY passive": `:1: policy: malformed value: "passive" is none of auto, important, standard, ` +
			`utility, throttle`,
		"MAXIMPACT 101%":                `"101%" is not a percentage from 0 to 100, such as 5%`,
		"MAX-IMPACT no":                 `"no" is not a percentage`,
		"MEDIUM floppy":                 `"floppy" is none of auto, ssd, hdd, remote, memory`,
		"LOWPRI_THROTTLE_ENABLED 2":     `"2" is neither yes nor no`,
		"LOWPRI_THROTTLE_MAX_IOSIZE 1K": `lowpri_throttle_max_iosize cannot be "1024"; take a whole number from 4096 to`,
		"LOWPRI_THROTTLE_TIER3_WINDOW_MSECS " +
			"9000000": `lowpri_throttle_tier3_window_msecs cannot be "9000000"; take a whole number from 0 to`,
		"LOWPRI_THROTTLE_TIER3_WINDOW_MSECS -1":         `cannot be "-1"; take a whole number from 0 to`,
		"LOWPRI_THROTTLE_TIER1_IO_PERIOD_MSECS 5ms":     `"5ms" is not a whole number`,
		"LOWPRI_THROTTLE_TIER1_IO_PERIOD_SSD_MSECS ten": `"ten" is not a whole number`,
		"LOWPRI_THROTTLE_TIER4_WINDOW_MSECS 5":          `did you mean LOWPRI_THROTTLE_TIER`,
	} {
		_, _, err := file(text).resolve(t)
		require.ErrorContains(t, err, "/etc/tidemark/tidemark.opt:1: ", text)
		require.ErrorContains(t, err, want, text)
	}
	_, _, err := machine{args: []string{"--lowpri-throttle-max-iosize=8G"}}.resolve(t)
	require.ErrorIs(t, err, iopolicy.ErrSetting)
	require.ErrorContains(t, err, "--lowpri-throttle-max-iosize: ")
}

// The numbers are for experiments: they are hidden flags of every command.
func TestNumbersAreHidden(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Register(flags, GroupPolicy)
	for _, o := range Table() {
		if f := flags.Lookup(o.Name); o.Group == GroupPolicy {
			require.NotNil(t, f, o.Name)
			require.Equal(t, o.Sysctl != "", f.Hidden, o.Name)
		} else {
			require.Nil(t, f, o.Name)
		}
	}
}
