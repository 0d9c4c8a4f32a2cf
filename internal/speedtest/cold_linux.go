package speedtest

import "github.com/tidemark-backup/tidemark/internal/localfs"

// blockSize is the unit in which Linux counts what a process has read from devices.
const blockSize = 512

// short reports whether devices delivered less than nine tenths of the bytes read. Read-ahead may deliver more.
func short(read, blocks int64) bool { return blocks*blockSize < read/10*9 }

// cool evicts the whole file from the page cache, and reports whether none of it is left. The caller has flushed the
// content, since dirty pages stay; so do read-ahead pages in flight. Files in memory are never cold.
func cool(f *localfs.File) (cold bool) {
	f.DropCache(0, int64(f.Opened().Size))
	pages, known := f.CachedPages()
	return known && pages == 0
}
