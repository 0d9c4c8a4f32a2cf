package localfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// No object is opened for its attributes if that has an effect.
func TestWhatIsOpenedForItsAttributes(t *testing.T) {
	for typ, want := range map[tree.Type]bool{
		tree.File: true, tree.Dir: true, tree.Symlink: true,
		tree.Fifo: false, tree.Socket: false, tree.CharDevice: false, tree.BlockDevice: false,
	} {
		require.Equal(t, want, mayOpen(&Stat{Type: typ}), "%v", typ)
		require.False(t, mayOpen(&Stat{Type: typ, Attr: AttrDataless}), "%v", typ)
	}
}

// A birth time that the file system does not have is unknown; one before 1970 is known.
func TestZeroIsNoBirthTimeOnMacOS(t *testing.T) {
	require.Equal(t, tree.Time{Sec: UnknownTime}, birthOf(0, 0))
	require.Equal(t, tree.Time{Nsec: 1}, birthOf(0, 1))
	require.Equal(t, tree.Time{Sec: -1}, birthOf(-1, 0))
}

// Attributes of the system are neither set nor removed; those of programs are.
func TestAttributesOfMacOSItself(t *testing.T) {
	for name, want := range map[string]bool{
		"com.apple.provenance": true, "com.apple.macl": true, "com.apple.rootless": true,
		"com.apple.ResourceFork": false, "com.apple.FinderInfo": false, "com.apple.quarantine": false, "user.x": false,
	} {
		require.Equal(t, want, ownedBySystem(name), name)
	}
}

// Holes that are not believed are data, and an empty file has neither.
func TestHolesThatAreNotBelieved(t *testing.T) {
	at := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(at, "f"), nil, 0o600))
	require.NoError(t, os.Truncate(filepath.Join(at, "f"), 1<<20))
	dir, err := OpenDir(at)
	require.NoError(t, err)
	defer dir.Release()
	f, err := dir.OpenFile("f")
	require.NoError(t, err)
	defer f.Close()
	calls := 0
	yield := func(off, n uint64, hole bool) error {
		calls++
		require.Equal(t, []any{uint64(0), uint64(1 << 20), false}, []any{off, n, hole})
		return nil
	}
	require.NoError(t, f.extents(false, 0, 1<<20, yield))
	require.NoError(t, f.extents(false, 0, 0, yield))
	require.Equal(t, 1, calls)
}

func TestDevicesOfMacOSHaveNoAttributes(t *testing.T) {
	for typ := tree.File; typ <= tree.BlockDevice; typ++ {
		require.Equal(t, typ != tree.CharDevice && typ != tree.BlockDevice, macHasXattrs(typ))
	}
}

func TestAttributesOfTheFlagsOfMacOS(t *testing.T) {
	for flag, want := range map[uint32]uint64{
		0x1: AttrNoDump, 0x2: AttrImmutable, 0x4: AttrAppend, 0x8: 0, 0x20: AttrCompressed, 0x40: 0, 0x8000: 0,
		0x10000: 0, 0x20000: AttrImmutable, 0x40000: AttrAppend, 0x100000: 0, 0x40000000: AttrDataless,
		0x40000000 | 0x20: AttrDataless | AttrCompressed,
	} {
		require.Equal(t, want, attrsOfMac(flag), "%#x", flag)
	}
}

// A share of an unknown type is remote by its flag, and hidden volumes are not backed up as disks of their own.
func TestMountFlagsOfMacOS(t *testing.T) {
	for name, c := range map[string]struct {
		kind                    string
		flags                   uint32
		local, remote, readOnly bool
	}{
		"system, at the root": {"apfs", 0x1001, true, false, true},
		"data, hidden":        {"apfs", 0x101000, false, false, false},
		"USB disk":            {"exfat", 0x1000, true, false, false},
		"share":               {"smbfs", 0, false, true, false},
		"unknown server":      {"newfs", 0, false, true, false},
		"devices":             {"devfs", 0, false, false, false},
		"devices, local":      {"devfs", 0x1000, false, false, false},
	} {
		m, info := Mount{Type: c.kind}, FSInfo{Type: c.kind}
		m.setMacFlags(c.flags)
		info.setMacFlags(c.flags)
		require.Equal(t, []bool{c.local, c.remote, c.readOnly, c.readOnly},
			[]bool{m.Local, info.Remote, m.ReadOnly, info.ReadOnly}, name)
	}
}
