package kit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where the fields of an entry of getdents64 lie: inode and offset, 8 bytes each, length, type, name.
const (
	direntLength = 16
	direntName   = 19
)

// entries stats each entry of one buffer of a directory. Names go back to the kernel with their NUL, by a raw system
// call: no other goroutine waits for this processor.
func (w *walker) entries(fd, level int, list []byte) error {
	var st unix.Stat_t
	for len(list) > 0 {
		one := list[:binary.NativeEndian.Uint16(list[direntLength:])]
		list = list[len(one):]
		name := one[direntName:]
		if name[0] == '.' && (name[1] == 0 || name[1] == '.' && name[2] == 0) {
			continue
		}
		_, _, errno := unix.RawSyscall6(fstatat, uintptr(fd), uintptr(unsafe.Pointer(&name[0])),
			uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		text := func() string { return string(name[:bytes.IndexByte(name, 0)]) }
		if errno != 0 {
			return fmt.Errorf("stat %s: %w", text(), errno)
		}
		w.count++
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if err := w.below(fd, text(), level); err != nil {
			return err
		}
	}
	return nil
}
