package scan

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Directory is one scanned directory. Its entries are sorted by the bytes of their names.
type Directory struct {
	Parent   *Directory
	Index    int    // of this directory among Parent.Entries
	Slot     int    // of this directory among Parent.Subdirs
	Name     string // in the snapshot; empty for the root
	Entries  []Entry
	Err      error     // it could not be opened or read to its end: Entries may be incomplete
	Missed   int       // how many entries have no readable status, vanished ones aside
	Sources  int       // how many of the entries are sources; 1 for a root that is itself one
	Picked   bool      // it contains only the path to sources, not all its entries
	First    bool      // it lies in a source with SourceTree.First
	Excluded bool      // its contents are excluded: another file system, a pseudo file system, or a rule
	Started  time.Time // before its names were read
	FS       localfs.FSInfo
	Dev      uint64
	Ino      uint64
	Subdirs  []uint32 // indexes of the entries that are entered; set before the visitor is called
	User     any      // the visitor's
	// Listing is what NameCache.Lookup may return in another walk: names that were read and can be trusted. Nil: there is
	// none, or the cache has the same.
	Listing []byte

	dir     *localfs.Dir
	own     stamp                   // of the root
	above   *localfs.Dir            // in which it lies
	way     string                  // the path by which the root and directories on the path to sources were opened
	named   string                  // the path of the user for these; way may lie in a snapshot of a file system
	door    localfs.IOContext       // through which it was opened by that path
	pass    *iopolicy.Pass          // of the device of a directory that was opened by its name
	handles map[string]*localfs.Dir // of picked entries that lie in another directory than dir
	mounted map[string]bool         // names of mount points in it, if it is read from a snapshot of its file system
	picks   map[string]*SourceTree
	state   *rules.DirState
	slab    *slab // of Entries; nil: they are not reused
	spent   bool  // the visitor has called Recycle
}

// Dir returns the open directory that contains the named entry; nil if d could not be opened, or need not be because it
// is unchanged. It is open during Visitor.Directory, and as long as it is retained.
func (d *Directory) Dir(name string) *localfs.Dir {
	if h, ok := d.handles[name]; ok {
		return h
	}
	return d.dir
}

// Above returns the open directory that contains d; nil for the root. It is open during Visitor.Directory.
func (d *Directory) Above() *localfs.Dir { return d.above }

// Reopen opens d again after the walk has left it, one level after the other. It returns localfs.ErrVanished if another
// directory has taken its place. The caller releases the result.
func (d *Directory) Reopen() (*localfs.Dir, error) {
	if d.Picked {
		return d.door.OpenSearchable(d.way)
	}
	if d.way != "" {
		return d.door.OpenDir(d.way)
	}
	above, err := d.reopenAbove()
	if err != nil {
		return nil, err
	}
	defer above.Release()
	dir, err := above.Open(d.Name)
	if err != nil {
		return nil, err
	}
	dir.SetPass(d.pass)
	st, err := dir.Fstat()
	if err == nil && (st.Ino != d.Ino || st.Dev != d.Dev) {
		err = fmt.Errorf("open %s again: %w", d.Path(), localfs.ErrVanished)
	}
	if err != nil {
		dir.Release()
		return nil, err
	}
	return dir, nil
}

func (d *Directory) reopenAbove() (*localfs.Dir, error) {
	if h, ok := d.Parent.handles[d.Name]; ok {
		h.Retain()
		return h, nil
	}
	return d.Parent.Reopen()
}

// Recycle frees the memory of d.Entries for the entries of another directory. The caller must not keep pointers to
// them; it may keep their names. A directory without subdirectories that is recycled inside Visitor.Directory is reused
// itself.
func (d *Directory) Recycle() {
	d.Entries, d.spent = nil, true
	if d.slab != nil {
		d.slab.recycle()
		d.slab = nil
	}
}

// Path returns the path inside the snapshot, beginning with a slash.
func (d *Directory) Path() string {
	if d.Parent == nil {
		return "/"
	}
	return string(d.AppendPath(nil))
}

// AppendPath appends the path inside the snapshot: nothing for the root.
func (d *Directory) AppendPath(dst []byte) []byte {
	if d.Parent == nil {
		return dst
	}
	dst = d.Parent.AppendPath(dst)
	dst = append(dst, '/')
	return append(dst, d.Name...)
}

// place returns the path of d on this machine, as the user knows it.
func (d *Directory) place() string {
	if d.way != "" {
		return d.named
	}
	if p := d.Parent.picks[d.Name]; p != nil {
		return p.Path
	}
	return filepath.Join(d.Parent.place(), d.Name)
}

// Join returns the path of an entry inside the snapshot.
func (d *Directory) Join(name string) string {
	if d.Parent == nil {
		return "/" + name
	}
	return d.Path() + "/" + name
}
