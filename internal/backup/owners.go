package backup

import (
	"os/user"
	"strconv"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
)

// owners is the set of user and group IDs in a backup, whose names are stored once, in the snapshot. It is safe for
// concurrent use.
type owners struct {
	mu     sync.Mutex
	users  map[uint32]bool
	groups map[uint32]bool
}

// addEntries adds the owners of a directory's entries. Runs of the same owner, which are the rule, cost a comparison
// each.
func (s *owners) addEntries(entries []scan.Entry) {
	var uid, gid uint32
	for i := range entries {
		e := &entries[i]
		if i > 0 && e.UID == uid && e.GID == gid {
			continue
		}
		uid, gid = e.UID, e.GID
		s.add(uid, gid)
	}
}

// add adds one owner.
func (s *owners) add(uid, gid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil {
		s.users, s.groups = map[uint32]bool{}, map[uint32]bool{}
	}
	s.users[uid], s.groups[gid] = true, true
}

// names looks up the names that the owners have on this machine. An owner without one is left out.
func (s *owners) names() (users, groups map[uint32]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return namesOf(s.users, userName), namesOf(s.groups, groupName)
}

func namesOf(ids map[uint32]bool, lookup func(string) string) map[uint32]string {
	named := map[uint32]string{}
	for id := range ids {
		if name := lookup(strconv.FormatUint(uint64(id), 10)); name != "" {
			named[id] = name
		}
	}
	return named
}

func userName(id string) string {
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return ""
}

func groupName(id string) string {
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return ""
}
