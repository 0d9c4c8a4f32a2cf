package mount

import (
	"os"
	"os/exec"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// readOnly makes the mount one without writes. Root mounts by itself, since the helper may be missing.
func readOnly(opt *fuse.MountOptions) {
	if os.Geteuid() == 0 {
		opt.DirectMountStrict = true
		opt.DirectMountFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_RDONLY
		return
	}
	opt.Options = append(opt.Options, "ro")
}

// detach removes a mount that is in use.
func detach(dir string) error {
	if os.Geteuid() == 0 {
		return unix.Unmount(dir, unix.MNT_DETACH)
	}
	return exec.Command("fusermount3", "-u", "-z", dir).Run()
}
