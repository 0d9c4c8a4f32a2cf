package localfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// FS tells about the file system of the directory. It reads the mount table: ask once per mount, not per directory.
//
// The name comes from the mount table, because the magic number of statfs does not tell devtmpfs from tmpfs, ext2 from
// ext4, or one FUSE file system from another. Without /proc the magic number must do, and a devtmpfs is called tmpfs.
func (d *Dir) FS() (FSInfo, error) {
	var fs unix.Statfs_t
	mount := uint64(0)
	err := d.door.once(iopolicy.Metadata, func() error {
		mount = mountNumber(d.fd)
		return unix.Fstatfs(d.fd, &fs)
	})
	if err != nil {
		return FSInfo{}, fmt.Errorf("stat file system: %w", err)
	}
	st, err := d.Fstat()
	if err != nil {
		return FSInfo{}, err
	}
	info := FSInfo{
		ReadOnly: fs.Flags&unix.ST_RDONLY != 0,
		ID:       uint64(uint32(fs.Fsid.Val[0]))<<32 | uint64(uint32(fs.Fsid.Val[1])),
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil {
		info.Type = mountedType(table, st.MountID, st.Dev)
	}
	if info.Type == "" {
		info.Type = magicType(uint32(fs.Type))
	}
	info.classify()
	info.Mount = mount
	info.Dated = info.Dated && info.Mount != 0
	return info, nil
}

// mountNumber returns the number of the mount through which a file was opened that is never given to another one, 0 before
// Linux 6.8.
func mountNumber(fd int) uint64 {
	var sx unix.Statx_t
	err := retry(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID_UNIQUE, &sx) })
	if err != nil || sx.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return 0
	}
	return sx.Mnt_id
}

// mountedType finds the type of the mount with the given ID in a mountinfo table, or, when the kernel told no ID (0), of
// a mount of the given device. Empty: not in the table, as for a mount of another namespace.
func mountedType(table []byte, mountID, dev uint64) string {
	device := strconv.FormatUint(dev>>32, 10) + ":" + strconv.FormatUint(dev&0xffffffff, 10)
	for line := range bytes.Lines(table) {
		// 36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw
		left, right, ok := bytes.Cut(line, []byte(" - "))
		fields, kinds := bytes.Fields(left), bytes.Fields(right)
		if !ok || len(fields) < 5 || len(kinds) < 1 {
			continue
		}
		if mountID != 0 && string(fields[0]) != strconv.FormatUint(mountID, 10) {
			continue
		}
		if mountID == 0 && string(fields[2]) != device {
			continue
		}
		return string(kinds[0])
	}
	return ""
}

// magicType names a file system by the f_type of statfs.
func magicType(magic uint32) string {
	for _, known := range []struct {
		magic uint32
		name  string
	}{
		{unix.EXT4_SUPER_MAGIC, "ext4"}, {unix.XFS_SUPER_MAGIC, "xfs"}, {unix.BTRFS_SUPER_MAGIC, "btrfs"},
		{unix.F2FS_SUPER_MAGIC, "f2fs"}, {unix.BCACHEFS_SUPER_MAGIC, "bcachefs"}, {0x2fc12fc1, "zfs"},
		{unix.TMPFS_MAGIC, "tmpfs"}, {unix.RAMFS_MAGIC, "ramfs"}, {unix.OVERLAYFS_SUPER_MAGIC, "overlay"},
		{unix.ECRYPTFS_SUPER_MAGIC, "ecryptfs"}, {unix.REISERFS_SUPER_MAGIC, "reiserfs"}, {0x3153464a, "jfs"},
		{unix.NILFS_SUPER_MAGIC, "nilfs2"}, {unix.SQUASHFS_MAGIC, "squashfs"}, {unix.ISOFS_SUPER_MAGIC, "iso9660"},
		{unix.UDF_SUPER_MAGIC, "udf"}, {unix.MSDOS_SUPER_MAGIC, "vfat"}, {unix.EXFAT_SUPER_MAGIC, "exfat"},
		{0x7366746e, "ntfs3"}, {0x4244, "hfs"}, {0x482b, "hfsplus"}, {unix.OCFS2_SUPER_MAGIC, "ocfs2"},
		{0x01161970, "gfs2"}, {unix.NFS_SUPER_MAGIC, "nfs"}, {unix.CIFS_SUPER_MAGIC, "cifs"},
		{unix.SMB2_SUPER_MAGIC, "smb3"}, {unix.SMB_SUPER_MAGIC, "smbfs"}, {unix.V9FS_MAGIC, "9p"},
		{unix.CEPH_SUPER_MAGIC, "ceph"}, {unix.AFS_SUPER_MAGIC, "afs"}, {unix.AFS_FS_MAGIC, "afs"},
		{0x6a656a63, "virtiofs"}, {0x0bd00bd0, "lustre"}, {unix.CODA_SUPER_MAGIC, "coda"},
		{unix.FUSE_SUPER_MAGIC, "fuse"}, {unix.PROC_SUPER_MAGIC, "proc"}, {unix.SYSFS_MAGIC, "sysfs"},
		{unix.DEVPTS_SUPER_MAGIC, "devpts"}, {unix.CGROUP_SUPER_MAGIC, "cgroup"},
		{unix.CGROUP2_SUPER_MAGIC, "cgroup2"}, {unix.DEBUGFS_MAGIC, "debugfs"}, {unix.TRACEFS_MAGIC, "tracefs"},
		{unix.SECURITYFS_MAGIC, "securityfs"}, {unix.PSTOREFS_MAGIC, "pstore"}, {unix.BPF_FS_MAGIC, "bpf"},
		{0x62656570, "configfs"}, {0x19800202, "mqueue"}, {unix.HUGETLBFS_MAGIC, "hugetlbfs"},
		{unix.AUTOFS_SUPER_MAGIC, "autofs"}, {0x65735543, "fusectl"}, {unix.BINFMTFS_MAGIC, "binfmt_misc"},
		{unix.EFIVARFS_MAGIC, "efivarfs"}, {unix.NSFS_MAGIC, "nsfs"}, {0x67596969, "rpc_pipefs"},
		{unix.SELINUX_MAGIC, "selinuxfs"}, {unix.SMACK_MAGIC, "smackfs"}, {unix.RDTGROUP_SUPER_MAGIC, "resctrl"},
		{unix.BINDERFS_SUPER_MAGIC, "binder"}, {0x6e667364, "nfsd"}, {unix.XENFS_SUPER_MAGIC, "xenfs"},
	} {
		if known.magic == magic {
			return known.name
		}
	}
	return fmt.Sprintf("%#x", magic)
}
