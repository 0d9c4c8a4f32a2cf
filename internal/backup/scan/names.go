package scan

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// errNoType: the object is neither file, directory, link, device, fifo nor socket.
var errNoType = errors.New("an object of a kind that tidemark does not know")

// direntBuffer is the buffer of one getdents call. 64 KiB holds about 1500 names, so that most directories cost two
// calls (names, end).
const direntBuffer = 64 << 10

// realNames reads the names in directories and the status of each. Its buffers are reused from directory to directory.
type realNames struct {
	walk     *walk
	dirents  []byte
	arena    []byte
	names    []listed
	order    []position // of names by name, then of entries by inode
	wanted   [localfs.MaxStatBatch]string
	statuses localfs.StatBatch
	stickies [localfs.MaxStatBatch]bool // of them: excluded by the attribute of Time Machine
}

// listed is a name in a directory.
type listed struct {
	off, len uint32 // in the arena
	typ      tree.Type
	ino      uint64
	head     uint64 // the first bytes of the name, in the order of names
}

// of returns the name, a part of text.
func (n *listed) of(text string) string { return text[n.off : n.off+n.len] }

// position is an element to be sorted by key; elements of equal keys keep the order of their indexes.
type position struct {
	key   uint64
	index uint32
}

func sortPositions(p []position) {
	slices.SortFunc(p, func(a, b position) int {
		switch {
		case a.key < b.key || a.key == b.key && a.index < b.index:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
}

// head returns the first eight bytes of a name as a number, so that most comparisons do not need the name.
func head(name []byte) uint64 {
	if len(name) >= 8 {
		return binary.BigEndian.Uint64(name)
	}
	var p [8]byte
	copy(p[:], name) // names contain no NUL, so a shorter one comes first
	return binary.BigEndian.Uint64(p[:])
}

// fill fills the entries of d from the names, without those that are excluded. It reads their status in the order of
// their inodes, since neighbours in the inode table are read together on a cold cache. With cached set, the names come
// from the cache: fill then returns filled as false, and reports nothing to the visitor, once the status of one of them
// cannot be read. mustOpen: d contains rules, which can be read only when it is open.
func (l *realNames) fill(d *Directory, text string, cached bool) (filled, mustOpen bool) {
	problems, ok := l.loadRules(d, text)
	if !ok {
		return false, true
	}
	excluded, ok := l.stat(d, text, cached)
	if !ok {
		return false, false
	}
	for _, err := range problems {
		l.walk.visitor.Entry(d, "", err)
	}
	if excluded > 0 {
		l.walk.visitor.Excluded(d, excluded)
	}
	return true, false
}

// loadRules loads the rules that files in d contain or cause by their presence. It returns false if there are some and
// d is not open.
func (l *realNames) loadRules(d *Directory, text string) (problems []error, ok bool) {
	var present []string
	for _, pos := range l.order {
		if name := l.names[pos.index].of(text); d.state.Control([]byte(name)) {
			present = append(present, name)
		}
	}
	if len(present) == 0 {
		return nil, true
	}
	if d.dir == nil {
		return nil, false
	}
	d.state, problems = d.state.Load(d.Path(), present, d.dir.ReadStart)
	for _, err := range problems {
		if errors.Is(err, localfs.ErrStopped) {
			d.Err = err
			return nil, true
		}
	}
	return problems, true
}

// read reads the names of d.
func (l *realNames) read(d *Directory) error {
	if l.dirents == nil {
		l.dirents = make([]byte, direntBuffer)
	}
	l.arena, l.names = l.arena[:0], l.names[:0]
	return d.dir.Entries(l.dirents, func(name []byte, typ tree.Type, ino uint64) error {
		l.names = append(l.names, listed{uint32(len(l.arena)), uint32(len(name)), typ, ino, head(name)})
		l.arena = append(l.arena, name...)
		return nil
	})
}

// sort sets l.order to the order of the names, and returns the text that all names are parts of. Heads are sorted
// first; only equal heads compare names. A name that was listed twice, which happens when it is removed and created
// again while a large directory is read, counts once.
func (l *realNames) sort() string {
	text := string(l.arena)
	l.order = l.order[:0]
	for i := range l.names {
		l.order = append(l.order, position{l.names[i].head, uint32(i)})
	}
	sortPositions(l.order)
	twice := false
	for rest := l.order; len(rest) > 1; {
		n := 1
		for n < len(rest) && rest[n].key == rest[0].key {
			n++
		}
		if n > 1 {
			slices.SortFunc(rest[:n], func(a, b position) int {
				order := strings.Compare(l.names[a.index].of(text), l.names[b.index].of(text))
				twice = twice || order == 0 && a.index != b.index
				return order
			})
		}
		rest = rest[n:]
	}
	if twice {
		l.order = slices.CompactFunc(l.order, func(a, b position) bool {
			return l.names[a.index].of(text) == l.names[b.index].of(text)
		})
	}
	return text
}

// stat fills d.Entries from the names, and returns how many the rules exclude. It returns false if the walk ends, or if
// the status of a cached name could not be read.
func (l *realNames) stat(d *Directory, text string, cached bool) (excluded int, ok bool) {
	if l.walk.opt.View.Mounted != nil {
		d.mounted = l.walk.opt.View.Mounted[d.place()]
	}
	d.slab = l.walk.slabs.of(len(l.names))
	entries := d.slab.entries
	names := len(l.order)
	order := l.order[:0] // of the entries; it overwrites the positions that are done
	for _, pos := range l.order {
		n := &l.names[pos.index]
		verdict := d.state.Name(l.arena[n.off:n.off+n.len], n.typ)
		if verdict == rules.Exclude {
			continue
		}
		order = append(order, position{n.ino, uint32(len(entries))})
		entries = append(entries, Entry{Name: n.of(text), byName: verdict})
	}
	sortPositions(order)
	l.order = order
	missing := 0
	var lost []uint32 // entries that were not found
	excluded = names - len(entries)
	for len(order) > 0 {
		n := l.lstat(d, entries, order)
		for i, pos := range order[:n] {
			e := &entries[pos.index]
			verdict, err := l.setEntry(d, e, i)
			if err == nil && verdict != rules.Exclude {
				continue
			}
			e.Type = 0
			missing++
			switch {
			case errors.Is(err, localfs.ErrStopped):
				d.Err = err
				return 0, false // the entries are not used
			case err != nil && cached:
				return 0, false
			case err == nil:
				excluded++
			case errors.Is(err, localfs.ErrVanished):
				lost = append(lost, pos.index)
			default:
				l.walk.missed(d, e, err)
			}
		}
		order = order[n:]
	}
	if len(lost) > 0 {
		excluded += l.recheck(d, entries, lost)
	}
	if missing > 0 {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Type == 0 })
	}
	d.Entries, d.slab.entries = entries, entries
	return excluded, true
}

// lstat reads the status of the next entries into l.statuses, and returns how many.
func (l *realNames) lstat(d *Directory, entries []Entry, order []position) int {
	wanted := l.wanted[:min(len(order), len(l.wanted))]
	for i := range wanted {
		wanted[i] = entries[order[i].index].Name
	}
	if d.dir == nil {
		return d.above.LstatBatch(d.Name, wanted, &l.statuses)
	}
	n := d.dir.LstatBatch("", wanted, &l.statuses)
	if l.walk.sticky && !errors.Is(l.statuses.Errs[0], localfs.ErrStopped) {
		if err := l.sticky(d, n); err != nil {
			l.statuses.Errs[0] = err
		}
	}
	return n
}

// setEntry sets e to a status that was read, and applies the rules that need more than the name.
func (l *realNames) setEntry(d *Directory, e *Entry, at int) (rules.Verdict, error) {
	st := &l.statuses.Stats[at]
	if err := l.statuses.Errs[at]; err != nil {
		return 0, err
	}
	if st.Type == 0 {
		return 0, errNoType
	}
	set, verdict := l.walk.opt.Rules, rules.Include
	if e.byName == rules.NeedType {
		verdict = d.state.Name([]byte(e.Name), st.Type)
		e.byName = verdict
	}
	if verdict != rules.Exclude {
		verdict = set.Object(st.Type, st.Size, st.Attr&localfs.AttrNoDump != 0)
	}
	if verdict != rules.Exclude && l.stickies[at] {
		verdict = rules.Exclude
	}
	if verdict != rules.Exclude && st.Type == tree.Dir && ownFolder(d, e.Name) {
		verdict = rules.Exclude
	}
	e.Set(st)
	if dataless := l.walk.opt.View.Dataless; dataless != nil {
		e.Dataless = dataless(st)
	}
	e.on(st.Dev, d.Dev)
	if verdict == rules.Include && e.byName != rules.NotEntered && l.walk.opt.View.Mounted != nil && absent(d, e, st) {
		return verdict, l.walk.live(d, e)
	}
	return verdict, nil
}

// absent reports whether a snapshot of a file system does not contain what is at the place of e: another file system is
// mounted there, or it is a subvolume of btrfs, which is an empty directory with the inode number 2 in a snapshot
// (BTRFS_EMPTY_SUBVOL_DIR_OBJECTID).
func absent(d *Directory, e *Entry, st *localfs.Stat) bool {
	const emptySubvolume = 2
	return d.mounted[e.Name] || st.Ino == emptySubvolume && st.Type == tree.Dir && d.FS.Type == "btrfs"
}

// ownFolder reports whether a directory holds the snapshots that other backups read (package sourcesnap): one of this
// name in the root of a subvolume of btrfs, which has the inode number 256 (BTRFS_FIRST_FREE_OBJECTID).
func ownFolder(d *Directory, name string) bool {
	const rootInode = 256
	return name == ".tidemark-snapshot" && d.Ino == rootInode && d.FS.Type == "btrfs"
}

// live has e read at its own place, not in the snapshot from which d is read.
func (w *walk) live(d *Directory, e *Entry) error {
	parent := d.place()
	above, err := w.door(parent).OpenSearchable(parent)
	if err != nil {
		return err
	}
	w.opened(above)
	var now localfs.Stat
	if err := above.Lstat(e.Name, &now); err != nil {
		return err
	}
	if d.handles == nil {
		d.handles = map[string]*localfs.Dir{}
	}
	d.handles[e.Name] = above
	e.Set(&now)
	if e.on(now.Dev, d.Dev); e.FS == 0 {
		e.FS = 1 // a mount point all the same
	}
	return nil
}

// sticky reads the extended attribute by which macOS excludes an object from backups, of the entries whose status was
// read.
func (l *realNames) sticky(d *Directory, n int) error {
	l.stickies = [localfs.MaxStatBatch]bool{}
	return d.dir.EachXattr(l.wanted[:n], cmp.Or(l.walk.opt.View.Sticky, rules.StickyXattr), func(i int, value []byte) {
		path := func() string { return d.Join(l.wanted[i]) }
		l.stickies[i] = l.walk.opt.Rules.Sticky(value, path) == rules.Exclude
	})
}
