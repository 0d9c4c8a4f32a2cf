package output

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/setup"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// WayBack is the end of the setup of a machine from its backups.
type WayBack struct {
	setup.Choice
	File    string // option file
	Written bool   // it was written by this run; false: there was one
	KeyFile string // of this machine, for the repository; "": none
	KeyMade bool
	Jobs    []BackJob
	Missing []string // one line each
	Restore []string // a command for each of Choice.Sources
}

// BackJob is a job of the option file.
type BackJob struct {
	Name, Schedule string
	Sources        []string
	Repository     string
}

// shown is how many snapshots are listed.
const shown = 10

// Text says what is here again, and what is missing.
func (b *WayBack) Text(w io.Writer) error {
	var out strings.Builder
	sn := b.Snapshot.Snapshot
	written := "written"
	if !b.Written {
		written = "there is one, and it stays; move it away to get the stored one"
	}
	fmt.Fprintf(&out, "Option file of %s on %s, stored by the backup of %s (snapshot %s):\n  %s (%s)\n",
		human.Printable(sn.User), human.Printable(sn.Host), date(sn), b.Snapshot.ID.Short(), human.Printable(b.File), written)
	for _, one := range b.Others {
		fmt.Fprintf(&out, "  another one, of %s, %s: --snapshot %s\n", human.Printable(one.Snapshot.User),
			date(one.Snapshot), one.ID.Short())
	}
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
	out.WriteString("Next, restore what you need of the newest snapshots of each source, the older ones first:\n")
	first := max(0, len(b.Sources)-shown)
	for i, one := range b.Sources[first:] {
		partial := ""
		if one.Snapshot.Partial {
			partial = " (partial)"
		}
		fmt.Fprintf(&out, "  %s   # %s%s: %s\n", b.Restore[first+i], date(one.Snapshot), partial,
			human.Printable(strings.Join(one.Snapshot.Sources, " ")))
	}
	if first > 0 {
		fmt.Fprintf(&out, "  and %d older ones: see 'tidemark snapshots'\n", first)
	}
	if len(b.Jobs) > 0 {
		out.WriteString("When nothing is missing any more: tidemark service install\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func date(sn *snapshot.Snapshot) string { return day(time.Unix(sn.Time.Sec, 0)) }

// Events returns the record.
func (b *WayBack) Events() []any {
	e := &event.SetupFrom{Type: "setup_from", Host: b.Snapshot.Snapshot.Host, Snapshot: b.Snapshot.ID.String(),
		File: b.File, Written: b.Written, KeyFile: b.KeyFile, Jobs: []string{}, Missing: append([]string{}, b.Missing...),
		Restore: append([]string{}, b.Restore...)}
	for _, j := range b.Jobs {
		e.Jobs = append(e.Jobs, j.Name)
	}
	return []any{e}
}
