package snapshot

import (
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Stats are the numbers of the session that made a snapshot, and of what the snapshot holds. They serve people: nothing
// is decided by them.
type Stats struct {
	Content Content  // the snapshot as a whole, taken over from its parent or not
	Objects Objects  // what the session did, in the words of TSM's session report
	Files   Compared // regular files by how they compare with the parent
	Dirs    Compared // directories likewise
	Others  Compared // everything else likewise
	Bytes   Bytes    // what the session moved
	Blobs   Blobs    // what the repository gained
}

// Content counts what is in a snapshot, or in a part of one.
type Content struct {
	Files  uint64 `json:"files"`  // regular files
	Dirs   uint64 `json:"dirs"`   // directories
	Others uint64 `json:"others"` // everything else
	Bytes  uint64 `json:"bytes"`  // sizes of the files; of hard links each name
}

// Objects is the number of objects.
func (c *Content) Objects() uint64 { return c.Files + c.Dirs + c.Others }

// Count adds an object. The size of others than files does not count.
func (c *Content) Count(t tree.Type, size uint64) {
	switch t {
	case tree.File:
		c.Files++
		c.Bytes += size
	case tree.Dir:
		c.Dirs++
	default:
		c.Others++
	}
}

// Add adds the numbers of o.
func (c *Content) Add(o Content) {
	c.Files, c.Dirs, c.Others, c.Bytes = c.Files+o.Files, c.Dirs+o.Dirs, c.Others+o.Others, c.Bytes+o.Bytes
}

// Objects counts file-system objects by their fate in the session.
type Objects struct {
	Inspected uint64 // considered, whatever became of it
	BackedUp  uint64 // content read and stored
	Updated   uint64 // only metadata differed from the parent
	Unchanged uint64 // nothing differed from the parent
	Rebound   uint64 // always 0: TSM's number of objects with a new management class
	Expired   uint64 // in the parent, now gone or excluded
	Failed    uint64 // not in the snapshot, or without content
	Grew      uint64 // longer at the end of reading than at its start
	Retries   uint64 // attempts to read beyond the first
	Excluded  uint64 // left out by a rule; an excluded directory counts once
	Changing  uint64 // changed while being read, on every attempt
}

// Compared counts objects of one type by how they compare with the parent.
type Compared struct {
	New        uint64 // not in the parent
	Changed    uint64 // content or metadata differs
	Unmodified uint64 // equal
}

// Bytes counts bytes of the session.
type Bytes struct {
	Inspected   uint64 // sum of the sizes of the files inspected
	Read        uint64 // read from files, retries included
	BeforeDedup uint64 // went through chunking
	AfterDedup  uint64 // of these, in chunks the repository did not have
	Trees       uint64 // new tree pages and lists of chunks, before compression
	Compressed  uint64 // new data and trees after compression, before sealing
	Stored      uint64 // sealed: by how much the repository grew
	Transferred uint64 // sent to the store, retries included
}

// Blobs counts what the repository gained.
type Blobs struct {
	Data  uint64 // new chunks of file data
	Trees uint64 // new tree pages and lists of chunks
	Packs uint64 // new packs
}

// Tags of the groups in the statistics.
const (
	tagContent = 2
	tagObjects = 4
	tagFiles   = 6
	tagDirs    = 8
	tagOthers  = 10
	tagBytes   = 12
	tagBlobs   = 14
)

// group returns the numbers of the group with that tag in the order of their tags, which are 2, 4, 6, ...; nil if there
// is no such group. It is the one list of them for both directions. A new number goes to the end of its group.
func (s *Stats) group(tag uint64) []*uint64 {
	switch tag {
	case tagContent:
		c := &s.Content
		return []*uint64{&c.Files, &c.Dirs, &c.Others, &c.Bytes}
	case tagObjects:
		o := &s.Objects
		return []*uint64{
			&o.Inspected, &o.BackedUp, &o.Updated, &o.Unchanged, &o.Rebound, &o.Expired, &o.Failed, &o.Grew,
			&o.Retries, &o.Excluded, &o.Changing,
		}
	case tagFiles:
		return s.Files.numbers()
	case tagDirs:
		return s.Dirs.numbers()
	case tagOthers:
		return s.Others.numbers()
	case tagBytes:
		b := &s.Bytes
		return []*uint64{
			&b.Inspected, &b.Read, &b.BeforeDedup, &b.AfterDedup, &b.Trees, &b.Compressed, &b.Stored, &b.Transferred,
		}
	case tagBlobs:
		return []*uint64{&s.Blobs.Data, &s.Blobs.Trees, &s.Blobs.Packs}
	}
	return nil
}

func (c *Compared) numbers() []*uint64 { return []*uint64{&c.New, &c.Changed, &c.Unmodified} }

// fields writes or reads s.
func (s *Stats) fields(f *wire.Fields) {
	for tag := uint64(tagContent); tag <= tagBlobs; tag += 2 {
		f.Record(tag, numberFields(s.group(tag)))
	}
}

// numberFields are the fields of a record of numbers, with the tags of numberTag.
func numberFields(numbers []*uint64) func(*wire.Fields) {
	return func(f *wire.Fields) {
		for i, n := range numbers {
			*n = f.Uint(numberTag(i), *n)
		}
	}
}

// numberTag returns the tag of the i-th number of a group. All are even: a reader may skip what it does not know.
func numberTag(i int) uint64 { return 2 * uint64(i+1) }
