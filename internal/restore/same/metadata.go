package same

import (
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Parts are parts of the metadata of an object.
type Parts uint8

// The parts, named as localfs.Problem names them.
const (
	Owner  Parts = 1 << iota
	Mode         // permissions
	Xattrs       // ACLs too
	Times
	Flags // if there should be some, or a look tells that there are
)

// rights belong together: a change of one of them can change another.
const rights = Owner | Mode | Xattrs

// lookFlags are flags that a look tells.
const lookFlags = localfs.AttrImmutable | localfs.AttrAppend | localfs.AttrNoDump

// Metadata returns what of the metadata of the entry name of in, of which st tells, is not that of n. What the options skip
// is not looked at, nor are flags which n does not have and of which a look does not tell; attributes that cannot be read
// differ.
func Metadata(in *localfs.Dir, name string, n *tree.Node, st *localfs.Stat, what localfs.ApplyOptions) (differ Parts) {
	if !what.SkipOwner && (st.UID != n.UID || st.GID != n.GID) {
		differ |= Owner
	}
	if !what.SkipMode && n.Type != tree.Symlink && st.Mode != n.Mode&0o7777 {
		differ |= Mode
	}
	if !what.SkipTimes && (st.Mtime != n.ModTime || n.Access != nil && st.Atime != *n.Access) {
		differ |= Times
	}
	if !what.SkipFlags && !what.ForeignFlags && (n.Flags != 0 || st.Attr&lookFlags != 0) {
		have, err := in.Flags(name, n.Type)
		if err == nil && (n.Flags&^have != 0 || have != n.Flags && st.Attr&lookFlags != 0) {
			differ |= Flags
		}
	}
	if !what.SkipXattrs && !sameXattrs(in, name, n) {
		differ |= Xattrs
	}
	return differ
}

// sameXattrs reports whether the attributes of an object are those of n, besides those that belong to the target.
func sameXattrs(in *localfs.Dir, name string, n *tree.Node) bool {
	there, err := in.Xattrs(name, n.Type)
	if err != nil {
		return localfs.Unsupported(err) && len(n.Xattrs) == 0
	}
	wanted := len(n.Xattrs)
	for _, x := range there {
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

// Only returns the options with which these parts are set, and all flags.
func (p Parts) Only(what localfs.ApplyOptions) localfs.ApplyOptions {
	if p&rights == 0 {
		what.SkipOwner, what.SkipMode, what.SkipXattrs = true, true, true
	}
	what.SkipTimes = what.SkipTimes || p&Times == 0
	return what
}

// Without returns the parts but those that could not be set.
func (p Parts) Without(ps []localfs.Problem) Parts {
	for _, problem := range ps {
		word, _, _ := strings.Cut(problem.What, " ")
		switch word {
		case "owner":
			p &^= Owner
		case "mode":
			p &^= Mode
		case "xattr", "xattrs", "acl":
			p &^= Xattrs
		case "times":
			p &^= Times
		case "flags":
			p &^= Flags
		default: // the object as a whole
			return 0
		}
	}
	return p
}
