package setup

import (
	"slices"

	"github.com/tidemark-backup/tidemark/internal/repo"
)

// Choose returns the snapshot whose option file is wanted: the newest of a host that has one, if possible of the same
// user. Without a host it is the one of this machine, or the only one. hosts are those that have an option file.
func Choose(all []repo.Listed, host, here, user string) (chosen *repo.Listed, hosts []string) {
	var ours []*repo.Listed
	for i := range all {
		one := &all[i]
		if one.Err != nil || one.Snapshot.Setup == "" {
			continue
		}
		if !slices.Contains(hosts, one.Snapshot.Host) {
			hosts = append(hosts, one.Snapshot.Host)
		}
		ours = append(ours, one)
	}
	switch {
	case host != "":
	case slices.Contains(hosts, here):
		host = here
	case len(hosts) == 1:
		host = hosts[0]
	}
	rank := func(one *repo.Listed) int {
		if one.Snapshot.User == user {
			return 1
		}
		return 0
	}
	for _, one := range ours {
		if one.Snapshot.Host == host && (chosen == nil || rank(one) >= rank(chosen)) { // oldest first
			chosen = one
		}
	}
	return chosen, hosts
}
