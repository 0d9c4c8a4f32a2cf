package treecache

import "container/list"

// blockSize is the unit in which files take space on most file systems. Counting it bounds the number of files too.
const blockSize = 4096

func blocks(size int64) int64 { return (size + blockSize - 1) / blockSize * blockSize }

// unused is the rank of a frame that this run has not used; others are Fetched (or found) and Uploaded. A frame may be
// displaced by one whose Origin is greater than its rank.
const unused Origin = 0

// shelf is the order of the frames in memory, without the frames.
type shelf struct {
	size    int64 // bytes of all frames, in blocks
	entries map[Key]*entry
	lists   [everything]*list.List // of *entry by rank, least recently used first
	bytes   [everything]int64      // in each list
}

type entry struct {
	key    Key
	size   int64 // in blocks
	rank   Origin
	place  *list.Element // nil while the frame is being written: it is counted and cannot be evicted
	marked bool          // seen by the current scan
}

func newShelf() shelf {
	s := shelf{entries: make(map[Key]*entry)}
	for i := range s.lists {
		s.lists[i] = list.New()
	}
	return s
}

// expect counts a frame that is about to be written.
func (s *shelf) expect(k Key, size int64, r Origin) {
	e := &entry{key: k, size: blocks(size), rank: r}
	s.entries[k] = e
	s.size += e.size
}

// settle ends what expect began.
func (s *shelf) settle(k Key, written bool) {
	e := s.entries[k]
	if e == nil || e.place != nil {
		return
	}
	if !written {
		delete(s.entries, k)
		s.size -= e.size
		return
	}
	s.lodge(e)
}

// add counts a frame found in the folder.
func (s *shelf) add(k Key, size int64) *entry {
	s.expect(k, size, unused)
	s.settle(k, true)
	return s.entries[k]
}

// use records that this run needed a frame. A frame of another process is new to the shelf.
func (s *shelf) use(k Key, size int64) {
	e := s.entries[k]
	if e == nil {
		e = s.add(k, size)
	}
	s.move(e, max(e.rank, Fetched))
}

// upgrade reports whether the frame is already on the shelf, and records this use of it.
func (s *shelf) upgrade(k Key, r Origin) bool {
	e := s.entries[k]
	if e != nil {
		s.move(e, max(e.rank, r))
	}
	return e != nil
}

// move makes e the most recently used of rank r.
func (s *shelf) move(e *entry, r Origin) {
	if e.place == nil {
		e.rank = r
		return
	}
	s.unlodge(e)
	e.rank = r
	s.lodge(e)
}

func (s *shelf) lodge(e *entry) {
	e.place = s.lists[e.rank].PushBack(e)
	s.bytes[e.rank] += e.size
}

func (s *shelf) unlodge(e *entry) {
	s.lists[e.rank].Remove(e.place)
	s.bytes[e.rank] -= e.size
	e.place = nil
}

// remove removes a frame from the shelf, unless it is being written.
func (s *shelf) remove(k Key) {
	e := s.entries[k]
	if e == nil || e.place == nil {
		return
	}
	s.unlodge(e)
	delete(s.entries, k)
	s.size -= e.size
}

// below returns the bytes that a frame of that origin may displace.
func (s *shelf) below(from Origin) (n int64) {
	for r := unused; r < from; r++ {
		n += s.bytes[r]
	}
	return n
}

// takeOldest removes the frame that is displaced first.
func (s *shelf) takeOldest(from Origin) (k Key, freed int64, ok bool) {
	for r := unused; r < from; r++ {
		if first := s.lists[r].Front(); first != nil {
			e := first.Value.(*entry)
			s.remove(e.key)
			return e.key, e.size, true
		}
	}
	return Key{}, 0, false
}
