package roundtrip

import (
	"testing"
	"time"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func metadata(*testing.T) (testkit.Dir, map[string]string) {
	const hidden = 0x8000 // UF_HIDDEN of sys/stat.h
	file := func(text string) testkit.File { return testkit.File{Data: []byte(text)} }
	birth := time.Date(2001, 3, 24, 9, 0, 0, 123_456_000, time.UTC)
	tree := testkit.Dir{
		"acl":       testkit.With{Of: file("a"), Mode: 0o640, ACL: "everyone deny delete"},
		"large":     testkit.With{Of: testkit.File{Data: testkit.Noise(7, 5<<20)}, ACL: "everyone deny delete"},
		"inherited": testkit.With{Of: testkit.Dir{"in": file("i")}, ACL: "everyone allow list,file_inherit"},
		"fork": testkit.With{Of: file("b"), Xattrs: map[string]string{
			"com.apple.ResourceFork": string(testkit.Noise(5, 70_000)), "org.example.note": "a\x00b"}},
		"finder": testkit.With{Of: file("c"), Xattrs: map[string]string{
			"com.apple.FinderInfo": "TEXTttxt" + string(make([]byte, 24))}},
		"flag":       testkit.With{Of: file("d"), Flags: hidden | testkit.FlagNoDump},
		"locked":     testkit.With{Of: file("e"), Flags: testkit.FlagImmutable, ACL: "everyone deny write"},
		"born":       testkit.With{Of: file("f"), Birth: birth, Mtime: birth.AddDate(1, 0, 0)},
		"folder":     testkit.With{Of: testkit.Dir{"in": file("g")}, Birth: birth},
		"compressed": testkit.With{Of: testkit.File{Data: testkit.Text(6, 64<<10)}, Compressed: true},
		"link":       testkit.With{Of: testkit.Symlink{Target: "acl"}, Xattrs: map[string]string{"org.example.note": "l"}},
	}
	return tree, map[string]string{"acl": "ACL", "large": "ACL", "inherited": "ACL", "fork": "com.apple.ResourceFork",
		"finder": "com.apple.FinderInfo", "flag": "flags", "locked": "flags", "born": "birth time", "folder": "birth time",
		"link": "org.example.note"}
}
