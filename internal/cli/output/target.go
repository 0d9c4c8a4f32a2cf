package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/target"
)

// Target is what was found out about a target by trying.
type Target struct{ *target.Report }

// Text writes the verdict below the probes.
func (t *Target) Text(w io.Writer) error {
	table := table{head: []string{"Probe", "Result", "Evidence|"}}
	for _, p := range t.Probes {
		table.add(p.Name, string(p.Result), human.Printable(p.Evidence))
	}
	if err := table.write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", show.Prose(w, human.Printable(t.Path)+": "+t.Sentence()))
	for _, p := range t.Because() {
		if err == nil {
			_, err = fmt.Fprintln(w, show.Prose(w, "  "+p.Name+": "+human.Printable(p.Remedy)))
		}
	}
	return err
}

// Events returns the report.
func (t *Target) Events() []any {
	return []any{&struct {
		Type    string          `json:"message_type"` // "target"
		Path    string          `json:"path"`
		Verdict target.Verdict  `json:"verdict"`
		Medium  string          `json:"medium"`
		Device  string          `json:"device,omitempty"`
		Mount   target.Identity `json:"mount"`
		Probes  []target.Probe  `json:"probes"`
	}{"target", t.Path, t.Verdict(), t.Device.Medium.String(), t.Device.Name(), t.Identity, list(t.Probes)}}
}

// Destination is how fast a target takes files.
type Destination struct{ *target.Speed }

// Text writes a line for each measurement.
func (d *Destination) Text(w io.Writer) error {
	for _, line := range d.Lines() {
		if _, err := fmt.Fprintln(w, show.Prose(w, human.Printable(line))); err != nil {
			return err
		}
	}
	return nil
}

// Events returns a record for each measurement.
func (d *Destination) Events() []any {
	type burst struct {
		Type    string  `json:"message_type"` // "destination"
		Path    string  `json:"path"`
		Files   int     `json:"files"`
		Size    int64   `json:"file_size"`
		Seconds float64 `json:"seconds"`
		Rate    float64 `json:"bytes_per_second"`
	}
	var all []any
	for _, b := range []target.Burst{d.Large, d.Small} {
		all = append(all, &burst{"destination", d.Path, b.Files, b.Size, b.Elapsed.Seconds(), b.Rate()})
	}
	return all
}
