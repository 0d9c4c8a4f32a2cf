package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// backupRun is a run with a backup that yielded for 20 of 80 seconds, and a check.
func backupRun() *event.Run {
	steps := []event.RunStep{
		{Step: "backup", Start: noon().Add(-time.Minute), End: noon(),
			Summary: json.RawMessage(`{"message_type":"summary","total_files_processed":1234,` +
				`"data_added_packed":120,"total_duration":80,"seconds_without_yielding":60,"bytes":{"read":5600}}`)},
		{Step: "check", Start: noon(), End: noon().Add(time.Second)},
	}
	return &event.Run{Job: "home", Outcome: record.Done, Start: noon().Add(-time.Minute),
		End: noon().Add(2 * time.Second), Steps: steps}
}

// values parses the text format into values by name, of job home, and fails for other labels.
func values(t *testing.T, text io.Reader) map[string]float64 {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(text)
	require.NoError(t, err)
	all := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			if len(m.Label) == 1 && m.Label[0].GetName() == "job" && m.Label[0].GetValue() == "home" {
				all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return all
}

func TestMetricsFollowTheConventions(t *testing.T) {
	m := NewMetrics(MetricsConfig{}, []event.Run{*backupRun()})
	problems, err := promlint.New(bytes.NewReader(m.text())).Lint()
	require.NoError(t, err)
	require.Equal(t, []promlint.Problem(nil), problems)
}

func TestMetricsFileHasWhatHappened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidemark.prom")
	at, proven := noon().Add(time.Hour), noon().Add(time.Second)
	service := func() *event.Daemon {
		return &event.Daemon{Problem: "x", Jobs: []event.DaemonJob{{Name: "home", Next: at, LastProven: proven},
			{Name: "new", Damage: "x", Problem: "x"}}}
	}
	m := NewMetrics(MetricsConfig{File: path, Service: service, Warn: func(text string) { t.Error(text) }},
		[]event.Run{*ended(record.Failed).Run, {Job: "removed"}})
	m.Event(&record.Event{Kind: record.Started, Job: "home"})
	m.Event(&record.Event{Kind: record.Finished, Job: "home", Run: backupRun()})
	m.Event(&record.Event{Kind: record.Started, Job: "home"})
	require.NoError(t, m.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	unix := float64(noon().Unix())
	require.Equal(t, map[string]float64{
		"tidemark_job_last_success_timestamp_seconds": unix + 2,
		"tidemark_job_last_run_timestamp_seconds":     unix + 2,
		"tidemark_job_next_run_timestamp_seconds":     unix + 3600,
		"tidemark_job_last_proven_timestamp_seconds":  unix + 1,
		"tidemark_job_last_run_duration_seconds":      62,
		"tidemark_job_running":                        1,
		"tidemark_job_incomplete":                     0,
		"tidemark_job_damaged":                        0,
		"tidemark_job_valid":                          1,
		"tidemark_job_failures_total":                 1,
		"tidemark_job_last_backup_files":              1234,
		"tidemark_job_last_backup_read_bytes":         5600,
		"tidemark_job_last_backup_stored_bytes":       120,
		"tidemark_job_last_backup_yielded_seconds":    20,
	}, values(t, strings.NewReader(string(text))))
	for _, line := range []string{`tidemark_job_running{job="new"} 0`, `tidemark_job_damaged{job="new"} 1`,
		`tidemark_job_valid{job="new"} 0`, `tidemark_option_file_valid 0`} {
		require.Contains(t, string(text), line+"\n")
	}
	require.NotContains(t, string(text), "removed", "it is not in the option file any more")
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")
}

func TestUnwritableMetricsFileIsReportedOnce(t *testing.T) {
	var warnings []string
	m := NewMetrics(MetricsConfig{File: "/does/not/exist/x.prom",
		Warn: func(text string) { warnings = append(warnings, text) }}, nil)
	m.Event(&record.Event{Kind: record.Started, Job: "home"})
	require.NoError(t, m.Close())
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "metrics cannot be written")
}

