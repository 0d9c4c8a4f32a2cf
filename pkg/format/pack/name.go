package pack

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// ID returns the ID of a pack from its bytes.
func ID(data []byte, kind Kind) format.ID { return IDOf(seal.FileID(data), kind) }

// IDOf returns the ID of a pack from the BLAKE3-256 of its bytes: the last bit says whether the pack holds trees. So
// its name says where it lies.
func IDOf(sum format.ID, kind Kind) format.ID {
	last := &sum[len(sum)-1]
	*last &^= 1
	if kind == Trees {
		*last |= 1
	}
	return sum
}

// KindOf returns the kind of the pack with that ID.
func KindOf(id format.ID) Kind {
	if id[len(id)-1]&1 != 0 {
		return Trees
	}
	return Data
}

// Names reports whether id is the ID of a pack whose bytes have that BLAKE3-256. Its last bit is judged when the pack
// is opened: the key of another kind does not open it.
func Names(id, sum format.ID) bool { return IDOf(sum, KindOf(id)) == id }

// fits returns an error unless id is that of a pack of t's kind. Another program may store a pack under any name.
func (t *Table) fits(id format.ID) error {
	if named := KindOf(id); t.Kind != named && t.Kind.Valid() { // a kind that is not valid is refused as a newer one
		return fmt.Errorf("a pack of %v under the name of one of %v: %w", t.Kind, named, format.ErrCorrupt)
	}
	return nil
}
