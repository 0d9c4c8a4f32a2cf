package restore

import (
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// metadataParts is a set of kinds of metadata.
type metadataParts uint8

// Named as in localfs.Problem.
const (
	partOwner metadataParts = 1 << iota
	partMode
	partXattrs // including ACLs
	partTimes
	partFlags // expected by the node, or visible in the status
)

// partsOfAccess are set together: a change of one can alter another.
const partsOfAccess = partOwner | partMode | partXattrs

// statFlags are the inode flags that a status contains.
const statFlags = localfs.AttrImmutable | localfs.AttrAppend | localfs.AttrNoDump

// compareMetadata returns the parts in which the object o with status st differs from n. It ignores what the options
// skip, and flags that are neither in n nor in the status. Unreadable attributes count as different.
func compareMetadata(
	o *localfs.Entry, n *tree.Node, st *localfs.Stat, what localfs.ApplyOptions,
) (differ metadataParts) {
	if !what.SkipOwner && (st.UID != n.UID || st.GID != n.GID) {
		differ |= partOwner
	}
	if !what.SkipMode && n.Type != tree.Symlink && st.Mode != n.Mode&0o7777 {
		differ |= partMode
	}
	if !what.SkipTimes && (st.Mtime != n.ModTime || n.Access != nil && st.Atime != *n.Access) {
		differ |= partTimes
	}
	if !what.SkipFlags && !what.ForeignFlags && (n.Flags != 0 || st.Attr&statFlags != 0) {
		have, err := o.Flags()
		if err == nil && (n.Flags&^have != 0 || have != n.Flags && st.Attr&statFlags != 0) {
			differ |= partFlags
		}
	}
	if !what.SkipXattrs && !sameXattrs(o, n) {
		differ |= partXattrs
	}
	return differ
}

// sameXattrs compares extended attributes, except those that belong to the target.
func sameXattrs(o *localfs.Entry, n *tree.Node) bool {
	there, err := o.Xattrs()
	if err != nil {
		return localfs.Unsupported(err) && len(n.Xattrs) == 0
	}
	wanted := 0
	for i := range n.Xattrs {
		if localfs.Settable(n.Xattrs[i].Name) {
			wanted++
		}
	}
	for _, x := range there {
		if !localfs.Settable(x.Name) {
			continue
		}
		i := slices.IndexFunc(n.Xattrs, func(y tree.Xattr) bool { return y.Name == x.Name })
		switch {
		case i < 0 && localfs.Removable(x.Name), i >= 0 && string(n.Xattrs[i].Value) != string(x.Value):
			return false
		case i >= 0:
			wanted--
		}
	}
	return wanted == 0
}

func (p metadataParts) names() (names []string) {
	for i, name := range []string{"owner", "mode", "attributes", "times", "flags"} {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// only returns options that set these parts, and all flags.
func (p metadataParts) only(what localfs.ApplyOptions) localfs.ApplyOptions {
	if p&partsOfAccess == 0 {
		what.SkipOwner, what.SkipMode, what.SkipXattrs = true, true, true
	}
	what.SkipTimes = what.SkipTimes || p&partTimes == 0
	return what
}

// without removes the parts that could not be set.
func (p metadataParts) without(ps []localfs.Problem) metadataParts {
	for _, problem := range ps {
		word, _, _ := strings.Cut(problem.What, " ")
		switch word {
		case "owner":
			p &^= partOwner
		case "mode":
			p &^= partMode
		case "xattr", "xattrs", "acl":
			p &^= partXattrs
		case "times":
			p &^= partTimes
		case "flags":
			p &^= partFlags
		default: // the object as a whole
			return 0
		}
	}
	return p
}
