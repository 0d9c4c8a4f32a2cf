package localfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Attributes of getattrlist(2) and setattrlist(2), ATTR_CMN of sys/attr.h. In a buffer they stand in this order.
const (
	macBirthTime  = 0x00000200
	macModTime    = 0x00000400
	macAccessTime = 0x00001000
	macFlags      = 0x00040000
	macSecurity   = 0x00400000
)

// Flags that a restore clears before it changes an object, and those that it sets.
const (
	macProtectFlags = macImmutable | macAppend | macFixed | macGrowing | macNoUnlink
	macKeptFlags    = macProtectFlags | macNoDump | macOpaque | macHidden | macArchived
)

// macObject is one object of macOS: the system calls that the functions below decide on.
type macObject interface {
	// flags returns st_flags.
	flags() (uint32, error)
	// attributes gets or sets the attributes common, which buf holds as getattrlist(2) says.
	attributes(set bool, common uint32, buf []byte) error
}

// changeMacFlags sets the flags in mask to those of want. A user who changes one flag of root gets EPERM for all of
// them (vnode_authattr of vfs_subr.c), so after a failure it tries the owner's flags alone.
func changeMacFlags(o macObject, want, mask uint32) error {
	have, err := o.flags()
	if err != nil {
		return err
	}
	set := func(flags uint32) error {
		return o.attributes(true, macFlags, binary.LittleEndian.AppendUint32(nil, flags))
	}
	next := have&^mask | want&mask
	if next == have {
		return nil
	}
	if err = set(next); err == nil {
		return nil
	}
	refused := have ^ next
	if mine := have&^(mask&macSettable) | want&mask&macSettable; mine != have && mine != next && set(mine) == nil {
		refused &^= macSettable
	}
	if refused == 0 {
		return nil
	}
	return fmt.Errorf("flags %#x: %w", refused, err)
}

// foreignMacFlags returns what macOS cannot keep of the flags of n; foreign: n comes from another platform. ok: its
// flags are set.
func foreignMacFlags(n *tree.Node, foreign bool) (ok bool, err error) {
	if !foreign && n.Flags&^macKeptFlags == 0 {
		return true, nil
	}
	if n.Flags != 0 {
		err = fmt.Errorf("flags %#x of another platform: %w", n.Flags, ErrNotKept)
	}
	return false, err
}

// unprotectMac clears the flags and removes the list that prevent a change of the object.
func unprotectMac(o macObject) error {
	if err := changeMacFlags(o, 0, macProtectFlags); err != nil {
		return err
	}
	if acl, err := macACLOf(o); err != nil || acl == nil {
		return nil // there is none, or what follows reports why it cannot be read
	}
	return setMacACL(o, nil)
}

// setMacTimes sets the birth time, if the node and the file system have one, the modification time and, if the node has
// one, the access time. A file system that refuses the birth time refuses the set as a whole.
func setMacTimes(o macObject, n *tree.Node) error {
	set := func(birth *tree.Time) error {
		var common uint32 = macModTime
		var buf []byte
		if birth != nil {
			common |= macBirthTime
			buf = appendTime(buf, *birth)
		}
		buf = appendTime(buf, n.ModTime)
		if n.Access != nil {
			common |= macAccessTime
			buf = appendTime(buf, *n.Access)
		}
		return o.attributes(true, common, buf)
	}
	err := set(n.Born)
	if n.Born != nil && (Unsupported(err) || errors.Is(err, unix.EINVAL)) {
		err = set(nil)
	}
	if err != nil {
		return fmt.Errorf("set times: %w", err)
	}
	return nil
}

// appendTime appends a struct timespec.
func appendTime(buf []byte, t tree.Time) []byte {
	buf = binary.LittleEndian.AppendUint64(buf, uint64(t.Sec))
	return binary.LittleEndian.AppendUint64(buf, uint64(t.Nsec))
}

// macACLOf returns the access control list, which macOS does not treat as an extended attribute; nil if there is none.
// A file system without lists answers EINVAL (vfs_attr_pack_internal of vfs_attrlist.c).
func macACLOf(o macObject) ([]tree.Xattr, error) {
	buf := make([]byte, macACLSize)
	err := o.attributes(false, macSecurity, buf)
	if Unsupported(err) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	var value []byte
	if err == nil {
		value, err = parseMacACL(buf)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", macACLName, err)
	}
	if value == nil {
		return nil, nil
	}
	return []tree.Xattr{{Name: macACLName, Value: append([]byte(nil), value...)}}, nil
}

// setMacACL sets the list, or removes it if value is empty.
func setMacACL(o macObject, value []byte) error {
	buf, err := formatMacACL(value)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	return o.attributes(true, macSecurity, buf)
}

// inside runs call on a thread whose working directory is dirfd, for calls that take only a path; chdir is
// pthread_fchdir_np, where -1 is the directory of the process. The thread is reused only after its directory was reset.
func inside(chdir func(fd int) error, dirfd int, call func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := chdir(dirfd)
		if err == nil {
			err = retry(call)
			if chdir(-1) == nil {
				runtime.UnlockOSThread()
			}
		} else {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
