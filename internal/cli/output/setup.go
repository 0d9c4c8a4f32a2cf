package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/setup"
	"github.com/tidemark-backup/tidemark/internal/target"
)

// Tested is a target that was tested: a Target in one line.
type Tested struct{ *target.Report }

// Text writes the line.
func (t *Tested) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "target %s is %s\n", human.Printable(t.Path), t.Sentence())
	return err
}

// Events returns the report.
func (t *Tested) Events() []any { return (&Target{t.Report}).Events() }

// Setup is the end of a setup.
type Setup struct {
	event.Setup
	Answers   setup.Answers
	Plain     bool   // a backup without paths is one of the sources
	Scheduled bool   // the option file has a job for the service
	Cron      string // line of a crontab, on a machine without a manager of services
	Proof     drill.Result
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
func (s *Setup) Text(w io.Writer) error {
	var sources []string
	for _, source := range s.Answers.Sources {
		sources = append(sources, human.Printable(source))
	}
	again := "tidemark backup"
	if !s.Plain {
		again += " " + strings.Join(sources, " ")
	}
	options := human.Printable(s.File)
	if s.Copy != "" {
		options += ", before: " + human.Printable(s.Copy)
	}
	_, err := fmt.Fprintf(w, `
Setup is complete.
  sources     %s
  repository  %s
  policy      %s
  options     %s
  snapshot    %s
  proof       %s
Back up again with: %s
`, strings.Join(sources, "\n              "), human.Printable(s.Answers.Repository), s.Answers.Policy, options,
		s.Snapshot[:min(8, len(s.Snapshot))],
		s.proof(), again)
	switch {
	case err != nil:
	case s.Cron != "":
		_, err = fmt.Fprintf(w, "Back up by the schedule: this line, added with 'crontab -e',\n"+
			"runs what is due every 5 minutes:\n  %s\n", human.Printable(s.Cron))
	case s.Scheduled:
		_, err = io.WriteString(w, "Back up by the schedule with: tidemark service install\n")
	}
	return err
}

// Events returns the record.
func (s *Setup) Events() []any {
	e, a := s.Setup, &s.Answers
	e.Type, e.Sources, e.Repository, e.Policy = "setup", a.Sources, a.Repository, a.Policy
	e.Bytes, e.Compared = s.Proof.Bytes, s.Proof.Live > 0
	return []any{&e}
}

// Changes are the lines of an option file that change.
type Changes struct{ *optionfile.File }

// Text shows them.
func (c *Changes) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "changes to %s:\n%s", human.Printable(c.Path), human.Harmless(c.File.Text()))
	return err
}

// Events returns the record.
func (c *Changes) Events() []any {
	c.File.Changes = list(c.File.Changes)
	return []any{event.Of("option_file", c.File)}
}
