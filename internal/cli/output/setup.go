package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/setup"
	"github.com/tidemark-backup/tidemark/internal/target"
)

// Tested is a target that was tested: a Target in one line.
type Tested struct{ *target.Report }

// Text writes the line.
func (t *Tested) Text(w *show.Page) {
	fmt.Fprintf(w, "target %s is %s\n", human.Printable(t.Path), t.Sentence())
}

// Events returns the report.
func (t *Tested) Events() []any { return (&Target{t.Report}).Events() }

// Setup is the end of a setup.
type Setup struct {
	Answers    setup.Answers `json:"-"`
	Plain      bool          `json:"-"`                          // a backup without paths is one of the sources
	Scheduled  bool          `json:"-"`                          // the option file has a job for the service
	Cron       string        `json:"-"`                          // line of a crontab, without a manager of services
	Proof      drill.Result  `json:"-"`                          // of Proven
	Sources    []string      `json:"sources"`                    // absolute paths
	Repository string        `json:"repository"`                 // location
	ID         string        `json:"repository_id"`              // 32 digits
	Policy     string        `json:"policy"`                     // of the option file
	File       string        `json:"option_file"`                // path
	Written    bool          `json:"option_file_written"`        // false if it was up to date
	Copy       string        `json:"option_file_copy,omitempty"` // copy of the earlier file
	Confirmed  bool          `json:"recovery_confirmed"`         // false: run `key recovery --confirm`
	Snapshot   string        `json:"snapshot_id,omitempty"`      // of the first backup
	Proven     string        `json:"restored,omitempty"`         // file that was restored as proof
	Bytes      uint64        `json:"restored_bytes"`             // its size
	Compared   bool          `json:"compared_with_original"`     // false: compared with its hash only
}

// proof describes the restored file.
func (s *Setup) proof() string {
	if s.Proven == "" {
		return "none: the snapshot has no file to restore"
	}
	text := "one file restored, equal to the original:"
	if s.Proof.Live == 0 {
		text = "one file restored, equal to its hash (the original has changed since):"
	}
	return text + "\n              " + human.Printable(s.Proven) + " (" + human.Size(s.Proof.Bytes) + ")"
}

// Text lists what was set up.
func (s *Setup) Text(w *show.Page) {
	again := "tidemark backup"
	if !s.Plain {
		again += " " + printableList(s.Answers.Sources, " ")
	}
	options := human.Printable(s.File)
	if s.Copy != "" {
		options += ", before: " + human.Printable(s.Copy)
	}
	fmt.Fprintf(w, `
Setup is complete.
  sources     %s
  repository  %s
  policy      %s
  options     %s
  snapshot    %s
  proof       %s
Back up again with: %s
`, printableList(s.Answers.Sources, "\n              "), human.Printable(s.Answers.Repository), s.Answers.Policy,
		options, s.Snapshot[:min(8, len(s.Snapshot))], s.proof(), again)
	switch {
	case s.Cron != "":
		fmt.Fprintf(w, "Back up by the schedule: this line, added with 'crontab -e',\n"+
			"runs what is due every 5 minutes:\n  %s\n", human.Printable(s.Cron))
	case s.Scheduled:
		fmt.Fprintln(w, "Back up by the schedule with: tidemark service install")
	}
}

// Events returns the record.
func (s *Setup) Events() []any {
	s.Sources, s.Repository, s.Policy = s.Answers.Sources, s.Answers.Repository, s.Answers.Policy
	s.Bytes, s.Compared = s.Proof.Bytes, s.Proof.Live > 0
	return []any{event.Of("setup", s)}
}

// Changes are the lines of an option file that change.
type Changes struct{ *optionfile.File }

// Text shows them.
func (c *Changes) Text(w *show.Page) {
	fmt.Fprintf(w, "changes to %s:\n%s", human.Printable(c.Path), human.Harmless(c.File.Text()))
}

// Events returns the record.
func (c *Changes) Events() []any {
	c.File.Changes = list(c.File.Changes)
	return []any{event.Of("option_file", c.File)}
}
