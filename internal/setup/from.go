package setup

import (
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// Wish says which option file is wanted of those in a repository.
type Wish struct {
	Snapshot string // beginning of the ID; "": by the others
	Host     string // "": Here, or the only one
	Here     string // name of this machine
	User     string // of this machine
}

// Choice is what a repository has for a Wish.
type Choice struct {
	Snapshot *repo.Listed  // with the option file; nil: none
	Others   []repo.Listed // newest ones with other option files of the same host
	Hosts    []string      // that have an option file
	Sources  []repo.Listed // of the host: the newest snapshot of each set of sources, oldest first
	Unread   []repo.Listed
}

// Choose returns the newest option file of the host, if possible of the same user and with jobs. all is sorted, oldest
// first.
func (w *Wish) Choose(all []repo.Listed) (c Choice) {
	host := w.host(all, &c)
	for _, one := range slices.Backward(all) {
		sn := one.Snapshot
		switch {
		case one.Err != nil:
			c.Unread = append(c.Unread, one)
			continue
		case sn.Host != host && w.Snapshot == "":
			continue
		case w.Snapshot != "" && sn.Setup != "" && strings.HasPrefix(one.ID.String(), strings.ToLower(w.Snapshot)):
			c.Snapshot, host = &one, sn.Host
		case w.Snapshot == "" && sn.Setup != "" && (c.Snapshot == nil || w.rank(sn) > w.rank(c.Snapshot.Snapshot)):
			c.Snapshot = &one
		}
	}
	for _, one := range slices.Backward(all) {
		if sn := one.Snapshot; sn != nil && sn.Host == host && c.Snapshot != nil {
			c.add(one)
		}
	}
	slices.Reverse(c.Sources)
	return c
}

// rank orders option files: those of the user first, then those with jobs.
func (w *Wish) rank(sn *snapshot.Snapshot) (n int) {
	if sn.User == w.User {
		n = 2
	}
	if strings.Contains(sn.Setup, "SCHEDULE ") {
		n++
	}
	return n
}

// host returns the host that is meant, and lists those that have an option file.
func (w *Wish) host(all []repo.Listed, c *Choice) string {
	for i := range all {
		if sn := all[i].Snapshot; sn != nil && sn.Setup != "" && !slices.Contains(c.Hosts, sn.Host) {
			c.Hosts = append(c.Hosts, sn.Host)
		}
	}
	switch {
	case w.Host != "":
		return w.Host
	case len(c.Hosts) == 1 && !slices.Contains(c.Hosts, w.Here):
		return c.Hosts[0]
	}
	return w.Here
}

// add adds a snapshot of the host, newest first.
func (c *Choice) add(one repo.Listed) {
	sn, chosen := one.Snapshot, c.Snapshot.Snapshot
	if sn.Setup != "" && sn.Setup != chosen.Setup && (sn.User != chosen.User || !hasStanzas(chosen.Setup, sn.Setup)) &&
		!slices.ContainsFunc(c.Others, func(o repo.Listed) bool {
			return o.Snapshot.User == sn.User && hasStanzas(o.Snapshot.Setup, sn.Setup)
		}) {
		c.Others = append(c.Others, one)
	}
	same := func(o repo.Listed) bool { return slices.Equal(o.Snapshot.Sources, sn.Sources) }
	at := slices.IndexFunc(c.Sources, same)
	switch {
	case at < 0:
		c.Sources = append(c.Sources, one)
	case c.Sources[at].Snapshot.Partial && !sn.Partial:
		c.Sources[at] = one
	}
}

// hasStanzas reports whether an option file has all stanzas of another one, which may be an earlier version of it.
func hasStanzas(text, other string) bool {
	for line := range strings.Lines(other) {
		if strings.HasPrefix(line, "SERVERNAME ") && !strings.Contains("\n"+text, "\n"+line) {
			return false
		}
	}
	return strings.Contains(text, "SCHEDULE ") || !strings.Contains(other, "SCHEDULE ")
}
