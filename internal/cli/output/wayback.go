package output

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/internal/setup"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

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
