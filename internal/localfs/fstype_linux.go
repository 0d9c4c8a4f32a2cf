package localfs

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// FindMount finds the mount with the given ID in a mountinfo table, or, if the ID is 0, a mount of the given device. It
// returns the zero Mount if the table does not have it, as for a mount of another namespace.
func FindMount(table []byte, mountID, dev uint64) Mount {
	device := strconv.FormatUint(dev>>32, 10) + ":" + strconv.FormatUint(dev&0xffffffff, 10)
	id := strconv.FormatUint(mountID, 10)
	for _, m := range parseMounts(table) {
		if mountID != 0 && m.id == id || mountID == 0 && m.device == device {
			return m
		}
	}
	return Mount{}
}

// typeOfMagic names a file system by the f_type of statfs.
func typeOfMagic(magic uint32) string {
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
