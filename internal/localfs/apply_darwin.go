package localfs

import (
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

const (
	symlinksHaveModes = true
	noXattr           = unix.ENOATTR // no such attribute
)

// Flags returns the st_flags of the entry name, or of the directory if name is ".", that chflags can set.
func (d *Dir) Flags(name string, _ tree.Type) (uint64, error) {
	if err := checkNameOrSelf(name); err != nil {
		return 0, wrap("read flags of", name, err)
	}
	return d.ioctx.readFlags(d.object(name), name)
}

func (o *object) kept() (uint64, error) {
	flags, err := o.flags()
	return uint64(flags & macKeptFlags), err
}

func (o *object) flags() (uint32, error) {
	var raw unix.Stat_t
	err := retry(func() error {
		if o.name == "" {
			return unix.Fstat(o.fd, &raw)
		}
		return unix.Fstatat(o.fd, o.name, &raw, unix.AT_SYMLINK_NOFOLLOW)
	})
	return raw.Flags, err
}

// flagsLater returns the call that sets the flags.
func (o *object) flagsLater(n *tree.Node, what ApplyOptions) (set func() error) {
	ok, err := foreignMacFlags(n, what.ForeignFlags)
	return func() error {
		if !ok {
			return err
		}
		return changeMacFlags(o, uint32(n.Flags), macKeptFlags)
	}
}

// aclsForbid: a list can deny the deletion of its object, also to its owner, and a renaming takes that right
// (vn_authorize_renamex_with_paths of kpi_vfs.c, vnode_authorize_delete of vfs_subr.c).
const aclsForbid = true

func (o *object) unprotect() error { return unprotectMac(o) }

// prepare does nothing: no flag of macOS must precede the content.
func prepare(int, *tree.Node) []Problem { return nil }

func (o *object) chown(uid, gid int) error {
	return retry(func() error {
		if o.name == "" {
			return unix.Fchown(o.fd, uid, gid)
		}
		return unix.Fchownat(o.fd, o.name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

func (o *object) chmod(mode uint32) error {
	return retry(func() error {
		if o.name == "" {
			return unix.Fchmod(o.fd, mode)
		}
		return unix.Fchmodat(o.fd, o.name, mode, unix.AT_SYMLINK_NOFOLLOW)
	})
}

func (o *object) setTimes(n *tree.Node) error { return setMacTimes(o, n) }

func mknodat(dirfd int, name string, mode uint32, dev uint64) error {
	return within(dirfd, func() error { return makeNode(name, mode, dev) })
}

// syncFile also flushes the drive's cache, which fsync on macOS does not, where the file system can.
func syncFile(fd int) (pages.Promise, error) { return pages.Flush(fd, false) }
