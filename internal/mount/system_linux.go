package mount

import (
	"errors"
	"fmt"
	"io/fs"
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

// device is what FUSE is reached by.
const device = "/dev/fuse"

// refused says what to do about a mount that failed, where that can be seen.
func refused(err error) error {
	without := "; or show them to a file manager: 'tidemark serve webdav'"
	if missing := (*exec.Error)(nil); errors.As(err, &missing) {
		return fmt.Errorf("fusermount3 is missing: install the package fuse3%s", without)
	}
	switch open := unix.Access(device, unix.R_OK|unix.W_OK); {
	case errors.Is(open, fs.ErrNotExist):
		return fmt.Errorf("there is no %s: load it as root with 'modprobe fuse'%s", device, without)
	case errors.Is(open, fs.ErrPermission):
		return fmt.Errorf("this user may not open %s: allow it as root with 'chmod 666 %[1]s'%s", device, without)
	}
	return err
}
