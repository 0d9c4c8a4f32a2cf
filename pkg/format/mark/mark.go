// Package mark is the codec of marks: the small records by which a prune announces which packs it is going to remove.
// The bytes here are the content of a sealed object; sealing is the caller's. SPEC.md beside this file is the exact
// description.
//
// It knows nothing of when a pack may be removed: that is the business of the prune, and of the writers who heed it.
package mark

import (
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Mark condemns packs: writers that start after it treat them as absent, and take trees over only from snapshots that it
// has looked at or that heed it. A prune removes those that are still unused when every other writer has ended.
type Mark struct {
	Packs   []format.ID // condemned; ascending, none twice
	Created int64       // seconds since 1970-01-01T00:00:00Z, by the clock of the machine that pruned; for people
	Looked  []format.ID // snapshots that were followed and need none of the packs; ascending, none twice
	Host    string      // the machine that pruned; for people
}

// rule is the one set of duties of a writer that there is: those of SPEC.md. It stands in every mark under an odd tag, so
// that a program that does not know the duties does not write beside the mark.
const rule = 1

// Tags of the fields.
const (
	tagPacks   = 1
	tagCreated = 2
	tagRule    = 3
	tagLooked  = 4
	tagHost    = 6
)

// Encode returns the content of a mark object. Packs and snapshots may be in any order and repeat.
func Encode(m *Mark) []byte {
	f := wire.NewFields(nil)
	f.IDs(tagPacks, sorted(m.Packs))
	f.Int(tagCreated, m.Created)
	f.Uint(tagRule, rule)
	f.IDs(tagLooked, sorted(m.Looked))
	f.String(tagHost, m.Host)
	return f.Finish()
}

func sorted(ids []format.ID) []format.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, format.ID.Compare)
	return slices.Compact(ids)
}

// Decode reads the content of a mark object. Its error wraps format.ErrCorrupt, or format.ErrUnsupported if the mark
// asks for what only a newer program does.
func Decode(p []byte) (*Mark, error) {
	m := &Mark{}
	unknownRule := false
	err := wire.DecodeFields(p, func(tag uint64, value *wire.Reader) bool {
		switch tag {
		case tagPacks:
			m.Packs = ascending(value)
		case tagCreated:
			m.Created = value.Varint()
		case tagRule:
			unknownRule = value.Uvarint() > rule
		case tagLooked:
			m.Looked = ascending(value)
		case tagHost:
			m.Host = value.Text()
		default:
			return false
		}
		return true
	})
	if err == nil && unknownRule {
		err = fmt.Errorf("its rule is newer: %w", format.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("read mark: %w", err)
	}
	return m, nil
}

func ascending(value *wire.Reader) []format.ID {
	ids := value.IDs()
	for i := 1; i < len(ids); i++ {
		if ids[i-1].Compare(ids[i]) >= 0 {
			value.Fail("ids do not ascend")
		}
	}
	return ids
}
