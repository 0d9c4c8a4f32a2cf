package pack

import (
	"fmt"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// KindOf returns the kind of the pack with that ID.
func KindOf(id format.ID) Kind {
	if id[len(id)-1]&1 != 0 {
		return Trees
	}
	return Data
}

// ID returns the ID of a pack from its bytes: their BLAKE3-256, whose last bit is 1 if the header says that the pack
// holds trees, and 0 otherwise. So the name of a pack says where it lies.
func ID(data []byte) format.ID {
	s := NewSum()
	_, _ = s.Write(data) // never fails
	return s.ID()
}

// Sum computes IDs of stored files from bytes that are written in their order.
type Sum struct {
	hash *blake3.Hasher
	head []byte // up to the kind in the header of a pack
}

// NewSum returns a Sum of no bytes.
func NewSum() *Sum { return &Sum{hash: blake3.New()} }

// Write adds bytes. It never fails.
func (s *Sum) Write(p []byte) (int, error) {
	if need := packKindOffset + 1 - len(s.head); need > 0 {
		s.head = append(s.head, p[:min(need, len(p))]...)
	}
	return s.hash.Write(p)
}

// File returns the plain BLAKE3-256, the ID of every other file.
func (s *Sum) File() format.ID { return format.ID(s.hash.Sum(nil)) }

// ID returns the ID of a pack.
func (s *Sum) ID() format.ID {
	id := s.File()
	last := &id[len(id)-1]
	*last &^= 1
	if len(s.head) > packKindOffset && Kind(s.head[packKindOffset]) == Trees {
		*last |= 1
	}
	return id
}

// fits returns an error unless id is that of a pack of t's kind. Another program may store a pack under any name.
func (t *Table) fits(id format.ID) error {
	if named := KindOf(id); t.Kind != named && t.Kind.Valid() { // a kind that is not valid is refused as a newer one
		return fmt.Errorf("a pack of %v under the name of one of %v: %w", t.Kind, named, format.ErrCorrupt)
	}
	return nil
}
