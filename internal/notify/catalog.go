package notify

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// Metrics of a job, in the order in which they are written. docs/monitoring.md lists them.
const (
	success = iota
	run
	next
	proven
	took
	running
	failures
	incomplete
	damaged
	valid
	files
	read
	stored
	yielded
	metricsOfJob
)

// metric is the name and the description of a metric of a job.
func metric(which int) (name, help string) {
	all := [metricsOfJob][2]string{
		success:    {"last_success_timestamp_seconds", "End of the last run that was done."},
		run:        {"last_run_timestamp_seconds", "End of the last run."},
		next:       {"next_run_timestamp_seconds", "Next run."},
		proven:     {"last_proven_timestamp_seconds", "End of the last check or drill without a fault."},
		took:       {"last_run_duration_seconds", "Duration of the last run."},
		running:    {"running", "1 while the job runs, otherwise 0."},
		failures:   {"failures_total", "Runs that failed."},
		incomplete: {"incomplete", "1 if the last snapshot lacks objects, otherwise 0."},
		damaged:    {"damaged", "1 while damage of the repository is known that is not healed, otherwise 0."},
		valid:      {"valid", "0 if the option file has a mistake in the job, otherwise 1."},
		files:      {"last_backup_files", "Files in the last snapshot."},
		read:       {"last_backup_read_bytes", "Bytes that the last backup read from the sources."},
		stored:     {"last_backup_stored_bytes", "Bytes by which the last backup enlarged the repository."},
		yielded:    {"last_backup_yielded_seconds", "Time by which yielding prolonged the last backup, as estimated."},
	}
	return "tidemark_job_" + all[which][0], all[which][1]
}

// text returns all metrics in the text format of Prometheus, version 0.0.4.
func (m *Metrics) text() []byte {
	var service *event.Daemon
	if m.service != nil {
		service = m.service()
	}
	var names []string
	if service == nil && m.names != nil {
		names = m.names()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out bytes.Buffer
	known := map[string]*event.DaemonJob{}
	if service != nil {
		for i := range service.Jobs {
			m.job(service.Jobs[i].Name)
			known[service.Jobs[i].Name] = &service.Jobs[i]
		}
		const name = "tidemark_option_file_valid"
		describe(&out, name, "0 if no job of the option file can be used, otherwise 1.")
		fmt.Fprintf(&out, "%s %v\n", name, oneIf(service.Problem == ""))
	}
	values := map[string]map[int]float64{}
	for name, j := range m.jobs {
		if service != nil && known[name] == nil || len(names) > 0 && !slices.Contains(names, name) {
			continue // it left the option file
		}
		values[name] = j.values(known[name])
	}
	jobs := slices.Sorted(maps.Keys(values))
	for which := range metricsOfJob {
		name, help := metric(which)
		described := false
		for _, job := range jobs {
			v, ok := values[job][which]
			if !ok {
				continue
			}
			if !described {
				describe(&out, name, help)
				described = true
			}
			label := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(job, "\ufffd"))
			fmt.Fprintf(&out, "%s{job=\"%s\"} %s\n", name, label, strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	return out.Bytes()
}

// describe writes what precedes the values of a metric.
func describe(out *bytes.Buffer, name, help string) {
	kind := "gauge"
	if strings.HasSuffix(name, "_total") {
		kind = "counter"
	}
	fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// values returns what is known of a job. d is its state in the service, or nil.
func (j *jobMetrics) values(d *event.DaemonJob) map[int]float64 {
	all := map[int]float64{running: oneIf(j.running), incomplete: oneIf(j.incomplete), failures: float64(j.failures)}
	at := func(which int, t *time.Time) {
		if t != nil && !t.IsZero() {
			all[which] = float64(t.UnixMilli()) / 1000
		}
	}
	at(success, &j.success)
	at(run, &j.run)
	if d != nil {
		at(next, d.Next)
		at(proven, d.LastProven)
		all[damaged], all[valid] = oneIf(d.Damage != ""), oneIf(d.Problem == "")
	}
	if !j.run.IsZero() {
		all[took] = j.took.Seconds()
	}
	if f := j.backup; f != nil {
		all[files], all[read], all[stored] = float64(f.Files), float64(f.Read), float64(f.Stored)
		all[yielded] = f.Yielded.Seconds()
	}
	return all
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
