package localfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MountedFrom returns the source of the directory's mount, as statfs names it: "/dev/disk3s1", "//user@server/share",
// "server:/path".
func (d *Dir) MountedFrom() (string, error) {
	var fs unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(d.fd, &fs) }); err != nil {
		return "", fmt.Errorf("stat file system: %w", err)
	}
	return unix.ByteSliceToString(fs.Mntfromname[:]), nil
}
