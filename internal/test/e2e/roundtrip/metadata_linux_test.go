package roundtrip

import (
	"os"
	"testing"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func metadata(t *testing.T) (testkit.Dir, map[string]string) {
	testkit.RequireTool(t, "setfacl")
	tree := testkit.Dir{
		"acl":       testkit.With{Of: testkit.File{Data: []byte("a")}, Mode: 0o640, ACL: "u:1234:rw"},
		"inherited": testkit.With{Of: testkit.Dir{"in": testkit.File{Data: []byte("i")}}, ACL: "d:g:4321:r-x"},
		"attribute": testkit.With{Of: testkit.File{Data: []byte("b")}, Xattrs: map[string]string{"user.note": "a\x00b"}},
		"flag":      testkit.With{Of: testkit.File{Data: []byte("c")}, Flags: testkit.FlagNoDump},
	}
	lost := map[string]string{"acl": "system.posix_acl_access", "inherited": "system.posix_acl_default",
		"attribute": "user.note", "flag": "flags"}
	if os.Geteuid() == 0 {
		tree["locked"] = testkit.With{Of: testkit.File{Data: []byte("d")}, Flags: testkit.FlagImmutable}
		tree["link"] = testkit.With{Of: testkit.Symlink{Target: "acl"}, Xattrs: map[string]string{"trusted.note": "l"}}
		lost["locked"], lost["link"] = "flags", "trusted.note"
	}
	return tree, lost
}
