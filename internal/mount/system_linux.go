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

// settled returns at once: NewServer has answered the first request of the kernel. WaitMount of the library would open
// and poll a file of the mount. A process that is killed meanwhile waits for its own answer when the kernel closes that
// file, and everything that touches the mount waits with it. WaitMount guards against a process that polls files of its
// own mount, which this one does not.
func settled(*fuse.Server) error { return nil }

// detach removes a mount that is in use.
func detach(dir string) error {
	if os.Geteuid() == 0 {
		return unix.Unmount(dir, unix.MNT_DETACH)
	}
	return exec.Command("fusermount3", "-u", "-z", dir).Run()
}
