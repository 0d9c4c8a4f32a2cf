//go:build !linux

package kit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// entries stats each entry of one buffer of a directory.
func (w *walker) entries(fd, level int, list []byte) error {
	_, _, names := unix.ParseDirent(list, -1, nil)
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("stat %s: %w", name, err)
		}
		w.count++
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if err := w.below(fd, name, level); err != nil {
			return err
		}
	}
	return nil
}
