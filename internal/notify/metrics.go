package notify

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// Metrics is a sink that keeps metrics for Prometheus. They are written to a file, served at an address, or both.
type Metrics struct {
	config   MetricsConfig
	mu       sync.Mutex
	jobs     map[string]*jobMetrics
	group    int              // that may read; -1: as the system has it
	write    *queue[struct{}] // a value for each time that the file is to be written; nil: there is none
	listener net.Listener     // nil: none
	server   *http.Server
	broken   bool
}

// jobMetrics is what is measured of a job. Zero values are not known and not exported.
type jobMetrics struct {
	run, success        time.Time
	took                time.Duration
	backup              *event.BackupSummary
	failures            uint64
	running, incomplete bool
}

// MetricsConfig is what Metrics consist of.
type MetricsConfig struct {
	File, Address string               // "": none
	Group         string               // may read the file, and the socket of Address; "": as the system has it
	Service       func() *event.Daemon // the state of the service; nil: unknown
	Jobs          func() []string      // of the option file, while the service does not answer; none: unknown
	Warn          func(text string)    // gets a message when they cannot be served, or not written
}

// NewMetrics returns metrics that begin with the runs of a record. They are served and written from now on. An address
// that cannot be used is only a warning: the backups go on.
func NewMetrics(c MetricsConfig, past []event.Run) *Metrics {
	m := &Metrics{config: c, jobs: map[string]*jobMetrics{}, group: -1}
	for i := range past {
		m.job(past[i].Job).ended(&past[i])
	}
	if c.Group != "" {
		if err := m.admit(c.Group); err != nil && m.config.Warn != nil {
			m.config.Warn(err.Error())
		}
	}
	if c.Address != "" {
		if err := m.listen(c.Address); err != nil && m.config.Warn != nil {
			m.config.Warn(err.Error() + "; backups go on without it")
		}
	}
	if c.File != "" {
		m.write = newQueue(1, func(struct{}) { m.toFile() })
		m.write.put(struct{}{})
	}
	return m
}

// Event counts e. The file is written at the start and the end of runs, and with each progress.
func (m *Metrics) Event(e *record.Event) {
	m.mu.Lock()
	switch {
	case e.Kind == record.Started:
		m.job(e.Job).running = true
	case e.Kind == record.Finished && e.Run != nil:
		m.job(e.Job).ended(e.Run)
	}
	m.mu.Unlock()
	if m.write != nil {
		m.write.put(struct{}{}) // a full queue will write the newest values too
	}
}

// job returns the metrics of a job. The caller holds the lock, or is the only user.
func (m *Metrics) job(name string) *jobMetrics {
	if m.jobs[name] == nil {
		m.jobs[name] = &jobMetrics{}
	}
	return m.jobs[name]
}

func (j *jobMetrics) ended(r *event.Run) {
	j.running, j.run, j.took = false, r.End, r.End.Sub(r.Start)
	switch r.Outcome {
	case record.Failed:
		j.failures++
	case record.Done:
		j.success = r.End
	}
	if r.Outcome != record.Stopped {
		j.incomplete = r.Outcome == record.Incomplete
	}
	for i := range r.Steps {
		if sum := record.BackupOf(&r.Steps[i]); sum != nil {
			j.backup = sum
		}
	}
}

// listen serves the metrics at an address, and nothing else.
func (m *Metrics) listen(address string) (err error) {
	network, at := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, at = "unix", path
		removeStale(path)
	}
	if m.listener, err = net.Listen(network, at); err != nil {
		return fmt.Errorf("serve metrics: %w; choose another METRICSLISTEN", err)
	}
	if network == "unix" {
		if err := m.open(at, 0o660); err != nil {
			return errors.Join(fmt.Errorf("serve metrics: %w", err), m.listener.Close())
		}
	}
	mux := http.NewServeMux()
	slots := make(chan struct{}, 4)
	mux.Handle("GET /metrics", http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(m.text()) // the client may be gone
	}), once, "the service does not answer"))
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: once, ReadTimeout: once, WriteTimeout: 2 * once,
		MaxHeaderBytes: 16 << 10}
	go func() { _ = m.server.Serve(m.listener) }() // ends with Close
	return nil
}

// admit has a group read the metrics.
func (m *Metrics) admit(name string) error {
	g, err := user.LookupGroup(name)
	if err != nil {
		return fmt.Errorf("metrics-group: %w", err)
	}
	m.group, err = strconv.Atoi(g.Gid)
	return err
}

// open gives a file or socket to the group that may read the metrics.
func (m *Metrics) open(path string, mode os.FileMode) error {
	if m.group < 0 {
		return nil
	}
	return errors.Join(os.Chown(path, -1, m.group), os.Chmod(path, mode))
}

// removeStale removes a socket at which no process listens.
func removeStale(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close() // it is in use: listening will fail
		return
	}
	_ = os.Remove(path) // listening fails if it stays
}

// toFile replaces the file.
func (m *Metrics) toFile() {
	err := m.replace(m.config.File)
	if err != nil && !m.broken && m.config.Warn != nil {
		m.config.Warn(fmt.Sprintf("metrics cannot be written: %v", err))
	}
	m.broken = err != nil
}

// replace writes the file under another name, and renames it. It is not flushed: after a crash the next run writes it.
func (m *Metrics) replace(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // no name that ends as a collector expects
	if err != nil {
		return err
	}
	_, err = f.Write(m.text())
	if err = errors.Join(err, f.Chmod(0o644), f.Close(), m.open(f.Name(), 0o640)); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// Close stops serving and writes the file a last time.
func (m *Metrics) Close() error {
	var err error
	if m.server != nil {
		err = m.server.Close()
	}
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if m.write != nil {
		m.write.put(struct{}{})
		m.write.close(closing)
	}
	return err
}

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
	at := func(what string, t time.Time) {
		if !t.IsZero() {
			all[what+"_timestamp_seconds"] = float64(t.UnixMilli()) / 1000
		}
	}
	at("last_success", j.success)
	at("last_run", j.run)
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
