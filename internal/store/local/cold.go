package local

import (
	"slices"
	"sync"
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
