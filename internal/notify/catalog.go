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

// metricsOfJob are the names and the descriptions of the metrics of a job, in the order in which they are written.
// docs/monitoring.md lists them.
func metricsOfJob() [][2]string {
	return [][2]string{
		{"last_success_timestamp_seconds", "End of the last run that was done."},
		{"last_run_timestamp_seconds", "End of the last run."},
		{"next_run_timestamp_seconds", "Next run."},
		{"last_proven_timestamp_seconds", "End of the last check or drill without a fault."},
		{"last_run_duration_seconds", "Duration of the last run."},
		{"running", "1 while the job runs, otherwise 0."},
		{"failures_total", "Runs that failed."},
		{"incomplete", "1 if the last snapshot lacks objects, otherwise 0."},
		{"damaged", "1 while damage of the repository is known that is not healed, otherwise 0."},
		{"valid", "0 if the option file has a mistake in the job, otherwise 1."},
		{"last_backup_files", "Files in the last snapshot."},
		{"last_backup_read_bytes", "Bytes that the last backup read from the sources."},
		{"last_backup_stored_bytes", "Bytes by which the last backup enlarged the repository."},
		{"last_backup_yielded_seconds", "Time by which yielding prolonged the last backup, as estimated."},
	}
}

// text returns all metrics in the text format of Prometheus, version 0.0.4.
func (m *Metrics) text() []byte {
	var service *event.Daemon
	if m.config.Service != nil {
		service = m.config.Service()
	}
	var names []string
	if service == nil && m.config.Jobs != nil {
		names = m.config.Jobs()
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
	values := map[string]map[string]float64{}
	for name, j := range m.jobs {
		if service != nil && known[name] == nil || len(names) > 0 && !slices.Contains(names, name) {
			continue // it left the option file
		}
		values[name] = j.values(known[name])
	}
	jobs := slices.Sorted(maps.Keys(values))
	for _, one := range metricsOfJob() {
		name, described := "tidemark_job_"+one[0], false
		for _, job := range jobs {
			v, ok := values[job][one[0]]
			if !ok {
				continue
			}
			if !described {
				describe(&out, name, one[1])
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

// values returns what is known of a job, by name. d is its state in the service, or nil.
func (j *jobMetrics) values(d *event.DaemonJob) map[string]float64 {
	all := map[string]float64{"running": oneIf(j.running), "incomplete": oneIf(j.incomplete),
		"failures_total": float64(j.failures)}
	at := func(what string, t *time.Time) {
		if t != nil && !t.IsZero() {
			all[what+"_timestamp_seconds"] = float64(t.UnixMilli()) / 1000
		}
	}
	at("last_success", &j.success)
	at("last_run", &j.run)
	if d != nil {
		at("next_run", d.Next)
		at("last_proven", d.LastProven)
		all["damaged"], all["valid"] = oneIf(d.Damage != ""), oneIf(d.Problem == "")
	}
	if !j.run.IsZero() {
		all["last_run_duration_seconds"] = j.took.Seconds()
	}
	if sum := j.backup; sum != nil {
		all["last_backup_files"], all["last_backup_read_bytes"] = float64(sum.TotalFiles), float64(sum.Bytes.Read)
		all["last_backup_stored_bytes"] = float64(sum.DataAddedPacked)
		all["last_backup_yielded_seconds"] = sum.Yielded().Seconds()
	}
	return all
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
