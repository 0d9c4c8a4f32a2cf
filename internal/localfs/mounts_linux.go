package localfs

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// Mounts returns the mounted file systems, sorted by path. It reads the mount table only, so a server that does not
// respond delays nothing.
func Mounts() ([]Mount, error) {
	table, err := sysinfo.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list file systems: %w", err)
	}
	return distinct(parseMounts(table)), nil
}

// parseMounts reads a mountinfo table, as
//
//	36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw
func parseMounts(table []byte) (all []Mount) {
	for line := range bytes.Lines(table) {
		left, right, ok := bytes.Cut(line, []byte(" - "))
		// the source may be empty
		fields, kinds := strings.Fields(string(left)), strings.Split(strings.TrimSpace(string(right)), " ")
		if !ok || len(fields) < 6 {
			continue
		}
		m := Mount{Path: sysinfo.UnescapeMount(fields[4]), Type: kinds[0], id: fields[0], device: fields[2],
			root: sysinfo.UnescapeMount(fields[3])}
		m.ReadOnly = strings.HasPrefix(fields[5]+",", "ro,")
		if len(kinds) > 2 {
			m.Source, m.Options = sysinfo.UnescapeMount(kinds[1]), kinds[2]
			m.ReadOnly = m.ReadOnly || strings.HasPrefix(kinds[2]+",", "ro,")
		}
		m.classify()
		all = append(all, m)
	}
	return all
}
