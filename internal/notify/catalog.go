package notify

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// catalog has the descriptions of the metrics. docs/monitoring.md lists them.
type catalog struct {
	success, run, next, proven, took, running, failures *prometheus.Desc
	incomplete, damaged, valid, optionFile              *prometheus.Desc
	files, read, stored, yielded                        *prometheus.Desc
}

func newCatalog() *catalog {
	of := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("tidemark_job_"+name, help, []string{"job"}, nil)
	}
	return &catalog{
		success:    of("last_success_timestamp_seconds", "End of the last run that was done."),
		run:        of("last_run_timestamp_seconds", "End of the last run."),
		next:       of("next_run_timestamp_seconds", "Next run."),
		proven:     of("last_proven_timestamp_seconds", "End of the last check or drill without a fault."),
		took:       of("last_run_duration_seconds", "Duration of the last run."),
		running:    of("running", "1 while the job runs, otherwise 0."),
		failures:   of("failures_total", "Runs that failed."),
		incomplete: of("incomplete", "1 if the last snapshot lacks objects, otherwise 0."),
		damaged:    of("damaged", "1 while damage of the repository is known that is not healed, otherwise 0."),
		valid:      of("valid", "0 if the option file has a mistake in the job, otherwise 1."),
		optionFile: prometheus.NewDesc("tidemark_option_file_valid", "0 if no job of the option file can be used, "+
			"otherwise 1.", nil, nil),
		files:   of("last_backup_files", "Files in the last snapshot."),
		read:    of("last_backup_read_bytes", "Bytes that the last backup read from the sources."),
		stored:  of("last_backup_stored_bytes", "Bytes by which the last backup enlarged the repository."),
		yielded: of("last_backup_yielded_seconds", "Time by which yielding prolonged the last backup, as estimated."),
	}
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	s := m.series
	for _, d := range []*prometheus.Desc{s.success, s.run, s.next, s.proven, s.took, s.running, s.failures, s.incomplete,
		s.damaged, s.valid, s.optionFile, s.files, s.read, s.stored, s.yielded} {
		out <- d
	}
}

// Collect sends the metrics of all jobs.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
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
	known := map[string]*event.DaemonJob{}
	if service != nil {
		for i := range service.Jobs {
			m.job(service.Jobs[i].Name)
			known[service.Jobs[i].Name] = &service.Jobs[i]
		}
		out <- prometheus.MustNewConstMetric(m.series.optionFile, prometheus.GaugeValue, oneIf(service.Problem == ""))
	}
	for name, j := range m.jobs {
		if service != nil && known[name] == nil || len(names) > 0 && !slices.Contains(names, name) {
			continue // it left the option file
		}
		s := m.series
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name)
		}
		at := func(d *prometheus.Desc, t *time.Time) {
			if t != nil && !t.IsZero() {
				gauge(d, float64(t.UnixMilli())/1000)
			}
		}
		at(s.success, &j.success)
		at(s.run, &j.run)
		if d := known[name]; d != nil {
			at(s.next, d.Next)
			at(s.proven, d.LastProven)
			gauge(s.damaged, oneIf(d.Damage != ""))
			gauge(s.valid, oneIf(d.Problem == ""))
		}
		gauge(s.running, oneIf(j.running))
		gauge(s.incomplete, oneIf(j.incomplete))
		out <- prometheus.MustNewConstMetric(s.failures, prometheus.CounterValue, float64(j.failures), name)
		if !j.run.IsZero() {
			gauge(s.took, j.took.Seconds())
		}
		if f := j.backup; f != nil {
			gauge(s.files, float64(f.Files))
			gauge(s.read, float64(f.Read))
			gauge(s.stored, float64(f.Stored))
			gauge(s.yielded, f.Yielded.Seconds())
		}
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
