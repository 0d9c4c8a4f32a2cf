package output

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/speedtest"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func text(t *testing.T, r Record) string {
	t.Helper()
	var b show.Page
	r.Text(&b)
	return b.String()
}

func TestJobsAreATable(t *testing.T) {
	require.Equal(t, "no job of this user is running\n", text(t, Jobs(nil)))
	state := &event.Status{}
	state.Gates = []event.Gate{
		{Device: "sda", Medium: "ssd", State: "waiting", Asleep: [4]float64{3: 9000}, Held: 3723 * 0.62,
			Blamed: []report.Process{{PID: 42, Name: "fio\x1b"}, {PID: 43, Name: "make"}}},
		{Device: "//nas/share", Medium: "remote", State: "full_speed", Blamed: []report.Process{{PID: 42, Name: "fio"}}},
	}
	got := text(t, Jobs([]event.Job{
		{PID: 7, Policy: "throttle", Start: time.Now().Add(-3723 * time.Second), Status: state,
			Command: []string{"tidemark", "backup", "/home/a\x1b[2J"}},
		{PID: 31234, Policy: "utility", Start: time.Now(), Command: []string{"tidemark", "run", "make"}},
	}))
	lines := strings.Split(got, "\n")
	require.Regexp(t, `^ +PID  Policy +Running  Device +Now +Asleep +Command$`, lines[0])
	require.Regexp(t, `^ +7  throttle  01:02:0\d  sda \(ssd\) +waiting, for fio\S+ 42 and 1 more  62 %  +`+
		`tidemark backup /home/a`, lines[2])
	require.Regexp(t, `^ +//nas/share \(remote\)  full speed +never$`, lines[3])
	require.Regexp(t, `^31234  utility   00:00:0\d +tidemark run make$`, lines[4])
	require.NotContains(t, got, "\x1b", "a name cannot steer the terminal")
}

func TestChangesAreReported(t *testing.T) {
	change := event.PolicyChange{PID: 7, Was: "throttle", Policy: "important", Notes: []string{"nice stays 10"}}
	require.Equal(t, "process 7: important, it was throttle\n  nice stays 10\n", text(t, PolicyChange(change)))
	change.Was, change.Notes = "important", nil
	require.Equal(t, "process 7: important, as before\n", text(t, PolicyChange(change)))
}

func TestPolicyReadsLikeSysctl(t *testing.T) {
	list := []options.Effective{{Name: "lowpri_throttle_enabled", Value: "1", Origin: "default"}}
	require.Equal(t, "lowpri_throttle_enabled: 1\n", text(t, Policy(list, false)))
	withOrigin := text(t, Policy(list, true))
	require.Regexp(t, `^lowpri_throttle_enabled: 1 +# default\n$`, withOrigin)
	// What is printed can be loaded, with its origins as well.
	settings := iopolicy.DefaultSettings()
	settings.Enabled = false
	require.NoError(t, settings.Load(strings.NewReader(withOrigin)))
	require.Equal(t, iopolicy.DefaultSettings(), settings)
}

func TestMeasurementsHaveUnits(t *testing.T) {
	got := text(t, Measurement(&speedtest.Result{Policy: iopolicy.Utility, What: speedtest.Compress, Level: 2, CPUs: 2,
		Rate: 123.4e6, Spread: 0.06}, true, "", ""))
	require.Regexp(t, `^utility\n  compress, level 2 +2 processors +123\.40 MB/s  \+- 3 %\n$`, got)
	got = text(t, Measurement(&speedtest.Result{What: speedtest.ReadAtRandom, CPUs: 1, Rate: 999, OffDevice: true}, false,
		"vda", "ssd"))
	require.Regexp(t, `^  random 4 KiB read +vda \(ssd\) +999\S* reads/s  \+- 0 %  `+
		`\(from memory or another machine, not from a disk\)\n$`, got)
}
