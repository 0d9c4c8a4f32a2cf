package localfs

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// macNode is an object in a kernel of macOS, as far as setattrlist of vfs_attrlist.c and vnode_authattr of vfs_subr.c
// decide what may be set.
type macNode struct {
	st       uint32 // st_flags
	root     bool
	mod      tree.Time
	birth    tree.Time
	access   tree.Time
	acl      []byte // a kauth_filesec
	noStat   error  // of stat
	noFlags  error  // of setting any flag: the file system has none
	noBirth  error  // of setting the birth time
	noACL    error  // of reading the list
	attempts int
}

func (m *macNode) flags() (uint32, error) { return m.st, m.noStat }

func (m *macNode) attributes(set bool, common uint32, buf []byte) error {
	if !set {
		if common != macSecurity || m.noACL != nil {
			return m.noACL
		}
		copy(buf, attributes(m.acl, 0))
		return nil
	}
	m.attempts++
	if common == macSecurity {
		size := binary.LittleEndian.Uint32(buf[4:])
		if binary.LittleEndian.Uint32(buf) != macACLReference || int(size) != len(buf)-macACLReference {
			return unix.EINVAL // "size does not match"
		}
		m.acl = buf[macACLReference:]
		return nil
	}
	if common == macFlags {
		next := binary.LittleEndian.Uint32(buf)
		switch {
		case m.noFlags != nil:
			return m.noFlags
		case !m.root && (m.st^next)&^0xffff != 0:
			return unix.EPERM // "user attempt to set illegal flag(s)"
		}
		m.st = next
		return nil
	}
	if common&macBirthTime != 0 && m.noBirth != nil {
		return m.noBirth
	}
	for _, one := range []struct {
		attr uint32
		to   *tree.Time
	}{{macBirthTime, &m.birth}, {macModTime, &m.mod}, {macAccessTime, &m.access}} {
		if common&one.attr == 0 {
			continue
		}
		*one.to = tree.Time{Sec: int64(binary.LittleEndian.Uint64(buf)), Nsec: uint32(binary.LittleEndian.Uint64(buf[8:]))}
		buf = buf[16:]
	}
	if len(buf) > 0 || common&^(macBirthTime|macModTime|macAccessTime) != 0 {
		return unix.EINVAL
	}
	return nil
}

// A user who may not set the flags of root still sets those of the owner, and the error names the others only.
func TestFlagsOfRootDoNotCostThoseOfTheOwner(t *testing.T) {
	const owner, system, tracked = macHidden | macNoDump, macFixed | macArchived, 0x40
	for name, c := range map[string]struct {
		node     macNode
		want     uint32
		left     uint32
		err      string
		attempts int
	}{
		"root sets all":            {macNode{root: true}, owner | system, owner | system, "", 1},
		"a user sets the owner's":  {macNode{}, owner | system, owner, "flags 0x30000: operation not permitted", 2},
		"only flags of root":       {macNode{}, system, 0, "flags 0x30000: operation not permitted", 1},
		"as wanted":                {macNode{st: owner | system}, owner | system, owner | system, "", 0},
		"other flags stay":         {macNode{st: tracked | macNoDump}, macHidden, tracked | macHidden, "", 1},
		"no file flags, as on FAT": {macNode{noFlags: unix.ENOTSUP}, owner, 0, "flags 0x8001: operation not supported", 1},
		"root's is set": {macNode{st: macFixed}, owner, macFixed | owner,
			"flags 0x20000: operation not permitted", 2},
		"gone": {macNode{noStat: unix.ENOENT}, owner, 0, "no such file or directory", 0},
	} {
		node := c.node
		err := changeMacFlags(&node, c.want, macKeptFlags)
		if c.err == "" {
			require.NoError(t, err, name)
		} else {
			require.EqualError(t, err, c.err, name)
		}
		require.Equal(t, []any{c.left, c.attempts}, []any{node.st, node.attempts}, name)
	}
}

// Flags that have another meaning, or that only the system sets, are reported and not set.
func TestForeignFlagsAreNotSet(t *testing.T) {
	for name, c := range map[string]struct {
		flags   uint64
		foreign bool
		ok      bool
		err     bool
	}{
		"none":             {0, false, true, false},
		"none, of Linux":   {0, true, false, false},
		"hidden":           {macHidden, false, true, false},
		"hidden, of Linux": {macHidden, true, false, true},
		"compressed":       {macCompressed, false, false, true},
		"dataless":         {macDataless | macHidden, false, false, true},
	} {
		ok, err := foreignMacFlags(&tree.Node{Flags: c.flags}, c.foreign)
		require.Equal(t, c.ok, ok, name)
		if c.err {
			require.ErrorIs(t, err, ErrNotKept, name)
		} else {
			require.NoError(t, err, name)
		}
	}
	require.EqualValues(t, 0x17800f, macKeptFlags, "as docs/metadata.md says")
}

