package output

import (
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// The records in this file have the columns of IBM's client, since programs read them.

type fileVersion struct {
	event.Path           // of the object
	Size       uint64    `json:"size"`        // bytes
	Stored     time.Time `json:"backup_date"` // of the oldest snapshot with this version
	Active     bool      `json:"active"`      // the newest snapshot that covers the path has this version
	Snapshot   format.ID `json:"snapshot"`    // ID of the newest snapshot with this version
}

// FileVersion is a version of an object in the form of 'dsmc query backup', with a date of a layout: a line, below a
// heading for the first one.
func FileVersion(v *browse.Version, layout string, first bool) Record {
	e := &fileVersion{event.NewPath(v.Path), v.Node.Size, time.Unix(v.First.Snapshot.Time.Sec, 0), v.Active, v.Last.ID}
	return one("backup_version", e, func(w *show.Page) {
		if first {
			fmt.Fprintf(w, "%13s     %-25s  %-19s  %s %s\n%13s     %-25s  %-19s  %s %s\n", "Size", "Backup Date",
				"Mgmt Class", "A/I", "File", "----", "-----------", "----------", "---", "----")
		}
		state := "I"
		if v.Active {
			state = "A"
		}
		fmt.Fprintf(w, "%13s  B  %-25s  %-19s   %s  %s\n", human.Count(e.Size), e.Stored.Format(layout+" 15:04:05"),
			"DEFAULT", state, human.Printable(v.Path))
	})
}

// FileSpace is a path that was backed up.
type FileSpace struct {
	Number     int       `json:"number"` // position in the list, from 1
	event.Path           // of the source
	Type       string    `json:"type"`        // file system there today
	Last       time.Time `json:"last_backup"` // newest backup
}

// FileSpaces lists them in the form of 'dsmc query filespace', with dates of a layout.
func FileSpaces(list []FileSpace, layout string) Record {
	for i := range list {
		list[i].Number = i + 1
	}
	return &result{func(w *show.Page) {
		fmt.Fprintf(w, "%3s     %-22s  %-8s  %s\n%3s     %-22s  %-8s  %s\n", "#", "Last Incr Date", "Type",
			"File Space Name", "---", "--------------", "----", "---------------")
		for _, s := range list {
			fmt.Fprintf(w, "%3d     %-22s  %-8s  %s\n", s.Number, s.Last.Format(layout+" 15:04:05"), s.Type,
				human.Printable(s.Exact()))
		}
	}, eventsOf("filespace", list)}
}

// SessionFields describe the repository.
type SessionFields struct {
	Server  string `json:"server_name"`    // where the repository is
	Node    string `json:"node_name"`      // this machine
	User    string `json:"user_name"`      // this user
	Version string `json:"client_version"` // of tidemark
}

// Session describes the repository in the form of 'dsmc query session': a line for each field.
func Session(s *SessionFields) Record {
	return one("session", s, func(w *show.Page) {
		fmt.Fprintf(w, "Session Information\n\n  Server Name.............: %s\n  Server Type.............: "+
			"tidemark repository\n  Node Name...............: %s\n  User Name...............: %s\n"+
			"  Client Version..........: %s\n",
			human.Printable(s.Server), human.Printable(s.Node), human.Printable(s.User), s.Version)
	})
}
