package localfs

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// btrfsInfo is BTRFS_IOC_FS_INFO, _IOR(0x94, 31, a kilobyte), on most architectures. On mips, powerpc and sparc the
// kernel rejects this number.
const btrfsInfo = 2<<30 | 1024<<16 | 0x94<<8 | 31

// BtrfsID returns the ID of the directory's btrfs as a UUID. Only the file system itself knows it: each subvolume has a
// device number that no table lists. It needs no privilege, but the directory must be readable. Other file systems
// return ENOTTY.
func (d *Dir) BtrfsID() (string, error) {
	var answer [128]uint64 // two numbers, then the ID; 64-bit words for the alignment of the kernel's struct
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
