package index

import (
	"maps"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// MemoryBlobs is the default bound of an index that no disk takes: some 110 bytes of memory a blob, 60 MB in all.
const MemoryBlobs = 1 << 19

// memory holds the newest segments, before they become a run. Where no disk takes a run it is the whole index, with at
// most limit blobs; blobs beyond them are left out, and a backup stores them again when it meets them. Packs are always
// kept: there is one for some 16 MiB.
type memory struct {
	limit    int
	blobs    map[format.ID]placed
	packs    []*PackInfo
	segments map[format.ID]int64
	leftOut  bool
}

// placed is the place of a blob: a location, and the number of its pack.
type placed struct {
	loc  Loc
	pack uint32
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, blobs: make(map[format.ID]placed), segments: make(map[format.ID]int64)}
}

func (m *memory) lookup(id *format.ID) Found {
	if at, ok := m.blobs[*id]; ok {
		return Found{at.loc, m.packs[at.pack]}
	}
	return Found{}
}

// add adds a pack of a segment.
func (m *memory) add(p *index.Pack) {
	info := infoOf(p)
	m.packs = append(m.packs, &info)
	n := uint32(len(m.packs) - 1)
	_ = EachBlob(&p.Table, func(id format.ID, loc Loc) error {
		if len(m.blobs) >= m.limit {
			if _, known := m.blobs[id]; !known {
				m.leftOut = true
				return nil
			}
		}
		m.blobs[id] = placed{loc, n}
		return nil
	})
}

// bound sets the limit, and leaves out blobs beyond it.
func (m *memory) bound(limit int) {
	m.limit = limit
	for id := range m.blobs {
		if len(m.blobs) <= limit {
			return
		}
		delete(m.blobs, id)
		m.leftOut = true
	}
}

// content returns what a run of all this holds.
func (m *memory) content() *content {
	ids := slices.SortedFunc(maps.Keys(m.blobs), format.ID.Compare)
	packs, at := m.packs, 0
	var value [locSize]byte
	return &content{
		most: uint64(len(ids)), packs: uint32(len(packs)), segments: maps.Clone(m.segments),
		next: func() (_, _ []byte, ok bool, err error) {
			if at == len(ids) {
				return nil, nil, false, nil
			}
			id := &ids[at]
			at++
			blob := m.blobs[*id]
			return id[:], appendLoc(value[:0], blob.loc, blob.pack), true, nil
		},
		pack: func(from uint32) (some []PackInfo, err error) {
			for _, p := range packs[from:min(int(from)+packsAtOnce, len(packs))] {
				some = append(some, *p)
			}
			return some, nil
		},
	}
}
