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
			Source: unix.ByteSliceToString(fs.Mntfromname[:]), ReadOnly: fs.Flags&unix.MNT_RDONLY != 0}
		m.classify()
		// The volumes of the system are hidden. The one with the user's data is too, and appears at the root.
		hidden := fs.Flags&unix.MNT_DONTBROWSE != 0
		m.Local = m.Local && fs.Flags&unix.MNT_LOCAL != 0 && !hidden
		all = append(all, m)
	}
	return distinct(all), nil
}
