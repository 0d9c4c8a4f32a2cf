package bench

import "github.com/tidemark-backup/tidemark/internal/localfs"

// blockSize is the unit in which Linux counts what a process has read from devices.
const blockSize = 512

// short reports whether devices delivered less than nine tenths of what was read between two moments. A read may well
// bring in more than was asked for.
func short(read int64, before, after used) bool {
	return (after.read-before.read)*blockSize < read/10*9
}

// cool takes the whole file out of memory, and reports whether nothing of it is left there. Its content has been flushed, or
// it would stay, and so does what was read ahead as long as it is on its way. Files in memory are never cold.
func cool(f *localfs.File) (cold bool) {
	f.DropCache(0, int64(f.Opened().Size))
	pages, known := f.InMemory()
	return known && pages == 0
}
