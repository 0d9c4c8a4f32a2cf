package backup

import (
	"maps"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/scan"
)

// owners collects the user and group IDs that occur, so that their names can be kept once, in the snapshot.
type owners struct {
	mu     sync.Mutex
	users  map[uint32]bool
	groups map[uint32]bool
}

// see books the owners of a directory's entries. Runs of the same owner, which is nearly everything, cost a comparison.
func (o *owners) see(entries []scan.Entry) {
	var uid, gid uint32
	for i := range entries {
		e := &entries[i]
		if i > 0 && e.UID == uid && e.GID == gid {
			continue
		}
		uid, gid = e.UID, e.GID
		o.add(uid, gid)
	}
}

func (o *owners) add(uid, gid uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.users == nil {
		o.users, o.groups = map[uint32]bool{}, map[uint32]bool{}
	}
	o.users[uid], o.groups[gid] = true, true
}

func (o *owners) lists() (users, groups map[uint32]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.users), maps.Clone(o.groups)
}
