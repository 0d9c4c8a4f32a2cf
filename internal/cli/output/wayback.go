package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// WayBack is the end of the setup of a machine from its backups.
type WayBack struct {
	Snapshot repo.Listed // that has the option file
	File     string      // option file
	Written  bool        // it was written by this run; false: there was one
	KeyFile  string      // of this machine, for the repository
	KeyMade  bool
	Jobs     []BackJob
	Missing  []string // one line each
}

// BackJob is a job of the option file.
type BackJob struct {
	Name, Schedule string
	Sources        []string
	Repository     string
	Restore        string // command that restores its files
}

// Text says what is here again, and what is missing.
func (b *WayBack) Text(w io.Writer) error {
	var out strings.Builder
	sn := b.Snapshot.Snapshot
	written := "written"
	if !b.Written {
		written = "there is one, and it stays; move it away to get the stored one"
	}
	fmt.Fprintf(&out, "Option file of %s, stored by its backup of %s (snapshot %s):\n  %s (%s)\n",
		human.Printable(sn.Host), time.Unix(sn.Time.Sec, 0).Format(time.DateTime), b.Snapshot.ID.Short(),
		human.Printable(b.File), written)
	if b.KeyFile != "" {
		made := "made"
		if !b.KeyMade {
			made = "there is one"
		}
		fmt.Fprintf(&out, "Key of this machine:\n  %s (%s)\n", human.Printable(b.KeyFile), made)
	}
	if len(b.Jobs) > 0 {
		out.WriteString("Jobs:\n")
	}
	for _, j := range b.Jobs {
		fmt.Fprintf(&out, "  %s, %s: %s to %s\n", j.Name, j.Schedule, human.Printable(strings.Join(j.Sources, " ")),
			human.Printable(j.Repository))
	}
	if len(b.Missing) > 0 {
		out.WriteString("Missing on this machine:\n")
	}
	for _, one := range b.Missing {
		out.WriteString("  " + human.Harmless(one) + "\n")
	}
	if len(b.Jobs) > 0 {
		out.WriteString("Next:\n")
		var said []string
		for _, j := range b.Jobs {
			if !slices.Contains(said, j.Restore) {
				said = append(said, j.Restore)
				out.WriteString("  " + j.Restore + "\n")
			}
		}
		out.WriteString("  tidemark service install   (when nothing is missing any more)\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// Events returns the record.
func (b *WayBack) Events() []any {
	e := &event.SetupFrom{Type: "setup_from", Host: b.Snapshot.Snapshot.Host, Snapshot: b.Snapshot.ID.String(),
		File: b.File, Written: b.Written, KeyFile: b.KeyFile, Jobs: []string{}, Missing: append([]string{}, b.Missing...)}
	for _, j := range b.Jobs {
		e.Jobs = append(e.Jobs, j.Name)
	}
	return []any{e}
}
