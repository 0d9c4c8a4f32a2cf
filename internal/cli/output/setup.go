package output

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/setup"
	"github.com/tidemark-backup/tidemark/internal/target"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Tested is a target that was tested: a Target in one line.
func Tested(t *target.Report) Record {
	return &result{func(w *show.Page) {
		fmt.Fprintf(w, "target %s is %s\n", human.Printable(t.Path), t.Sentence())
	}, targetEvents(t)}
}

// Setup is the end of a setup.
type Setup struct {
	Plain      bool     `json:"-"`                          // a backup without paths is one of the sources
	Scheduled  bool     `json:"-"`                          // the option file has a job for the service
	Cron       string   `json:"-"`                          // line of a crontab, without a manager of services
	Sources    []string `json:"sources"`                    // absolute paths
	Repository string   `json:"repository"`                 // location
	ID         string   `json:"repository_id"`              // 32 digits
	Policy     string   `json:"policy"`                     // of the option file
	File       string   `json:"option_file"`                // path
	Written    bool     `json:"option_file_written"`        // false if it was up to date
	Copy       string   `json:"option_file_copy,omitempty"` // copy of the earlier file
	Confirmed  bool     `json:"recovery_confirmed"`         // false: run `key recovery --confirm`
	Snapshot   string   `json:"snapshot_id,omitempty"`      // of the first backup
	Proven     string   `json:"restored,omitempty"`         // file that was restored as proof
	Bytes      uint64   `json:"restored_bytes"`             // its size
	Compared   bool     `json:"compared_with_original"`     // false: compared with its hash only
}

// proof describes the restored file.
func (s *Setup) proof() string {
	if s.Proven == "" {
		return "none: the snapshot has no file to restore"
	}
	text := "one file restored, equal to the original:"
	if !s.Compared {
		text = "one file restored, equal to its hash (the original has changed since):"
	}
	return text + "\n              " + human.Printable(s.Proven) + " (" + human.Size(s.Bytes) + ")"
}

// Text lists what was set up.
func (s *Setup) Text(w *show.Page) {
	again := "tidemark backup"
	if !s.Plain {
		again += " " + printableList(s.Sources, " ")
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
`, printableList(s.Sources, "\n              "), human.Printable(s.Repository), s.Policy,
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
func (s *Setup) Events() []any { return []any{event.Of("setup", s)} }

// Changes are the lines of an option file that change.
func Changes(f *optionfile.File) Record {
	f.Changes = list(f.Changes)
	return one("option_file", f, func(w *show.Page) {
		fmt.Fprintf(w, "changes to %s:\n%s", human.Printable(f.Path), human.Harmless(f.Text()))
	})
}

// WayBack is the end of the setup of a machine from its backups.
type WayBack struct {
	setup.Choice `json:"-"`
	Jobs         []*job.Job `json:"-"` // of the option file
	KeyMade      bool       `json:"-"`
	Host         string     `json:"host"`                // whose option file it is
	ID           format.ID  `json:"snapshot_id"`         // of the snapshot that has it
	File         string     `json:"option_file"`         // path
	Written      bool       `json:"option_file_written"` // by this run; false if there was one, which stays
	KeyFile      string     `json:"key_file"`            // of this machine; empty: it could not be made
	Names        []string   `json:"jobs"`
	Missing      []string   `json:"missing"` // what the jobs need and this machine does not have, one line each
	Restore      []string   `json:"restore"` // commands: of the newest snapshot of each set of sources
}

// shown is how many snapshots are listed.
const shown = 10

// Text says what is here again, and what is missing.
func (b *WayBack) Text(w *show.Page) {
	sn := b.Snapshot.Snapshot
	written := "written"
	if !b.Written {
		written = "there is one, and it stays; move it away to get the stored one"
	}
	fmt.Fprintf(w, "Option file of %s on %s, stored by the backup of %s (snapshot %s):\n  %s (%s)\n",
		human.Printable(sn.User), human.Printable(sn.Host), stamp(sn.Time), b.Snapshot.ID.Short(),
		human.Printable(b.File), written)
	for _, one := range b.Others {
		fmt.Fprintf(w, "  another one, of %s, %s: --snapshot %s\n", human.Printable(one.Snapshot.User),
			stamp(one.Snapshot.Time), one.ID.Short())
	}
	if b.KeyFile != "" {
		made := "made"
		if !b.KeyMade {
			made = "there is one"
		}
		fmt.Fprintf(w, "Key of this machine:\n  %s (%s)\n", human.Printable(b.KeyFile), made)
	}
	if len(b.Jobs) > 0 {
		w.WriteString("Jobs:\n")
	}
	for _, j := range b.Jobs {
		fmt.Fprintf(w, "  %s, %s: %s to %s\n", j.Name, j.Schedule.String(), human.Printable(strings.Join(j.Sources, " ")),
			human.Printable(j.Repository))
	}
	if len(b.Missing) > 0 {
		w.WriteString("Missing on this machine:\n")
	}
	for _, one := range b.Missing {
		w.WriteString("  " + human.Harmless(one) + "\n")
	}
	w.WriteString("Next, restore what you need of the newest snapshots of each source, the older ones first:\n")
	first := max(0, len(b.Sources)-shown)
	for i, one := range b.Sources[first:] {
		partial := ""
		if one.Snapshot.Partial {
			partial = " (partial)"
		}
		fmt.Fprintf(w, "  %s   # %s%s: %s\n", b.Restore[first+i], stamp(one.Snapshot.Time), partial,
			human.Printable(strings.Join(one.Snapshot.Sources, " ")))
	}
	if first > 0 {
		fmt.Fprintf(w, "  and %d older ones: see 'tidemark snapshots'\n", first)
	}
	if len(b.Jobs) > 0 {
		w.WriteString("When nothing is missing any more: tidemark service install\n")
	}
}

// Events returns the record.
func (b *WayBack) Events() []any {
	b.Host, b.ID, b.Names = b.Snapshot.Snapshot.Host, b.Snapshot.ID, []string{}
	b.Missing, b.Restore = list(b.Missing), list(b.Restore)
	for _, j := range b.Jobs {
		b.Names = append(b.Names, j.Name)
	}
	return []any{event.Of("setup_from", b)}
}
