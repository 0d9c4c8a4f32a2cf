package local

import (
	"os"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// maxColdPacks is how many packs coldPacks remembers: more than are read at the same time.
const maxColdPacks = 64

// coldPacks remembers for the last packs whether they were out of the page cache at their first read. Later reads
// cannot measure that, because the kernel has read ahead.
type coldPacks struct {
	mu   sync.Mutex
	was  map[string]bool // by ID
	last []string        // oldest first
}

// check reports whether a pack was out of the page cache at its first read. measure is called at that read.
func (c *coldPacks) check(id string, measure func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cold, known := c.was[id]; known {
		return cold
	}
	if c.was == nil {
		c.was = make(map[string]bool)
	}
	if len(c.last) == maxColdPacks {
		delete(c.was, c.last[0])
		c.last = slices.Delete(c.last, 0, 1)
	}
	c.was[id] = measure()
	c.last = append(c.last, id)
	return c.was[id]
}

// mostlyCached reports whether most of a range is in the page cache, which means that another program uses it.
func mostlyCached(f *os.File, off int64, n int) bool {
	var held uint64
	err := withFD(f, func(fd int) (err error) {
		held, _, err = pages.Cached(fd, off, int64(n))
		return err
	})
	return err == nil && held*uint64(os.Getpagesize()) > uint64(n)/2
}

// drop evicts a range from the page cache, so that a large backup does not evict the pages of other programs; n is 0
// for all to the end.
func drop(f *os.File, off int64, n int) {
	_ = withFD(f, func(fd int) error { pages.Drop(fd, off, int64(n)); return nil })
}
