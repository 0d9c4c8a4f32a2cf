// Package mark is the codec of deletion marks: small records that name packs which writers must not use, because a
// prune is about to remove them, or because they are damaged. The bytes are the content of a sealed object; the caller
// seals it. The specification is in SPEC.md.
package mark

import (
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Mark names packs that writers treat as absent if they start after it. They reuse trees only of snapshots that it
// lists in Checked or that acknowledge it. A prune removes those of them that no snapshot needs once every running
// writer has acknowledged the mark.
type Mark struct {
	Packs   []format.ID // ascending, none twice; of damage also index segments
	Created int64       // seconds since 1970-01-01T00:00:00Z, by the clock of the machine that pruned; for display
	Checked []format.ID // snapshots that were traced and need none of the packs; ascending, none twice
	Host    string      // the machine that pruned; for display
	// Forgotten is the content of a tombstone: snapshots that were forgotten on purpose; ascending, none twice.
	Forgotten []format.ID
	// Contents are the contents of forgotten snapshots, those that are known. With one a snapshot can be published again.
	Contents map[format.ID][]byte
	Damaged  bool // the packs or segments are missing or damaged; removed when no snapshot needs them
}

// rule is the number of the set of duties of a writer in SPEC.md. Every mark has it under an odd tag, so that a program
// that does not know the duties does not write.
const rule = 1

// Tags of the fields.
const (
	tagPacks     = 1
	tagCreated   = 2
	tagRule      = 3
	tagChecked   = 4
	tagHost      = 6
	tagDamaged   = 8
	tagForgotten = 10
	tagContents  = 12
)

// Encode returns the content of a mark object. Packs and snapshots may be in any order and repeat.
func Encode(m *Mark) []byte {
	f := wire.NewFields(nil)
	f.IDs(tagPacks, sorted(m.Packs))
	f.Int(tagCreated, m.Created)
	f.Uint(tagRule, rule)
	f.IDs(tagChecked, sorted(m.Checked))
	f.String(tagHost, m.Host)
	if m.Damaged {
		f.Uint(tagDamaged, 1)
	}
	if len(m.Forgotten) > 0 {
		f.IDs(tagForgotten, sorted(m.Forgotten))
	}
	if len(m.Contents) > 0 {
		var contents []string
		for _, id := range sorted(m.Forgotten) {
			contents = append(contents, string(m.Contents[id]))
		}
		f.Strings(tagContents, contents)
	}
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
	var contents []string
	err := wire.DecodeFields(p, func(tag uint64, value *wire.Reader) bool {
		switch tag {
		case tagPacks:
			m.Packs = ascending(value)
		case tagCreated:
			m.Created = value.Varint()
		case tagRule:
			unknownRule = value.Uvarint() > rule
		case tagChecked:
			m.Checked = ascending(value)
		case tagHost:
			m.Host = value.Text()
		case tagDamaged:
			m.Damaged = value.Uvarint() != 0
		case tagForgotten:
			m.Forgotten = ascending(value)
		case tagContents:
			if contents = value.Strings(); len(contents) != len(m.Forgotten) {
				value.Fail("contents are not those of the forgotten")
			}
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
	for i, content := range contents {
		if content == "" {
			continue
		}
		if m.Contents == nil {
			m.Contents = make(map[format.ID][]byte)
		}
		m.Contents[m.Forgotten[i]] = []byte(content)
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
