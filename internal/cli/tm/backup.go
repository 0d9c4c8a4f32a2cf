package tm

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

const (
	// stamp is how tmutil writes the local time of a backup.
	stamp = "2006-01-02-150405"
	// suffix ends the name of a backup.
	suffix = ".backup"
)

// Backup is a snapshot under the name that tmutil would give it.
type Backup struct {
	ID       format.ID
	Snapshot *snapshot.Snapshot
	Name     string // "2026-11-23-081500"; of several snapshots of one second: with the short ID behind
	Path     string // REPOSITORY/HOST/NAME.backup
}

// NewBackup returns a snapshot of a repository, with its name from the local time.
func NewBackup(repository string, id format.ID, s *snapshot.Snapshot) Backup {
	b := Backup{ID: id, Snapshot: s}
	b.setName(repository, event.Moment(s.Time.Sec, s.Time.Nsec).In(time.Local).Format(stamp))
	return b
}

func (b *Backup) setName(repository, name string) {
	host := strings.ReplaceAll(b.Snapshot.Host, "/", ":")
	b.Name, b.Path = name, strings.TrimSuffix(repository, "/")+"/"+host+"/"+name+suffix
}

// Distinguish gives backups of one host and second different names.
func Distinguish(repository string, list []Backup) {
	count := map[string]int{}
	for i := range list {
		count[list[i].Path]++
	}
	for i := range list {
		if b := &list[i]; count[b.Path] > 1 {
			b.setName(repository, b.Name+"-"+b.ID.Short())
		}
	}
}

// Find returns the backup that ref names, and the path behind the name. ref is what listbackups prints, in whole or
// from the host or the name on; found is false if it has not this form.
func Find(list []Backup, ref string) (b *Backup, sub string, found bool, err error) {
	named, sub, found := strings.Cut(ref+"/", suffix+"/")
	if !found {
		return nil, "", false, nil
	}
	host := path.Base(path.Dir(named))
	for i := range list {
		at := &list[i]
		if at.Name != path.Base(named) || strings.Contains(named, "/") && path.Base(path.Dir(at.Path)) != host {
			continue
		}
		if b != nil {
			return nil, "", true, fmt.Errorf("%s: several hosts have a backup of this name: write HOST/%[1]s", ref)
		}
		b = at
	}
	if b == nil {
		return nil, "", true, fmt.Errorf("%s: %w", ref, ErrNoBackup)
	}
	return b, "/" + strings.Trim(sub, "/"), true, nil
}
