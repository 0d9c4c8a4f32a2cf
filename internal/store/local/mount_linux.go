package local

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/kernelfile"
)

// spotOf finds out through which mount a path is reached, and what is there. The answer may come from memory: a server is
// not asked.
func spotOf(path string) (spot, error) { return spotAt(unix.AT_FDCWD, path) }

// spotAt is spotOf of a name in an open folder, or of the folder itself if that is "".
func spotAt(dir int, path string) (spot, error) {
	flags := unix.AT_STATX_DONT_SYNC
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var sx unix.Statx_t
	// Of the two IDs the unique one is given where the kernel has it, from Linux 6.8 on: an older kernel may give the
	// number of a mount that is gone to the next one, and then the device number must tell.
	const mask = unix.STATX_INO | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE
	err := again(func() error { return unix.Statx(dir, path, flags, mask, &sx) })
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 4.11, or filtered in a container
		return spotByStat(dir, path)
	}
	if err != nil {
		return spot{}, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return spot{mount{dev: unix.Mkdev(sx.Dev_major, sx.Dev_minor), id: sx.Mnt_id}, sx.Ino}, nil
}

func spotByStat(dir int, path string) (spot, error) {
	var st unix.Stat_t
	err := again(func() error {
		if path == "" {
			return unix.Fstat(dir, &st)
		}
		return unix.Fstatat(dir, path, &st, 0)
	})
	if err != nil {
		return spot{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return spot{mount{dev: uint64(st.Dev)}, st.Ino}, nil
}

// fileSystem names the file system of a path in a way that outlasts its mount: by the type and the ID, or, where there is no
// ID as in FUSE, by what is mounted there. keeps tells whether its type is known to keep the numbers of files and folders,
// over unmounting too.
func fileSystem(path string) (name string, keeps bool, err error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return "", false, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	name = fmt.Sprintf("%x:%x:%x", st.Type, st.Fsid.Val[0], st.Fsid.Val[1])
	if st.Fsid.Val[0] != 0 || st.Fsid.Val[1] != 0 {
		return name, keepsNumbers(uint32(st.Type)), nil
	}
	return name + mountedFrom(path), keepsNumbers(uint32(st.Type)), nil
}

// keepsNumbers knows the disk file systems on which an inode number stays that of one file. Those of a server, of FUSE, of
// layers over others and of FAT are made up by somebody on the way, and may be others at the next look.
func keepsNumbers(magic uint32) bool {
	switch magic {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.BCACHEFS_SUPER_MAGIC, unix.TMPFS_MAGIC, 0x2fc12fc1: // the last is that of ZFS
		return true
	}
	return false
}

// mountedFrom returns type and source of the mount by which a path is reached, as the mount table has them; "" where it
// cannot be found there.
func mountedFrom(path string) string {
	var sx unix.Statx_t
	err := again(func() error { return unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &sx) })
	if err != nil || sx.Mask&unix.STATX_MNT_ID == 0 {
		return "" // an old kernel: what is known must do
	}
	table, err := kernelfile.Read("/proc/self/mountinfo")
	if err != nil {
		return "" // likewise, a container without it
	}
	id := strconv.FormatUint(sx.Mnt_id, 10) + " "
	for line := range strings.Lines(string(table)) {
		if !strings.HasPrefix(line, id) {
			continue
		}
		// "36 35 98:0 /root /point options tags - type source options"
		before, after, _ := strings.Cut(line, " - ")
		what, place := strings.Fields(after), strings.Fields(before)
		if len(what) < 2 || len(place) < 4 {
			break
		}
		return ":" + what[0] + ":" + what[1] + ":" + place[3]
	}
	return ""
}
