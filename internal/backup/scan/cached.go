package scan

import (
	"bytes"
	"math"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// NameCache has what earlier walks found. Several workers call its methods at once, each for another directory.
type NameCache interface {
	// Lookup returns the Listing that d had in an earlier walk since the last boot; nil if there is none. It is called
	// before the names of d are read. The result may be in room, or in a larger buffer, which is returned.
	Lookup(d *Directory, room []byte) (listing, larger []byte)
	// Unchanged reports whether the entries of d, names, times and all, are those of an earlier walk. If not, it is called
	// again when another source of names has given other entries.
	Unchanged(d *Directory) bool
	// Refresh reports whether a Listing is of use although the directory is unchanged.
	Refresh() bool
}

// worker is one goroutine of the walk. It takes the names in a directory from the cache, if there is one, and
// verifies each by its status. Where that shows something new, the names are read.
type worker struct {
	disk    *realNames
	clock   *report.Clock
	cache   NameCache // nil: none
	room    []byte    // for Lookup
	listing []byte    // that Lookup returned
	writer  listingWriter

	asked    bool   // Lookup was called for this directory
	usable   bool   // the names of disk are those of the listing, and no status call has failed
	noSubs   bool   // none of them is a directory
	statted  bool   // the status of all was read, without opening the directory
	nameText string // that the names are parts of
}

// begin lists a directory without subdirectories without opening it: if nothing is new there, it need not be open.
// It reports whether it has filled the entries of d. mustOpen: a file system or a source begins at d, or its
// contents are excluded.
//
// Another directory, or a symbolic link, may have taken the place of d. Then the entries are not unchanged, unless they
// are those of d, moved.
func (l *worker) begin(d *Directory, mustOpen bool) bool {
	l.asked = false
	if l.cache == nil || mustOpen || !d.FS.Dated || l.disk.walk.sticky {
		return false
	}
	l.lookup(d)
	if !l.usable || !l.noSubs {
		return false
	}
	state := d.state
	if !l.fill(d) {
		d.reset(state)
		return d.Err != nil
	}
	for i := range d.Entries {
		l.noSubs = l.noSubs && d.Entries[i].Type != tree.Dir
	}
	if l.noSubs && l.unchanged(d) {
		return true
	}
	l.statted = true
	return false
}

// lookup takes the names of d from the cache, sorted, if the stamp of d is the one in the listing. The names are
// unverified: the status of each must be read.
func (l *worker) lookup(d *Directory) {
	if l.asked {
		return
	}
	l.asked, l.usable, l.statted = true, false, false
	if l.cache == nil {
		return
	}
	l.listing, l.room = l.cache.Lookup(d, l.room[:0])
	if len(l.listing) == 0 || !d.FS.Dated {
		return
	}
	stamp, disk := d.stamp(), l.disk
	disk.names, disk.order = disk.names[:0], disk.order[:0]
	l.noSubs = true
	disk.arena, l.usable = readListing(l.listing, &stamp, disk.arena[:0], func(off, n int, typ tree.Type, ino uint64) {
		disk.order = append(disk.order, position{index: uint32(len(disk.names))})
		disk.names = append(disk.names, listed{off: uint32(off), len: uint32(n), typ: typ, ino: ino})
		l.noSubs = l.noSubs && typ != tree.Dir && typ != 0
	})
	l.nameText = string(disk.arena)
}

// fill fills the entries of d from the cached names. It returns false if the names must be read.
func (l *worker) fill(d *Directory) bool {
	filled, mustOpen := l.disk.fill(d, l.nameText, true)
	l.usable = filled || mustOpen
	return filled
}

// list fills the entries of d, which is open.
func (l *worker) list(d *Directory) {
	l.lookup(d)
	if l.usable && l.listCached(d) {
		return
	}
	d.Err = l.disk.read(d)
	l.fillRead(d)
}

// fillRead fills the entries of d from the names that were read, even if reading them ended early.
func (l *worker) fillRead(d *Directory) {
	if l.disk.fill(d, l.disk.sort(), false); d.Err == nil {
		l.keep(d)
	}
}

// listCached lists d by the cached names. It returns false if the names must be read.
func (l *worker) listCached(d *Directory) bool {
	state := d.state
	switch {
	case l.statted: // before d was opened
		if st, err := d.dir.Fstat(); err != nil || d.stampOf(&st) != d.stamp() {
			d.reset(state)
			return false
		}
	case !l.fill(d):
		d.reset(state)
		return d.Err != nil
	case l.unchanged(d):
		return true
	}
	// An entry is new or changed. Before it is read, reading the names costs little and verifies them.
	if d.Err = l.disk.read(d); d.Err == nil {
		l.disk.sort()
		if now := l.write(d); bytes.Equal(now, l.listing) {
			d.Listing = bytes.Clone(now)
			return true
		}
	}
	d.reset(state)
	l.fillRead(d)
	return true
}

// relist does it again after a file system was mounted on d, unless that is excluded.
func (l *worker) relist(d *Directory) {
	l.usable = false
	if d.Excluded || d.Err != nil {
		l.unchanged(d) // replaces the digest of entries that do not belong to d
		return
	}
	d.Err = l.disk.read(d)
	l.fillRead(d)
}

func (l *worker) unchanged(d *Directory) bool {
	defer l.clock.Enter(l.clock.Enter(report.Compare))
	return l.cache != nil && l.cache.Unchanged(d)
}

// lostAndFound is where a file system check puts files, without setting the times of the directory.
const lostAndFound = "lost+found"

// keep sets d.Listing from the names that were read, if they can be trusted later: d was the same directory from the
// scan of its parent until its names were read, and its timestamp is safe.
func (l *worker) keep(d *Directory) {
	if l.cache == nil || l.unchanged(d) && !l.cache.Refresh() || !d.FS.Dated || d.Name == lostAndFound {
		return
	}
	stamp := d.stamp()
	if !stamp.exact() || !Safe(stamp.changed, tree.TimeOf(d.Started)) {
		return
	}
	st, err := d.dir.Fstat()
	// Names in an encrypted directory depend on whether its key is loaded.
	if err != nil || d.stampOf(&st) != stamp || st.Attr&localfs.AttrEncrypted != 0 {
		return
	}
	l.disk.sort()
	d.Listing = bytes.Clone(l.write(d))
}

// write makes the listing of the names, which are sorted.
func (l *worker) write(d *Directory) []byte {
	stamp, disk := d.stamp(), l.disk
	l.writer.begin(&stamp)
	for _, pos := range disk.order {
		n := &disk.names[pos.index]
		l.writer.add(disk.arena[n.off:n.off+n.len], n.typ, n.ino)
	}
	return l.writer.end()
}

// stamp returns the stamp of d from the scan of its parent, before d was opened.
func (d *Directory) stamp() stamp {
	if d.Parent == nil {
		return d.own
	}
	e := &d.Parent.Entries[d.Index]
	return stamp{
		mount: d.FS.Mount, dev: d.Dev, ino: d.Ino, size: e.Size, links: uint64(e.Links), modified: e.ModTime(),
		changed: e.Changed(),
	}
}

func (d *Directory) stampOf(st *localfs.Stat) stamp {
	return stamp{
		mount: d.FS.Mount, dev: st.Dev, ino: st.Ino, size: st.Size, links: min(st.Links, math.MaxUint32),
		modified: st.Mtime, changed: st.Ctime,
	}
}

// reset makes d what it was before its entries were known.
func (d *Directory) reset(state *rules.DirState) {
	d.Recycle()
	d.state, d.spent, d.Missed = state, false, 0
}
