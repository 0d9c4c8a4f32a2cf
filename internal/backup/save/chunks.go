package save

import (
	"sync"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Chunks collects the chunks of a large file. Workers deliver its parts in any order; Chunks puts the chunks back into
// the order of the file and into pages, so that a file of any size takes the memory of a few pages.
type Chunks struct {
	mu      sync.Mutex
	content *tree.ContentBuilder
	next    int                  // the first part that content lacks
	early   map[int][]tree.Chunk // parts delivered before part next
	parts   int                  // how many there are; -1 while the file is being read
}

// NewChunks returns Chunks without parts.
func (s *Saver) NewChunks() *Chunks {
	return &Chunks{early: map[int][]tree.Chunk{}, parts: -1, content: tree.NewContentBuilder(s.putPage)}
}

// putPage stores a page of a list of chunks.
func (s *Saver) putPage(page []byte) (format.ID, error) {
	s.storing.RLock()
	defer s.storing.RUnlock()
	w := s.treeWriter()
	defer s.trees.Put(w)
	return w.emit(page)
}

// Deliver adds the chunks of part seq, and reports whether that was the last one missing.
func (f *Chunks) Deliver(seq int, chunks []tree.Chunk) (whole bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.early[seq] = chunks
	for {
		part, ok := f.early[f.next]
		if !ok {
			return f.next == f.parts, nil
		}
		for _, c := range part {
			if err := f.content.Add(c); err != nil {
				return false, err
			}
		}
		delete(f.early, f.next)
		f.next++
	}
}

// Complete sets the number of parts, and reports whether all of them have been delivered.
func (f *Chunks) Complete(parts int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parts = parts
	return f.next == parts
}

// Content returns the content of a file after all its parts were delivered.
func (f *Chunks) Content() (tree.Content, error) { return f.content.Finish() }
