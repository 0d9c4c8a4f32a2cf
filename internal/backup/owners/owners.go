// Package owners collects who owns what is backed up, so that names are kept once, in the snapshot.
package owners

import (
	"os/user"
	"strconv"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/scan"
)

// Set holds the user and group IDs that occur. The zero value is empty; it may be used by several goroutines.
type Set struct {
	mu     sync.Mutex
	users  map[uint32]bool
	groups map[uint32]bool
}

// See adds the owners of a directory's entries. Runs of the same owner, which is nearly everything, cost a comparison.
func (s *Set) See(entries []scan.Entry) {
	var uid, gid uint32
	for i := range entries {
		e := &entries[i]
		if i > 0 && e.UID == uid && e.GID == gid {
			continue
		}
		uid, gid = e.UID, e.GID
		s.Add(uid, gid)
	}
}

// Add adds one owner.
func (s *Set) Add(uid, gid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == nil {
		s.users, s.groups = map[uint32]bool{}, map[uint32]bool{}
	}
	s.users[uid], s.groups[gid] = true, true
}

// Names looks up what the owners are called here. One without a name is left out.
func (s *Set) Names() (users, groups map[uint32]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return names(s.users, lookUpUser), names(s.groups, lookUpGroup)
}

func names(ids map[uint32]bool, look func(string) string) map[uint32]string {
	named := map[uint32]string{}
	for id := range ids {
		if name := look(strconv.FormatUint(uint64(id), 10)); name != "" {
			named[id] = name
		}
	}
	return named
}

func lookUpUser(id string) string {
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return ""
}

func lookUpGroup(id string) string {
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return ""
}
