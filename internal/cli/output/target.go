package output

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/speedtest"
	"github.com/tidemark-backup/tidemark/internal/target"
)

// Target is what was found out about a target by trying: the verdict below the probes.
func Target(t *target.Report) Record {
	return &result{func(w *show.Page) {
		table := table{head: []string{"Probe", "Result", "Evidence|"}}
		for _, p := range t.Probes {
			table.add(p.Name, string(p.Result), human.Printable(p.Evidence))
		}
		table.write(w)
		fmt.Fprintf(w, "\n%s\n", w.Prose(human.Printable(t.Path)+": "+t.Sentence()))
		for _, p := range t.Because() {
			w.Linef("  %s: %s", p.Name, human.Printable(p.Remedy))
		}
	}, targetEvents(t)}
}

func targetEvents(t *target.Report) []any {
	return []any{event.Of("target", &struct {
		Path    string          `json:"path"`
		Verdict target.Result   `json:"verdict"`
		Medium  string          `json:"medium"`
		Device  string          `json:"device,omitempty"`
		Mount   target.Identity `json:"mount"`
		Probes  []target.Probe  `json:"probes"`
	}{t.Path, t.Verdict(), t.Device.Medium.String(), t.Device.Name(), t.Identity, list(t.Probes)})}
}

// Destination is how fast a target takes files: a line and a record for each measurement.
func Destination(s *target.Speed) Record {
	type burst struct {
		Path    string  `json:"path"`
		Files   int     `json:"files"`
		Size    int64   `json:"file_size"`
		Seconds float64 `json:"seconds"`
		Rate    float64 `json:"bytes_per_second"`
	}
	var all []any
	for _, b := range []target.Burst{s.Large, s.Small} {
		all = append(all, event.Of("destination", &burst{s.Path, b.Files, b.Size, b.Elapsed.Seconds(), b.Rate()}))
	}
	return &result{func(w *show.Page) {
		for _, line := range s.Lines() {
			w.Linef("%s", human.Printable(line))
		}
	}, all}
}

// Measurement is one result of a benchmark: a line, below the policy's name if it is the first of that. device and
// medium are those of a measurement of a disk.
func Measurement(m *speedtest.Result, first bool, device, medium string) Record {
	rate, unit, remark := human.Megabytes(m.Rate), "bytes", ""
	if m.Operations() {
		rate, unit = human.Grouped(m.Rate)+" reads/s", "operations"
	}
	if m.OffDevice {
		remark = "  (from memory or another machine, not from a disk)"
	}
	what, on := m.What.String(), human.Plural(uint64(m.CPUs), "processor")
	if m.What == speedtest.Compress {
		what += fmt.Sprintf(", level %d", m.Level)
	}
	if m.What.Disk() {
		on = ""
		if medium != "" {
			on = human.Device(device, medium)
		}
	}
	return &result{func(w *show.Page) {
		if first {
			fmt.Fprintf(w, "%s\n", m.Policy)
		}
		fmt.Fprintf(w, "  %-24s %-14s %16s  +-%2.0f %%%s\n", what, on, rate, m.Spread*50, remark)
	}, []any{event.Of("measurement", &struct {
		Policy     string  `json:"policy"`
		What       string  `json:"what"`
		Level      int     `json:"level,omitempty"`
		Processors int     `json:"processors"`
		Rate       float64 `json:"rate"`
		Unit       string  `json:"unit"`
		Spread     float64 `json:"spread"`
		Runs       int     `json:"runs"`
		Seconds    float64 `json:"seconds"`
		CPUSeconds float64 `json:"cpu_seconds"`
		OffDevice  bool    `json:"off_device,omitempty"`
		Device     string  `json:"device,omitempty"`
		Medium     string  `json:"medium,omitempty"`
	}{
		m.Policy.String(), strings.ReplaceAll(m.What.String(), " ", "_"), m.Level, m.CPUs, m.Rate, unit,
		m.Spread, m.Runs, m.Wall.Seconds(), m.CPU.Seconds(), m.OffDevice, device, medium,
	})}}
}
