package localfs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// fileCapability is a value of security.capability: version 2, cap_net_raw permitted and effective.
func fileCapability() []byte {
	p := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	p = binary.LittleEndian.AppendUint32(p, 1<<13)
	return append(p, make([]byte, 12)...)
}

// posixACL is the wire form of an access control list: owner, named user, group, mask, other.
func posixACL(uid uint32) []byte {
	p := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 7, ^uint32(0)}, {2, 6, uid}, {4, 5, ^uint32(0)}, {16, 6, ^uint32(0)}, {32, 4, ^uint32(0)}} {
		p = binary.LittleEndian.AppendUint16(p, e.tag)
		p = binary.LittleEndian.AppendUint16(p, e.perm)
		p = binary.LittleEndian.AppendUint32(p, e.id)
	}
	return p
}

// wanted is one node per type with everything that a privileged restore can set on it.
func wanted() []*tree.Node {
	access := tree.Time{Sec: 1_400_000_000, Nsec: 111_222_333}
	user := tree.Xattr{Name: "user.note", Value: []byte("a\x00b")}
	empty := tree.Xattr{Name: "user.empty", Value: []byte{}}
	large := tree.Xattr{Name: "user.large", Value: bytes.Repeat([]byte("v"), 1500)}
	trusted := tree.Xattr{Name: "trusted.note", Value: []byte("only root")}
	acl := tree.Xattr{Name: "system.posix_acl_access", Value: posixACL(1234)}
	inherit := tree.Xattr{Name: "system.posix_acl_default", Value: posixACL(4321)}
	capability := tree.Xattr{Name: "security.capability", Value: fileCapability()}
	nodes := []*tree.Node{
		{
			Name: "file", Type: tree.File, Mode: 0o6755, Flags: flagNoDump | flagNoAtime,
			Xattrs: []tree.Xattr{capability, trusted, empty, large, user},
		},
		{Name: "read-only", Type: tree.File, Mode: 0o444, Xattrs: []tree.Xattr{user}},
		{Name: "nothing", Type: tree.File, Mode: 0},
		{Name: "immutable", Type: tree.File, Mode: 0o640, Flags: flagImmutable, Xattrs: []tree.Xattr{user}},
		{Name: "append", Type: tree.File, Mode: 0o640, Flags: flagAppend | flagSync},
		{Name: "acl", Type: tree.File, Mode: 0o764, Xattrs: []tree.Xattr{acl}},
		{Name: "dir", Type: tree.Dir, Mode: 0o3764, Xattrs: []tree.Xattr{acl, inherit, trusted, user}, Flags: flagDirSync},
		{Name: "symlink", Type: tree.Symlink, Mode: 0o777, Target: "to \xff", Xattrs: []tree.Xattr{trusted}},
		{Name: "fifo", Type: tree.Fifo, Mode: 0o622, Xattrs: []tree.Xattr{trusted}},
		{Name: "socket", Type: tree.Socket, Mode: 0o711},
		{Name: "char", Type: tree.CharDevice, Mode: 0o660, Device: device(1, 3), Xattrs: []tree.Xattr{trusted}},
		{Name: "block", Type: tree.BlockDevice, Mode: 0o640, Device: device(7, 200)},
	}
	for i, n := range nodes {
		n.UID, n.GID = 1000+uint32(i), 2000+uint32(i)
		n.ModTime = tree.Time{Sec: 1_200_000_000 + int64(i), Nsec: 123_456_789}
		n.Access = &access
	}
	return nodes
}

// withOlderCalls has d do without the calls for attributes relative to a directory.
func withOlderCalls(d *Dir) { d.host.noXattrAt.Store(true) }

func bornOf(*Stat) *tree.Time { return nil } // a restore cannot set it

func TestEverythingAppliedIsReadBack(t *testing.T) {
	needRoot(t)
	d, _ := openTemp(t)
	if info, err := d.FS(); err != nil || info.Type != "ext4" && info.Type != "btrfs" {
		t.Skipf("the temporary directory is on %s, which does not keep all of it", info.Type)
	}
	roundTrip(t, d)
}

// The same on file systems made for it: this is where masks and orders differ.
func TestEverythingOnOtherFileSystems(t *testing.T) {
	needRoot(t)
	for kind, c := range map[string]struct {
		size int64
		mkfs []string
	}{
		"ext4":  {16 << 20, []string{"mkfs.ext4", "-q", "-F", "-b", "4096"}},
		"xfs":   {320 << 20, []string{"mkfs.xfs", "-q", "-f"}},
		"btrfs": {128 << 20, []string{"mkfs.btrfs", "-q", "-f"}},
	} {
		t.Run(kind, func(t *testing.T) {
			path := mountImage(t, kind, c.size, c.mkfs)
			d, err := OpenDir(path)
			require.NoError(t, err)
			t.Cleanup(d.Release)
			info, err := d.FS()
			require.NoError(t, err)
			require.Equal(t, kind, info.Type)
			require.True(t, info.StableInodes)
			if kind == "xfs" { // has no dirsync; the rest of the flags is set nevertheless
				create(t, d, &tree.Node{Name: "x", Type: tree.Dir})
				n := owned("x", tree.Dir, 0o700)
				n.Flags = flagDirSync | flagNoDump | flagImmutable
				ps := d.Apply("x", n, ApplyOptions{})
				require.Len(t, ps, 1)
				require.Equal(t, "flags", ps[0].What)
				require.ErrorContains(t, ps[0].Err, fmt.Sprintf("%#x", flagDirSync))
				flags, err := d.Flags("x", tree.Dir)
				require.NoError(t, err)
				require.EqualValues(t, flagNoDump|flagImmutable, flags)
				require.NoError(t, d.Unprotect("x"))
				return
			}
			roundTrip(t, d)
			if kind == "btrfs" {
				noCow(t, d)
			}
		})
	}
}

// noCow: a flag that must be there before the content.
func noCow(t *testing.T, d *Dir) {
	n := &tree.Node{Type: tree.File, Mode: 0o600, Flags: flagNoCow}
	for _, prepared := range []bool{true, false} {
		w, err := d.CreateFile(fmt.Sprint("cow", prepared))
		require.NoError(t, err)
		if prepared {
			require.Empty(t, w.Prepare(n))
		}
		_, err = w.WriteAt(make([]byte, 1<<16), 0)
		require.NoError(t, err)
		ps := w.SetMeta(n, ApplyOptions{SkipOwner: true, SkipTimes: true})
		require.NoError(t, w.Close())
		require.Equal(t, prepared, len(ps) == 0, "%v", ps)
	}
}

// mountImage makes a file system in a file and mounts it. A cleanup unmounts it, after those that its user adds.
func mountImage(t *testing.T, kind string, size int64, mkfs []string) string {
	t.Helper()
	if _, err := exec.LookPath(mkfs[0]); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	image, path := filepath.Join(dir, "image"), filepath.Join(dir, "mount")
	write(t, image, "")
	require.NoError(t, os.Truncate(image, size))
	text, err := exec.Command(mkfs[0], append(mkfs[1:], image)...).CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.NoError(t, os.Mkdir(path, 0o755))
	if text, err := exec.Command("mount", "-t", kind, "-o", "loop", image, path).CombinedOutput(); err != nil {
		t.Skipf("cannot mount %s here: %s", kind, text)
	}
	t.Cleanup(func() {
		text, err := exec.Command("umount", path).CombinedOutput()
		require.NoError(t, err, "%s", text)
	})
	return path
}
