package localfs

import "strings"

// FSInfo is what kind of file system a directory lies on.
type FSInfo struct {
	Type         string // as the mount table names it: "ext4", "tmpfs", "fuse.sshfs", "apfs"
	Pseudo       bool   // a window into the kernel: its files are no data
	Remote       bool   // the bytes are on another machine
	StableInodes bool   // a file keeps its inode number over unmounting, and no other file gets it meanwhile
	// Dated: adding, removing or renaming a name moves the times of the directory, or its size or number of links, for
	// whoever looks afterwards, and nothing else adds or removes names while the system runs.
	// That is known of one mount, and only where Mount tells it from others: what happens to a disk that is not mounted, or is
	// pulled out, need not leave a trace in the times of its directories.
	Dated    bool
	Mount    uint64 // what this mount is called, and no other one until the system is started anew; 0: that is not told
	ReadOnly bool
	ID       uint64 // what statfs calls f_fsid; survives a reboot on most local file systems, not on all
}

// classify fills what follows from the type's name. A name not listed is taken for a local file system that keeps its
// inode numbers, which is what a new disk file system would be.
func (info *FSInfo) classify() {
	kind := info.Type
	info.StableInodes = true
	switch kind {
	case "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "zfs":
		// Only what is known to: there is no harm in a name that is missing here. An overlay shows what others change below;
		// what is on another machine, behind FUSE or without fractions of a second is dated by rules of its own. On APFS,
		// directories whose contents are elsewhere are filled when somebody looks.
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
		// Numbers made up by the client, or those of several file systems of the server mixed.
		info.Remote = true
		info.StableInodes = false
	case "vfat", "msdos", "exfat", "ecryptfs", "hfs", "iso9660", "udf", "squashfs":
		// Numbers made up while mounted; on the images, by whoever writes the next image.
		info.StableInodes = false
	}
	// fuseblk is ntfs-3g or exfat-fuse on a disk of our own.
	if kind == "fuse" || kind == "fuseblk" || strings.HasPrefix(kind, "fuse.") || strings.HasSuffix(kind, "fuse") {
		info.StableInodes = false
		info.Remote = info.Remote || remoteFuse(kind)
	}
}

// remoteFuse knows the FUSE file systems that are a network behind.
func remoteFuse(kind string) bool {
	for _, name := range []string{"sshfs", "rclone", "s3fs", "gcsfuse", "goofys", "curlftpfs", "glusterfs", "ceph",
		"davfs", "juicefs", "smbnetfs", "google-drive", "onedriver", "blobfuse", "hubicfuse", "moosefs", "mfs"} {
		if strings.Contains(kind, name) {
			return true
		}
	}
	return false
}
