// Package mark is the codec of deletion marks: small records that name packs which writers must not use, because a
// prune is about to remove them, or because they are damaged. The bytes are the content of a sealed object; the caller
// seals it. The specification is in SPEC.md.
package mark

import (
	"fmt"
	"math"

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
	one, f := *m, wire.NewFields(nil)
	one.fields(f)
	return f.Finish()
}

// fields writes or reads m, and returns the rule.
func (m *Mark) fields(f *wire.Fields) (as uint64) {
	m.Packs = f.Set(tagPacks, m.Packs, "ids")
	m.Created = f.Int(tagCreated, m.Created)
	as = f.Uint(tagRule, rule)
	m.Checked = f.Set(tagChecked, m.Checked, "ids")
	m.Host = f.String(tagHost, m.Host)
	m.Damaged = f.Flag(tagDamaged, m.Damaged, math.MaxUint64)
	m.Forgotten = f.Set(tagForgotten, m.Forgotten, "ids")
	var contents []byte
	for i := 0; len(m.Contents) > 0 && i < len(m.Forgotten); i++ {
		contents = wire.AppendBytes(contents, m.Contents[m.Forgotten[i]])
	}
	f.Value(tagContents, contents, m.readContents)
	return as
}

// readContents reads the contents, which are in the order of Forgotten; an unknown one is empty.
func (m *Mark) readContents(value *wire.Reader) {
	all := value.Strings()
	if len(all) != len(m.Forgotten) {
		value.Fail("contents are not those of the forgotten")
		return
	}
	for i, content := range all {
		if content == "" {
			continue
		}
		if m.Contents == nil {
			m.Contents = make(map[format.ID][]byte)
		}
		m.Contents[m.Forgotten[i]] = []byte(content)
	}
}

// Decode reads the content of a mark object. Its error wraps format.ErrCorrupt, or format.ErrUnsupported if the mark
// asks for what only a newer program does.
func Decode(p []byte) (*Mark, error) {
	m, as := &Mark{}, uint64(0)
	err := wire.ReadFields(p, func(f *wire.Fields) { as = m.fields(f) })
	if err == nil && as > rule {
		err = fmt.Errorf("its rule is newer: %w", format.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("read mark: %w", err)
	}
	return m, nil
}
