package localfs

import "strings"

// FSInfo describes the file system of a directory.
type FSInfo struct {
	Type         string // as in the mount table: "ext4", "tmpfs", "fuse.sshfs", "apfs"
	Pseudo       bool   // its files are views of the kernel, not data
	Remote       bool   // the data is on another machine
	StableInodes bool   // inode numbers survive unmounting and are not reused meanwhile
	// Dated: adding, removing or renaming an entry changes the times, size or link count of the directory, and nothing
	// else changes its entries while the system runs. That holds for one mount, so it requires a Mount number: changes
	// to an unmounted disk may leave no trace in these times.
	Dated    bool
	Mount    uint64 // unique number of the mount until the next reboot; 0: unknown
	ReadOnly bool
	ID       uint64 // f_fsid of statfs; survives a reboot on most local file systems
}

// classify derives the other fields from the type. An unknown type counts as a local file system with stable inode
// numbers, like most new disk file systems.
func (info *FSInfo) classify() {
	kind := info.Type
	info.StableInodes = true
	switch kind {
	case "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "zfs":
		// Only file systems that are known to be. An overlay shows changes of the layers below; remote file systems,
		// FUSE and those with coarse times have their own rules; APFS fills dataless directories on access.
		info.Dated = true
	case "proc", "sysfs", "devtmpfs", "devpts", "devfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs",
		"pstore", "bpf", "configfs", "mqueue", "hugetlbfs", "autofs", "fusectl", "binfmt_misc", "efivarfs", "nsfs",
		"rpc_pipefs", "selinuxfs", "smackfs", "resctrl", "binder", "nfsd", "xenfs", "usbfs", "dlmfs", "pipefs",
		"sockfs", "pidfs", "fdescfs", "volfs", "fuse.lxcfs", "fuse.portal", "fuse.gvfsd-fuse":
		info.Pseudo = true
		info.StableInodes = false
	case "nfs", "nfs4", "ceph", "afs", "gfs2", "ocfs2", "lustre", "coda", "beegfs", "gpfs":
		// Servers with inodes of their own. gfs2 and ocfs2 are cluster file systems on shared disks.
		info.Remote = kind != "gfs2" && kind != "ocfs2"
	case "cifs", "smb3", "smb2", "smbfs", "9p", "virtiofs", "afpfs", "webdav", "ftp", "ncpfs", "davfs":
		// The client invents the numbers, or mixes those of several file systems.
		info.Remote = true
		info.StableInodes = false
	case "vfat", "msdos", "exfat", "ecryptfs", "iso9660", "udf", "squashfs":
		// Numbers are assigned at mount time; on images, when the next image is made.
		info.StableInodes = false
	}
	// fuseblk is ntfs-3g or exfat-fuse on a local disk.
	if kind == "fuse" || kind == "fuseblk" || strings.HasPrefix(kind, "fuse.") || strings.HasSuffix(kind, "fuse") {
		info.StableInodes = false
		info.Remote = info.Remote || remoteFuse(kind)
	}
}

// remoteFuse reports whether a FUSE file system accesses a network.
func remoteFuse(kind string) bool {
	for _, name := range []string{"sshfs", "rclone", "s3fs", "gcsfuse", "goofys", "curlftpfs", "glusterfs", "ceph",
		"davfs", "juicefs", "smbnetfs", "google-drive", "onedriver", "blobfuse", "hubicfuse", "moosefs", "mfs"} {
		if strings.Contains(kind, name) {
			return true
		}
	}
	return false
}
