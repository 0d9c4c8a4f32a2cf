package restore

import (
	"os/user"
	"strconv"

	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// OwnersByName maps the user and group IDs of a snapshot to the IDs that the same names have on this machine. A name
// that does not exist here keeps its ID.
func OwnersByName(s *snapshot.Snapshot) func(uid, gid uint32) (uint32, uint32) {
	users := localIDs(s.Users, func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
	groups := localIDs(s.Groups, func(name string) (string, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	})
	return func(uid, gid uint32) (uint32, uint32) {
		if to, ok := users[uid]; ok {
			uid = to
		}
		if to, ok := groups[gid]; ok {
			gid = to
		}
		return uid, gid
	}
}

func localIDs(names map[uint32]string, lookup func(string) (string, error)) map[uint32]uint32 {
	ids := map[uint32]uint32{}
	for id, name := range names {
		text, err := lookup(name)
		if err != nil {
			continue
		}
		if here, err := strconv.ParseUint(text, 10, 32); err == nil {
			ids[id] = uint32(here)
		}
	}
	return ids
}
