package localfs

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// macACL is a list with one entry: a user by its unique ID, allowed to read (struct kauth_filesec of sys/kauth.h).
func macACL() []byte {
	const permit, read, count = 1, 1 << 1, 1
	p := make([]byte, macACLHead+count*macACLEntry)
	binary.LittleEndian.PutUint32(p, macACLMagic)
	binary.LittleEndian.PutUint32(p[macACLCount:], count)
	entry := p[macACLHead:]
	// The unique ID of user 1234 that the system makes itself: FFFFEEEE-DDDD-CCCC-BBBB-AAAA and the number.
	copy(entry, []byte{0xff, 0xff, 0xee, 0xee, 0xdd, 0xdd, 0xcc, 0xcc, 0xbb, 0xbb, 0xaa, 0xaa, 0, 0, 0x04, 0xd2})
	binary.LittleEndian.PutUint32(entry[16:], permit)
	binary.LittleEndian.PutUint32(entry[20:], read)
	return p
}

// wanted is one node per type with everything that a restore can set on it; without root, of this user.
func wanted() []*tree.Node {
	const hidden = 0x8000 // UF_HIDDEN of sys/stat.h
	access, birth := tree.Time{Sec: 1_400_000_000, Nsec: 111_222_000}, tree.Time{Sec: 1_000_000_000, Nsec: 333_444_000}
	acl := tree.Xattr{Name: macACLName, Value: macACL()}
	fork := tree.Xattr{Name: "com.apple.ResourceFork", Value: bytes.Repeat([]byte("fork"), 20_000)}
	finder := tree.Xattr{Name: "com.apple.FinderInfo", Value: append([]byte("TEXTttxt"), make([]byte, 24)...)}
	note := tree.Xattr{Name: "org.example.note", Value: []byte("a\x00b")}
	nodes := []*tree.Node{
		{
			Name: "file", Type: tree.File, Mode: 0o755, Flags: unix.UF_NODUMP | hidden,
			Xattrs: []tree.Xattr{finder, fork, note},
		},
		{Name: "read-only", Type: tree.File, Mode: 0o444, Xattrs: []tree.Xattr{note}},
		{Name: "immutable", Type: tree.File, Mode: 0o640, Flags: unix.UF_IMMUTABLE, Xattrs: []tree.Xattr{note}},
		{Name: "append", Type: tree.File, Mode: 0o640, Flags: unix.UF_APPEND},
		{Name: "acl", Type: tree.File, Mode: 0o764, Xattrs: []tree.Xattr{acl}},
		{Name: "dir", Type: tree.Dir, Mode: 0o1764, Xattrs: []tree.Xattr{note, acl}},
		{Name: "symlink", Type: tree.Symlink, Mode: 0o755, Target: "to", Xattrs: []tree.Xattr{note}},
		{Name: "fifo", Type: tree.Fifo, Mode: 0o622},
		{Name: "socket", Type: tree.Socket, Mode: 0o711},
	}
	for i, n := range nodes {
		n.UID, n.GID = uint32(os.Geteuid()), uint32(os.Getegid())
		if os.Geteuid() == 0 {
			n.UID, n.GID = 1000+uint32(i), 2000+uint32(i)
		}
		n.ModTime = tree.Time{Sec: 1_200_000_000 + int64(i), Nsec: 123_456_000}
		n.Access, n.Born = &access, &birth
	}
	return nodes
}

// withOlderCalls changes nothing: there is one way on this system.
func withOlderCalls(*Dir) {}

func bornOf(st *Stat) *tree.Time {
	if st.Birth == (tree.Time{}) {
		return nil
	}
	return &st.Birth
}

func TestEverythingAppliedIsReadBack(t *testing.T) {
	d, _ := openTemp(t)
	roundTrip(t, d)
}
