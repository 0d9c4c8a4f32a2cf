package tm

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// client is who makes the backups, in the property lists.
const client = "tidemark"

// Status is the state of the backups of this user.
type Status struct {
	Jobs   []event.Job   // that run and are backups
	Daemon *event.Daemon // nil: the service does not run
	XML    bool
}

// Text writes a property list about the first backup that runs.
func (s *Status) Text(w io.Writer) error {
	d := s.dict()
	if s.XML {
		return WriteXML(w, d)
	}
	if _, err := fmt.Fprintln(w, "Backup session status:"); err != nil {
		return err
	}
	return WriteText(w, d)
}

func (s *Status) dict() Dict {
	d := Dict{{"ClientID", client}, {"Running", len(s.Jobs) > 0}}
	if next := s.next(); next != nil {
		d = append(d, Pair{"NextBackup", utc(*next)})
	}
	if len(s.Jobs) == 0 {
		return d
	}
	job := &s.Jobs[0]
	d = append(d, Pair{"PID", job.PID}, Pair{"DateOfStateChange", utc(job.Start)}, Pair{"Stopping", false},
		Pair{"DestinationMountPoint", printableXML(job.Repository)}, Pair{"Policy", job.Policy},
		Pair{"Sources", printableXML(strings.Join(job.Sources, " "))})
	if st := job.Status; st != nil {
		progress := Dict{{"Percent", st.PercentDone}, {"bytes", st.BytesDone}, {"files", st.FilesDone},
			{"totalBytes", st.TotalBytes}, {"totalFiles", st.TotalFiles}}
		if st.SecondsRemaining != nil {
			progress = append(progress, Pair{"TimeRemaining", *st.SecondsRemaining})
		}
		d = append(d, Pair{"BackupPhase", phase(st.Phase)}, Pair{"Progress", progress})
	}
	return d
}

// next returns when the service next runs a job.
func (s *Status) next() (next *time.Time) {
	if s.Daemon == nil {
		return nil
	}
	for i := range s.Daemon.Jobs {
		if at := s.Daemon.Jobs[i].Next; at != nil && (next == nil || at.Before(*next)) {
			next = at
		}
	}
	return next
}

// utc formats a time as tmutil's property lists do.
func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 -0700") }

// phase returns tmutil's word for a phase of a backup, or its own with a capital letter.
func phase(key string) string {
	switch key {
	case "opening":
		return "Starting"
	case "scanning", "uploading", "saving":
		return "Copying"
	case "finishing", "done":
		return "Finishing"
	}
	if key == "" {
		return ""
	}
	return strings.ToUpper(key[:1]) + key[1:]
}

// Events returns the jobs that run, and the state of the service.
func (s *Status) Events() (all []any) {
	for i := range s.Jobs {
		all = append(all, &s.Jobs[i])
	}
	if s.Daemon != nil {
		all = append(all, s.Daemon)
	}
	return all
}

// Destination is the repository as tmutil describes a destination.
type Destination struct {
	Name, ID string
	Network  bool   // on a share
	Location string // folder or address
	XML      bool
}

func (d *Destination) kind() string {
	if d.Network {
		return "Network"
	}
	return "Local"
}

// Text writes the form of destinationinfo.
func (d *Destination) Text(w io.Writer) error {
	key, at := "Mount Point", d.Location
	if d.Network {
		key = "URL"
	}
	if d.XML {
		one := Dict{{"ID", d.ID}, {"Kind", d.kind()}, {"LastDestination", 1}, {"Name", printableXML(d.Name)},
			{strings.ReplaceAll(key, " ", ""), printableXML(at)}}
		return WriteXML(w, Dict{{"Destinations", []Dict{one}}})
	}
	var b strings.Builder
	b.WriteString(strings.Repeat("=", 52) + "\n")
	for _, row := range [][2]string{{"Name", d.Name}, {"Kind", d.kind()}, {key, at}, {"ID", d.ID}} {
		fmt.Fprintf(&b, "%-14s: %s\n", row[0], human.Printable(row[1]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Events returns the destination record.
func (d *Destination) Events() []any {
	return []any{&event.Destination{Type: "destination", Name: d.Name, Kind: d.kind(), Location: d.Location, ID: d.ID}}
}

// Silent is a result that is printed for scripts only: tmutil prints nothing.
type Silent struct{ output.Record }

// Text writes nothing.
func (s *Silent) Text(io.Writer) error { return nil }

// Stopped is a backup that was asked to end.
type Stopped struct{ PID int }

// Text writes nothing, as tmutil.
func (s *Stopped) Text(io.Writer) error { return nil }

// Events returns the stopping record.
func (s *Stopped) Events() []any { return []any{&event.Stopping{Type: "stopping", PID: s.PID}} }
