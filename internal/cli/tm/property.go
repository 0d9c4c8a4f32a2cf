package tm

import (
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Property is a set of properties in which two objects of one name can differ.
type Property uint16

// The properties.
const (
	Size     Property = 1 << iota // of files
	Data                          // content of files
	Modified                      // time; of folders it does not count: it changes with their content
	Created                       // time, where both sides have it
	Mode
	UID
	GID
	Flags  // of the inode
	ACL    // access control lists
	Xattrs // other extended attributes
	Target // of a symbolic link
	Type   // always counts
)

// Usual is what counts if nothing else is asked for; All is everything.
const (
	Usual = Size | Modified | Mode | UID | GID | Target
	All   = Type - 1
)

// Strings returns the properties in tmutil's words.
func (p Property) Strings() (all []string) {
	words := []string{"size", "data", "mtime", "crtime", "mode", "uid", "gid", "flags", "acl", "xattr", "target", "type"}
	for i, word := range words {
		if p&(1<<i) != 0 {
			all = append(all, word)
		}
	}
	return all
}

func (p Property) String() string { return strings.Join(p.Strings(), ", ") }

// Differing returns in which of the wanted properties the two sides of a change differ. Content counts as Data if the
// comparison says that it differs.
func Differing(c *browse.Change, want Property) (p Property) {
	a, b := c.Old, c.New
	if a.Type != b.Type {
		return Type
	}
	set := func(property Property, differs bool) {
		if differs {
			p |= property
		}
	}
	set(Size, a.Type == tree.File && a.Size != b.Size)
	set(Data, c.Status&browse.Content != 0)
	set(Modified, a.Type != tree.Dir && a.ModTime != b.ModTime)
	set(Created, a.Born != nil && b.Born != nil && *a.Born != *b.Born)
	set(Mode, a.Mode != b.Mode)
	set(UID, a.UID != b.UID)
	set(GID, a.GID != b.GID)
	set(Flags, a.Flags != b.Flags)
	set(Target, a.Target != b.Target || a.Device != b.Device)
	if want&(ACL|Xattrs) != 0 {
		aLists, aOther := split(a.Xattrs)
		bLists, bOther := split(b.Xattrs)
		set(ACL, !maps.Equal(aLists, bLists))
		set(Xattrs, !maps.Equal(aOther, bOther))
	}
	return p & want
}

// split separates access control lists from other extended attributes.
func split(list []tree.Xattr) (lists, other map[string]string) {
	lists, other = map[string]string{}, map[string]string{}
	for _, x := range list {
		if isACL(x.Name) {
			lists[x.Name] = string(x.Value)
		} else {
			other[x.Name] = string(x.Value)
		}
	}
	return lists, other
}

// isACL reports whether an attribute is an access control list; the last name is that of a list of macOS.
func isACL(name string) bool {
	return slices.Contains([]string{
		"system.posix_acl_access", "system.posix_acl_default", "system.nfs4_acl", "tidemark.acl",
	}, name)
}
