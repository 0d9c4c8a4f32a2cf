package bench

import "github.com/tidemark-backup/tidemark/internal/localfs"

// short cannot be told on macOS, which counts requests, of any size.
func short(int64, used, used) bool { return false }

// cool keeps what is read from staying in memory. What the writing left there cannot be taken out, so that the first
// reads may be faster than the disk, and nobody tells whether something is left.
func cool(f *localfs.File) (cold bool) {
	f.NoteCache()
	return false
}