func TestMetricsAreServed(t *testing.T) {
	stale := filepath.Join(t.TempDir(), "metrics")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	require.NoError(t, err)
	old.SetUnlinkOnClose(false)
	require.NoError(t, old.Close())
	for _, address := range []string{"127.0.0.1:0", "unix:" + stale} {
		m := NewMetrics(MetricsConfig{Address: address}, []event.Run{*backupRun()})
		at := m.listener.Addr()
		client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, at.Network(), at.String())
			}}}
		answer, err := client.Get("http://tidemark/metrics")
		require.NoError(t, err)
		require.Equal(t, 1234.0, values(t, answer.Body)["tidemark_job_last_backup_files"])
		require.NoError(t, answer.Body.Close())
		answer, err = client.Get("http://tidemark/debug/pprof/")
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, answer.StatusCode)
		require.NoError(t, answer.Body.Close())
		refused(t, strings.Replace(address, "127.0.0.1:0", at.String(), 1)) // two services cannot share it
		require.NoError(t, m.Close())
	}
	refused(t, "nonsense")
}

// refused checks that an address that cannot be served is a warning, and that the file is written nevertheless.
func refused(t *testing.T, address string) {
	t.Helper()
	var warnings []string
	file := filepath.Join(t.TempDir(), "tidemark.prom")
	m := NewMetrics(MetricsConfig{Address: address, File: file, Warn: func(text string) {
		warnings = append(warnings, text)
	}}, []event.Run{*backupRun()})
	require.NoError(t, m.Close())
	require.FileExists(t, file)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "serve metrics")
	require.Contains(t, warnings[0], "choose another METRICSLISTEN; backups go on without it")
}

// A group that may read the metrics gets the file and the socket, and others do not.
func TestMetricsOfAGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give files to a group")
	}
	g, err := user.LookupGroup("adm")
	if err != nil {
		t.Skip("needs the group adm")
	}
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "x.prom"), filepath.Join(dir, "socket")
	m := NewMetrics(MetricsConfig{File: file, Address: "unix:" + socket, Group: "adm",
		Warn: func(text string) { t.Error(text) }}, nil)
	m.write.close(patience)
	m.write = nil
	for path, mode := range map[string]os.FileMode{file: 0o640, socket: 0o660} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm())
		require.Equal(t, g.Gid, strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Gid)))
	}
	require.NoError(t, m.Close())
	var warnings []string
	m = NewMetrics(MetricsConfig{File: file, Group: "no such group", Warn: func(text string) {
		warnings = append(warnings, text)
	}}, nil)
	require.NoError(t, m.Close())
	require.Len(t, warnings, 1)
}

func TestAnIncompleteRunIsNoSuccessInTheMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.prom")
	run := backupRun()
	run.Outcome = record.Incomplete
	m := NewMetrics(MetricsConfig{File: path}, []event.Run{*run})
	require.NoError(t, m.Close())
	text, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = text.Close() }()
	all := values(t, text)
	require.Equal(t, 1.0, all["tidemark_job_incomplete"])
	require.NotContains(t, all, "tidemark_job_last_success_timestamp_seconds")
}

// TestNamesOfJobsInMetrics: a name is one label, whatever is in it.
func TestNamesOfJobsInMetrics(t *testing.T) {
	m := NewMetrics(MetricsConfig{}, nil)
	names := []string{"a b", `q"u\o`, "line\nbreak", "} 1", "käse", ""}
	for _, name := range names {
		m.Event(&record.Event{Kind: record.Started, Job: name})
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(m.text()))
	require.NoError(t, err)
	var got []string
	for _, one := range families["tidemark_job_running"].Metric {
		require.Equal(t, 1.0, one.GetGauge().GetValue())
		if len(one.Label) > 0 {
			got = append(got, one.Label[0].GetValue())
		}
	}
	require.ElementsMatch(t, names, got)
}
