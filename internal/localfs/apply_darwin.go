package localfs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

const (
	symlinksHaveModes = true
	noXattr           = unix.ENOATTR // no such attribute
	protectFlags      = unix.UF_IMMUTABLE | unix.UF_APPEND | unix.SF_IMMUTABLE | unix.SF_APPEND | unix.SF_NOUNLINK
	keptFlags         = protectFlags | unix.UF_NODUMP | unix.UF_OPAQUE | unix.UF_HIDDEN | unix.SF_ARCHIVED
)

// Flags returns the st_flags of the entry name, or of the directory if name is ".", that chflags can set.
func (d *Dir) Flags(name string, _ tree.Type) (uint64, error) {
	if err := checkNameOrSelf(name); err != nil {
		return 0, wrap("read flags of", name, err)
	}
	flags, err := d.ioctx.readFlags(d.object(name))
	if err != nil {
		return 0, wrap("read flags of", name, err)
	}
	return uint64(flags & keptFlags), nil
}

// Flags returns the flags of the open file, as Dir.Flags does.
func (f *File) Flags() (uint64, error) {
	flags, err := f.ioctx.readFlags(&object{fd: f.fd})
	if err != nil {
		return 0, fmt.Errorf("read flags: %w", err)
	}
	return uint64(flags & keptFlags), nil
}

// readFlags reads the flags of an object as one operation.
func (d *IOContext) readFlags(o *object) (uint32, error) {
	grant, err := d.begin(iopolicy.Metadata, 0)
	if err != nil {
		return 0, err
	}
	flags, err := o.flags()
	grant.End(0)
	return flags, err
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

// changeFlags sets the flags in mask to those of want. The kernel refuses all flags if one needs root, so after a
// failure it tries the owner's flags alone.
func (o *object) changeFlags(want, mask uint32) error {
	have, err := o.flags()
	if err != nil {
		return err
	}
	set := func(flags uint32) error {
		return o.attributes(true, unix.ATTR_CMN_FLAGS, binary.LittleEndian.AppendUint32(nil, flags))
	}
	next := have&^mask | want&mask
	if next == have {
		return nil
	}
	if err = set(next); err == nil {
		return nil
	}
	refused := have ^ next
	if mine := have&^(mask&unix.UF_SETTABLE) | want&mask&unix.UF_SETTABLE; mine != have && set(mine) == nil {
		refused &^= unix.UF_SETTABLE
	}
	if refused == 0 {
		return nil
	}
	return fmt.Errorf("flags %#x: %w", refused, err)
}

// lateFlags is the object whose flags are set last.
type lateFlags struct {
	fd   int
	o    *object
	want uint32
	err  error
}

func (o *object) openFlags(n *tree.Node, what ApplyOptions) lateFlags {
	if what.ForeignFlags || n.Flags&^keptFlags != 0 {
		if n.Flags != 0 {
			return lateFlags{err: fmt.Errorf("flags %#x of another platform: %w", n.Flags, ErrNotKept)}
		}
		return lateFlags{}
	}
	return lateFlags{fd: o.fd, o: o, want: uint32(n.Flags)}
}

func (t *lateFlags) set() error {
	if t.o == nil {
		return t.err
	}
	return t.o.changeFlags(t.want, keptFlags)
}

func (t *lateFlags) close() {}

// aclsForbid: a list can deny the deletion of its object, also to its owner, and a renaming takes that right
// (vn_authorize_renamex_with_paths of kpi_vfs.c, vnode_authorize_delete of vfs_subr.c).
const aclsForbid = true

func (o *object) unprotect() error {
	if err := o.changeFlags(0, protectFlags); err != nil {
		return err
	}
	if acl, err := o.extra(); err != nil || acl == nil {
		return nil // there is none, or what follows reports why it cannot be read
	}
	return o.setACL(nil)
}

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

// setTimes sets the birth time, if the node and the file system have one, the modification time and, if the node has
// one, the access time.
func (o *object) setTimes(n *tree.Node) error {
	set := func(birth *tree.Time) error {
		var common uint32 = unix.ATTR_CMN_MODTIME
		var buf []byte
		if birth != nil {
			common |= unix.ATTR_CMN_CRTIME
			buf = appendTime(buf, *birth)
		}
		buf = appendTime(buf, n.ModTime)
		if n.Access != nil {
			common |= unix.ATTR_CMN_ACCTIME
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

// mknodat makes a special file. A socket is made by binding it to the name.
func mknodat(dirfd int, name string, mode uint32, dev uint64) error {
	return within(dirfd, func() error {
		switch mode & unix.S_IFMT {
		case unix.S_IFIFO:
			return unix.Mkfifo(name, mode&0o777)
		case unix.S_IFSOCK:
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrUnix{Name: name})
		}
		return unix.Mknod(name, mode, int(int32(uint32(dev))))
	})
}

// syncFile also flushes the drive's cache, which fsync on macOS does not, where the file system can.
func syncFile(fd int) (pages.Promise, error) { return pages.Flush(fd, false) }
