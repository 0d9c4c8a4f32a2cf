package mount

import (
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func typeBits(t tree.Type) uint32 {
	switch t {
	case tree.Dir:
		return syscall.S_IFDIR
	case tree.Symlink:
		return syscall.S_IFLNK
	case tree.Fifo:
		return syscall.S_IFIFO
	case tree.Socket:
		return syscall.S_IFSOCK
	case tree.CharDevice:
		return syscall.S_IFCHR
	case tree.BlockDevice:
		return syscall.S_IFBLK
	default:
		return syscall.S_IFREG
	}
}

const (
	sector    = 512  // of the number of blocks
	blockSize = 4096 // best size of a read, as most file systems say
)

// setAttributes fills in what stat returns.
func setAttributes(a *fuse.Attr, e view.Entry) {
	n := e.Node
	a.Ino, a.Mode, a.Nlink, a.Blksize = e.Inode, typeBits(n.Type)|n.Mode, uint32(max(1, n.Links)), blockSize
	a.Uid, a.Gid = n.UID, n.GID
	a.Mtime, a.Mtimensec = uint64(n.ModTime.Sec), n.ModTime.Nsec
	a.Ctime, a.Ctimensec = uint64(n.Changed.Sec), n.Changed.Nsec
	a.Atime, a.Atimensec = a.Mtime, a.Mtimensec
	if n.Access != nil {
		a.Atime, a.Atimensec = uint64(n.Access.Sec), n.Access.Nsec
	}
	switch n.Type {
	case tree.File:
		a.Size = n.Size
		a.Blocks = (view.Allocated(n) + sector - 1) / sector
	case tree.Symlink:
		a.Size = uint64(len(n.Target))
	case tree.Dir:
		a.Size, a.Nlink = blockSize, 1 // 1: programs do not conclude from it how many directories are in it
	case tree.CharDevice, tree.BlockDevice:
		a.Rdev = uint32(unix.Mkdev(uint32(n.Device>>32), uint32(n.Device)))
	}
}

// securityLabel is of SELinux. Where that runs, the kernel answers and does not ask the mount. Elsewhere ls -l asks for
// the label of each file, until an answer is ENOTSUP.
const securityLabel = "security.selinux"

func (s *server) GetXAttr(cancel <-chan struct{}, header *fuse.InHeader, name string, p []byte) (uint32, fuse.Status) {
	e, _, err := s.at(cancel, header.NodeId)
	if err != nil {
		return 0, s.status(err, "attributes")
	}
	for _, x := range e.Node.Xattrs {
		if x.Name == name {
			return into(p, x.Value)
		}
	}
	if name == securityLabel {
		return 0, fuse.Status(syscall.ENOTSUP)
	}
	return 0, fuse.ENOATTR
}

func (s *server) ListXAttr(cancel <-chan struct{}, header *fuse.InHeader, p []byte) (uint32, fuse.Status) {
	e, _, err := s.at(cancel, header.NodeId)
	if err != nil {
		return 0, s.status(err, "attributes")
	}
	var names strings.Builder
	for _, x := range e.Node.Xattrs {
		names.WriteString(x.Name + "\x00")
	}
	return into(p, []byte(names.String()))
}

// into copies a value, or says how long it is.
func into(p, value []byte) (uint32, fuse.Status) {
	if len(p) < len(value) {
		return uint32(len(value)), fuse.ERANGE
	}
	return uint32(copy(p, value)), fuse.OK
}

func (s *server) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Bsize, out.NameLen = blockSize, 255
	return fuse.OK
}
