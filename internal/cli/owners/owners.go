// Package owners maps the numbers of users and groups in a snapshot to those that the same names have on this machine.
//
// It refuses to know what they own.
package owners

import (
	"os/user"
	"strconv"

	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// ByName maps the numbers of a snapshot to those that the same names have here. Names that nobody has here keep
// their number.
func ByName(s *snapshot.Snapshot) func(uid, gid uint32) (uint32, uint32) {
	users := mapIDs(s.Users, func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
	groups := mapIDs(s.Groups, func(name string) (string, error) {
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

func mapIDs(names map[uint32]string, look func(string) (string, error)) map[uint32]uint32 {
	ids := map[uint32]uint32{}
	for id, name := range names {
		text, err := look(name)
		if err != nil {
			continue
		}
		if here, err := strconv.ParseUint(text, 10, 32); err == nil {
			ids[id] = uint32(here)
		}
	}
	return ids
}
