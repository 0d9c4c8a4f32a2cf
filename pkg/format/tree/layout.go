package tree

import (
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

const (
	// Version is the version of the layout this package reads and writes.
	Version = 1
	// MaxPage is the length in bytes of the largest page that is written or read. Pages are cut long before; only one
	// node with very large extended attributes comes near.
	MaxPage = 8 << 20
	// MaxName is the length in bytes of the longest name. Linux allows 255 bytes, APFS 255 UTF-16 units.
	MaxName = 1023

	kindTree   = 'T' // first byte of a page of nodes, or of references to such pages
	kindList   = 'L' // first byte of a page of chunks, or of references to such pages
	headerSize = 4   // kind, version, level, flags
	maxLevel   = 15  // far above what any directory reaches

	// A page ends after a row that brings it to cutMin bytes and whose hash is a cut, which happens on average after
	// cutSpread bytes more, or else before cutMax bytes are exceeded. Page boundaries depend on names only, so that a
	// change of one entry leaves the other pages unchanged.
	cutMin    = 16 << 10
	cutSpread = 48 << 10
	cutMax    = 256 << 10
	cutPer    = 1 << 32 / cutSpread // chance of a cut per byte of a row, in units of 2^-32

	headroom = headerSize + 2*wire.MaxUvarint // before the rows, for the header that is written last
)

// The first byte of a row: type in three bits, content in three, and two flags.
const (
	rowTypeMask     = 0x07
	rowContentShift = 3
	rowContentMask  = 0x38
	rowSameOwner    = 0x40 // mode, owners and inode flags are those of the last row of this type
	rowRare         = 0x80 // a byte of rare flags follows the second byte
)

// Forms of content, in the first byte of a row.
const (
	contentNone   = 0
	contentOne    = 1 // one blob of Size bytes
	contentInline = 2 // Size bytes, inside the row
	contentShort  = 3 // inside the row, with a length of its own
	contentChunks = 4
	contentList   = 5
)

// The second byte of a row: the forms of the times, and a flag.
const (
	timesChangedShift = 2
	timesBornShift    = 4
	timesModMask      = 0x03
	timesChangedMask  = 0x0C
	timesBornMask     = 0x70
	rowLinks          = 0x80 // the number of links is unusual: not 1, of a directory not 2
)

// Forms of the modification time: relative to that of the previous row.
const (
	modSame    = 0
	modSeconds = 1 // whole seconds: difference in seconds
	modNanos   = 2 // difference in nanoseconds
	modFull    = 3 // difference in seconds, and the nanoseconds
)

// Forms of the change time.
const (
	changedMod   = 0 // is the modification time
	changedNanos = 1 // nanoseconds after the modification time
	changedPrev  = 2 // nanoseconds after the change time of the previous row
	changedFull  = 3 // difference in seconds to the modification time, and the nanoseconds
)

// Forms of the birth time.
const (
	bornNone    = 0
	bornChanged = 1 // is the change time
	bornMod     = 2 // is the modification time
	bornNanos   = 3 // nanoseconds after the change time
	bornPrev    = 4 // nanoseconds after the last birth time of the page
	bornFull    = 5 // difference in seconds to the change time, and the nanoseconds
)

// Rare flags: the third byte of a row that has it.
const (
	rareAccess     = 0x01
	rareOutcome    = 0x02
	rareMount      = 0x04
	rareXattrs     = 0x08
	rareSameXattrs = 0x10 // the extended attributes equal those that were last written in full on the page
	rareRecheck    = 0x20
	rareFS         = 0x40
	rareKnown      = 0x7F
)

// Which owners follow a mode.
const (
	ownerUID   = 0x1
	ownerGID   = 0x2
	ownerFlags = 0x4
	ownerShift = 3
)

const (
	modeMask    = 0o7777
	lensEscape  = 15  // in half a byte of name lengths: 15 and more, the rest follows
	maxShared   = 255 // of a name's bytes shared with the previous name: bounds the decoded size of a page
	holeFlag    = 1   // lowest bit of a chunk's length
	minNodeRow  = 5   // flags, times, name lengths, one byte of name, inode
	minRefRow   = 2 + format.IDSize + 1
	minChunkRow = 1 // a hole
	minXattr    = 2 // two lengths
	minListRow  = format.IDSize + 2
	maxRefRow   = MaxName + format.IDSize + 4*wire.MaxUvarint
	maxListRow  = format.IDSize + 2*wire.MaxUvarint
)

// owner holds the fields that rows of one type mostly have in common.
type owner struct {
	mode, uid, gid uint32
	flags          uint64
}

// rowState is what a row is encoded relative to. It is zero at the start of a page, so that each page can be decoded
// alone.
type rowState struct {
	inode   uint64
	mod     Time
	changed Time
	born    Time
	owners  [8]owner // by type
}

// usualLinks is the number of links that is not written.
func usualLinks(t Type) uint64 {
	if t == Dir {
		return 2
	}
	return 1
}

// page is a page that is being written.
type page struct {
	buf   []byte // headroom, then rows
	count uint64
	names uint64    // bytes of all names, decoded
	sums  [2]uint64 // of what lies beneath its rows

	last    []byte    // of references: name in the last one
	first   format.ID // of references: first page referred to at this level
	flushed bool      // an earlier page of this level was emitted
}

func (p *page) reset() {
	if p.buf == nil {
		p.buf = make([]byte, headroom, headroom+cutMin)
	}
	p.buf = p.buf[:headroom]
	p.count, p.names, p.sums = 0, 0, [2]uint64{}
}

func (p *page) rows() int { return len(p.buf) - headroom }

// finish writes the header before the rows and returns the page, which is valid until the next row is added.
func (p *page) finish(kind byte, level int) []byte {
	var scratch [headroom]byte
	head := append(scratch[:0], kind, Version, byte(level), 0)
	head = wire.AppendUvarint(head, p.count)
	if kind == kindTree {
		head = wire.AppendUvarint(head, p.names)
	}
	start := headroom - len(head)
	copy(p.buf[start:], head)
	return p.buf[start:]
}

// nameHash spreads names evenly over 32 bits, differently for each level: FNV-1a, then the finalizer of MurmurHash3,
// because FNV's upper bits hardly depend on the last bytes. It need not be secret: pages are encrypted as a whole.
func nameHash(name []byte, level int) uint32 {
	h := uint64(14695981039346656037) ^ uint64(level)
	for _, c := range name {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xFF51AFD7ED558CCD
	h = (h ^ h>>33) * 0xC4CEB9FE1A85EC53
	return uint32(h >> 32)
}

// cuts reports whether a page of so many bytes ends after its last row, which has row bytes and that hash.
func cuts(size, row int, hash uint32) bool {
	return size >= cutMin && uint64(hash) < uint64(row)*cutPer
}
