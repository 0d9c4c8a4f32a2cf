package localfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Mounts returns the mounted file systems, sorted by path. It does not wait for servers.
func Mounts() ([]Mount, error) {
	n, err := unix.Getfsstat(nil, unix.MNT_NOWAIT)
	if err != nil {
		return nil, fmt.Errorf("list file systems: %w", err)
	}
	table := make([]unix.Statfs_t, n+8) // a few may be added meanwhile
	if n, err = unix.Getfsstat(table, unix.MNT_NOWAIT); err != nil {
		return nil, fmt.Errorf("list file systems: %w", err)
	}
	var all []Mount
	for _, fs := range table[:n] {
		m := Mount{Path: unix.ByteSliceToString(fs.Mntonname[:]), Type: unix.ByteSliceToString(fs.Fstypename[:]),
			Source: unix.ByteSliceToString(fs.Mntfromname[:])}
		m.setMacFlags(fs.Flags)
		all = append(all, m)
	}
	return distinct(all), nil
}
