package localfs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// What can forbid a rename is set after it, and everything is set once.
func TestWhatForbidsARenameIsLate(t *testing.T) {
	acl := "system.posix_acl_access"
	if aclsForbid {
		acl = "tidemark.acl"
	}
	listed := &tree.Node{Xattrs: []tree.Xattr{{Name: "user.x"}, {Name: acl}}}
	require.True(t, late(listed, true))
	require.False(t, late(listed, false))
	require.Equal(t, aclsForbid, Late(listed))
	require.False(t, late(&tree.Node{Xattrs: []tree.Xattr{{Name: "user.x"}}}, true))
	require.True(t, late(&tree.Node{Flags: 1}, false))

	for _, all := range []ApplyOptions{{}, {SkipXattrs: true}, {SkipFlags: true}, {ForeignFlags: true}} {
		before, after := all.BeforeName(), all.AfterName()
		require.True(t, before.SkipFlags)
		require.Equal(t, all.SkipFlags, after.SkipFlags)
		require.Equal(t, all.ForeignFlags, after.ForeignFlags)
		require.Equal(t, all.SkipXattrs, before.SkipXattrs)
		require.True(t, after.SkipOwner && after.SkipMode && after.SkipTimes)
		setBefore, setAfter := !before.SkipXattrs && !before.skipACLs, !after.SkipXattrs
		require.Equal(t, !all.SkipXattrs, setBefore != setAfter, "lists are set once, if at all")
		require.False(t, !after.SkipXattrs && !after.onlyACLs, "other attributes are not set again")
	}
}
