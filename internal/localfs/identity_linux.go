package localfs

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// btrfsInfo is BTRFS_IOC_FS_INFO, _IOR(0x94, 31, a kilobyte), as most architectures build it. On the others (mips,
// powerpc, sparc) the kernel does not know this number and says so.
const btrfsInfo = 2<<30 | 1024<<16 | 0x94<<8 | 31

// BtrfsID returns the ID of the btrfs that the directory lies on, in the form of a UUID. It is asked of the file system
// itself, because each subvolume has a device number of its own that no table lists, and the mount table names one
// device of several. The question needs no privilege, but a directory that may be listed: one of OpenWay may not do.
// Other file systems answer ENOTTY.
func (d *Dir) BtrfsID() (string, error) {
	var answer [128]uint64 // two numbers, then the ID; 64-bit words because the kernel's struct is aligned so
	err := retry(func() error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), btrfsInfo, uintptr(unsafe.Pointer(&answer)))
		return errnoOrNil(errno)
	})
	if err != nil {
		return "", fmt.Errorf("ask btrfs which one it is: %w", err)
	}
	id := (*[16]byte)(unsafe.Pointer(&answer[2]))
	text := hex.EncodeToString(id[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-"), nil
}
