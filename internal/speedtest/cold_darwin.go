package speedtest

import "github.com/tidemark-backup/tidemark/internal/localfs"

// short always returns false: macOS counts requests, of any size.
func short(int64, int64) bool { return false }

// cool disables caching of reads. It cannot evict written pages and cannot detect them, so the first reads may be
// faster than the disk.
func cool(f *localfs.File) (cold bool) {
	f.NoteCache()
	return false
}