// Before an object is changed, its protecting flags and its list go; other flags stay.
func TestUnprotectOnMacOS(t *testing.T) {
	acl := fileSecurity(1)
	node := macNode{root: true, st: macFixed | macNoUnlink | macHidden, acl: acl}
	require.NoError(t, unprotectMac(&node))
	require.EqualValues(t, macHidden, node.st)
	require.EqualValues(t, uint32(macACLNone), binary.LittleEndian.Uint32(node.acl[macACLCount:]))

	node = macNode{st: macFixed, acl: acl}
	require.ErrorIs(t, unprotectMac(&node), unix.EPERM)
	require.Equal(t, acl, node.acl, "it is not changed by half")
	for _, none := range []error{unix.EINVAL, unix.ENOTSUP, unix.EACCES} {
		node = macNode{st: macImmutable, noACL: none}
		require.NoError(t, unprotectMac(&node), "%v", none)
		require.Equal(t, []any{uint32(0), 1}, []any{node.st, node.attempts}, "%v", none)
	}
}

// Times are set in the order of getattrlist, the others also where the file system refuses a birth time.
func TestTimesOnMacOS(t *testing.T) {
	birth, mod, access := tree.Time{Sec: -1, Nsec: 2}, tree.Time{Sec: 1 << 40, Nsec: 999_999_999}, tree.Time{Sec: 5}
	for name, c := range map[string]struct {
		noBirth error
		n       tree.Node
		want    [3]tree.Time
		err     error
	}{
		"all": {nil, tree.Node{Born: &birth, ModTime: mod, Access: &access},
			[3]tree.Time{birth, mod, access}, nil},
		"modified alone": {unix.EPERM, tree.Node{ModTime: mod}, [3]tree.Time{1: mod}, nil},
		"EINVAL": {unix.EINVAL, tree.Node{Born: &birth, ModTime: mod, Access: &access},
			[3]tree.Time{1: mod, 2: access}, nil},
		"ENOTSUP": {unix.ENOTSUP, tree.Node{Born: &birth, ModTime: mod}, [3]tree.Time{1: mod}, nil},
		"EPERM":   {unix.EPERM, tree.Node{Born: &birth, ModTime: mod}, [3]tree.Time{}, unix.EPERM},
	} {
		node := macNode{noBirth: c.noBirth}
		require.ErrorIs(t, setMacTimes(&node, &c.n), c.err, name)
		require.Equal(t, c.want, [3]tree.Time{node.birth, node.mod, node.access}, name)
	}
}

// A file system without lists has none; any other error is reported, since a list could be lost.
func TestReadingAListOnMacOS(t *testing.T) {
	for _, none := range []error{unix.EINVAL, unix.ENOTSUP} {
		got, err := macACLOf(&macNode{noACL: none})
		require.NoError(t, err)
		require.Nil(t, got)
	}
	for _, failed := range []error{unix.EPERM, unix.EACCES, unix.EIO} {
		_, err := macACLOf(&macNode{noACL: failed})
		require.ErrorIs(t, err, failed)
		require.ErrorContains(t, err, macACLName)
	}
	node := macNode{acl: fileSecurity(2)}
	got, err := macACLOf(&node)
	require.NoError(t, err)
	require.Equal(t, []tree.Xattr{{Name: macACLName, Value: node.acl}}, got)
	require.NoError(t, setMacACL(&node, fileSecurity(3)))
	require.Equal(t, fileSecurity(3), node.acl)
	require.NoError(t, setMacACL(&node, nil))
	got, err = macACLOf(&node)
	require.NoError(t, err)
	require.Nil(t, got)
	require.ErrorIs(t, setMacACL(&node, []byte("POSIX")), ErrNotKept)
}

// Content is read of regular files that are on this machine; a file that went to the cloud meanwhile is one of them.
func TestWhatIsOpenedForItsContentOnMacOS(t *testing.T) {
	require.NoError(t, mayRead(&Stat{Type: tree.File}))
	require.ErrorIs(t, mayRead(&Stat{Type: tree.File, Attr: AttrDataless | AttrCompressed}), ErrDataless)
	for typ := tree.Dir; typ <= tree.BlockDevice; typ++ {
		require.ErrorIs(t, mayRead(&Stat{Type: typ}), ErrNotRegular)
	}
	require.ErrorIs(t, openErrorOfMac(unix.EDEADLK), ErrDataless)
	require.ErrorIs(t, openErrorOfMac(unix.EDEADLK), unix.EDEADLK)
	require.Equal(t, unix.EPERM, openErrorOfMac(unix.EPERM))
}
