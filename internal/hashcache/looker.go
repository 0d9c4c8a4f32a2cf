package hashcache

import (
	"sync"

	bolt "go.etcd.io/bbolt"
)

// looker is a transaction that reads, with all that looking up a directory needs. It belongs to one goroutine at a time.
// Beginning and ending a transaction and finding the bucket takes three times as long as to find an entry, and memory,
// so lookers go from look to look.
type looker struct {
	tx     *bolt.Tx
	cursor *bolt.Cursor // of bucketDirs
	kept   *bolt.Bucket
	key    [16]byte // what is looked up: bbolt makes a key escape
	age    uint64   // how many changes there had been
}

// lookers keeps those that nobody uses. None is kept while the file is changed: what reads holds up the mapping of a
// file that grows, keeps pages from being used again, and does not see the change.
type lookers struct {
	mu       sync.Mutex
	free     []*looker
	changing int    // changes under way
	changes  uint64 // begun or ended
}

// take returns a looker that sees all changes that have ended.
func (s *lookers) take(c *Cache) (*looker, error) {
	s.mu.Lock()
	age := s.changes
	if n := len(s.free); n > 0 {
		l := s.free[n-1]
		s.free = s.free[:n-1]
		s.mu.Unlock()
		return l, nil
	}
	s.mu.Unlock()
	tx, err := c.begin(false)
	if err != nil {
		return nil, err
	}
	return &looker{tx: tx, cursor: bucket(tx, bucketDirs).Cursor(), kept: bucket(tx, bucketKept), age: age}, nil
}

// put gives back what take returned.
func (s *lookers) put(c *Cache, l *looker) error {
	s.mu.Lock()
	keep := s.changing == 0 && l.age == s.changes
	if keep {
		s.free = append(s.free, l)
	}
	s.mu.Unlock()
	if keep {
		return nil
	}
	return c.end(l.tx)
}

// begin ends all that nobody uses, and none is kept until end.
func (s *lookers) begin(c *Cache) error {
	s.mu.Lock()
	free := s.free
	s.free = nil
	s.changing++
	s.changes++
	s.mu.Unlock()
	for _, l := range free {
		if err := c.end(l.tx); err != nil {
			return err
		}
	}
	return nil
}

// end says that the change which begin announced is over.
func (s *lookers) end() {
	s.mu.Lock()
	s.changing--
	s.changes++
	s.mu.Unlock()
}
