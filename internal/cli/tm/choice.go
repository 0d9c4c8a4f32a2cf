package tm

import (
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/browse"
)

// Letter is a flag of compare that adds a property.
type Letter struct {
	Letter, Name, What string
	Property           Property
}

// Letters lists them, with tmutil's letters.
func Letters() []Letter {
	return []Letter{
		{"s", "sizes", "sizes of files", Size},
		{"d", "data", "contents of files", Data},
		{"t", "mtimes", "modification times", Modified},
		{"c", "crtimes", "creation times", Created},
		{"m", "modes", "permissions", Mode},
		{"u", "uids", "user IDs", UID},
		{"g", "gids", "group IDs", GID},
		{"f", "flags", "flags of files", Flags},
		{"e", "acls", "access control lists", ACL},
		{"@", "xattrs", "extended attributes", Xattrs},
		{"l", "links", "targets of symbolic links", Target},
	}
}

// Choice is what a comparison takes into account.
type Choice struct {
	All, None bool
	Depth     int // levels below the root of the comparison; 0: all
	Ignore    []string
	chosen    map[Property]*bool
}

// Flag returns where a flag stores that it was given.
func (c *Choice) Flag(p Property) *bool {
	if c.chosen == nil {
		c.chosen = map[Property]*bool{}
	}
	c.chosen[p] = new(bool)
	return c.chosen[p]
}

// Properties returns the properties that count; usual if none was chosen.
func (c *Choice) Properties(usual Property) (want Property) {
	for p, given := range c.chosen {
		if *given {
			want |= p
		}
	}
	switch {
	case c.All:
		return All
	case want == 0 && !c.None:
		return usual
	}
	return want
}

// LeavesOut reports whether a path is too deep below root or contains a name to be ignored.
func (c *Choice) LeavesOut(path, root string) bool {
	names := strings.FieldsFunc(strings.TrimPrefix(path, root), func(r rune) bool { return r == '/' })
	return c.Depth > 0 && len(names) > c.Depth ||
		slices.ContainsFunc(names, func(name string) bool { return slices.Contains(c.Ignore, name) })
}

// NewDifference returns a change as a difference; nil if none of the wanted properties differs.
func NewDifference(c browse.Change, want Property) *Difference {
	d := &Difference{Change: c}
	if c.Old != nil && c.New != nil {
		if d.Properties = Differing(&c, want); d.Properties == 0 {
			return nil
		}
	}
	return d
}
