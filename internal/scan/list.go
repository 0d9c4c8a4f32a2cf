package scan

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/scan/listing"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// errNoType: something that is neither file, directory, link, device, fifo nor socket.
var errNoType = errors.New("an object of a kind that tidemark does not know")

// direntBuffer is the buffer of one getdents call. 64 KiB holds about 1500 names, so that most directories cost two
// calls (names, end).
const direntBuffer = 64 << 10

// scratch is what one worker reuses from directory to directory.
type scratch struct {
	clock   *report.Clock
	dirents []byte
	arena   []byte
	found   []found
	order   []position                // of found by name, then of entries by inode
	spare   []position                // to sort order
	wanted  [localfs.MostLooks]string // names of the next of order
	looks   localfs.Looks
	room    []byte // for listing
	listing []byte // that was recalled of the directory
	writer  listing.Writer
	asked   bool   // the memory was, about the directory
	guess   bool   // and its names are in found, though nobody has read them
	leaf    bool   // and none of them is a directory
	seen    bool   // and all have been looked at, from outside
	text    string // of all names of the guess
}

type found struct {
	off, len uint32
	typ      tree.Type
	ino      uint64
	head     uint64 // the first bytes of the name, in the order of names
}

// name returns the name, which text has.
func (f *found) name(text string) string { return text[f.off : f.off+f.len] }

// head returns the first eight bytes of a name as a number, so that most comparisons need not look at the name.
func head(name []byte) uint64 {
	if len(name) >= 8 {
		return binary.BigEndian.Uint64(name)
	}
	var p [8]byte
	copy(p[:], name) // names hold no NUL, so a shorter one comes first
	return binary.BigEndian.Uint64(p[:])
}

// list fills d.Entries: by the names that are remembered, if that is enough, else by those that it reads.
func (w *walk) list(d *Directory, s *scratch) {
	w.recall(d, s)
	if s.guess && w.recalled(d, s) {
		return
	}
	d.Err = w.names(d, s, false)
	w.look(d, s)
}

// look looks at what was found in d, even if that is not all there is.
func (w *walk) look(d *Directory, s *scratch) {
	if w.entries(d, s.sortNames(), s, false); !errors.Is(d.Err, localfs.ErrStopped) {
		w.remember(d, s)
	}
}

// entries drops of the names of d what is excluded, and looks at the rest in the order of their inodes: neighbours in the
// inode table are read together on a cold cache. If guessed is set, nobody has read that the names are there: it reports
// false, and tells the visitor nothing, once it cannot look at one of them.
func (w *walk) entries(d *Directory, text string, s *scratch, guessed bool) bool {
	problems, ok := w.control(d, text, s)
	if !ok {
		return false
	}
	excluded, ok := w.stat(d, text, s, guessed)
	if !ok {
		s.guess = false
		return false
	}
	for _, err := range problems {
		w.visitor.Entry(d, "", err)
	}
	if excluded > 0 {
		w.visitor.Excluded(d, excluded)
	}
	return true
}

// control lets files whose presence or content makes rules have their say. It reports false if there are some, and d is not
// open.
func (w *walk) control(d *Directory, text string, s *scratch) (problems []error, ok bool) {
	var present []string
	for _, pos := range s.order {
		if name := s.found[pos.index].name(text); d.state.Control([]byte(name)) {
			present = append(present, name)
		}
	}
	if len(present) == 0 {
		return nil, true
	}
	if d.dir == nil {
		return nil, false
	}
	d.state, problems = d.state.Load(d.Path(), present, func(name string, limit int) ([]byte, error) {
		return readHead(d.dir, name, limit)
	})
	for _, err := range problems {
		if errors.Is(err, localfs.ErrStopped) {
			d.Err = err
			return nil, true
		}
	}
	return problems, true
}

// readHead reads the beginning of a regular file.
func readHead(dir *localfs.Dir, name string, limit int) ([]byte, error) {
	f, err := dir.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := make([]byte, min(uint64(limit), f.Opened().Size))
	n, err := f.ReadAt(p, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return p[:n], err
}

// names reads the names of d into s; again says that they were read before.
func (w *walk) names(d *Directory, s *scratch, again bool) error {
	if s.dirents == nil {
		s.dirents = make([]byte, direntBuffer)
	}
	s.arena, s.found = s.arena[:0], s.found[:0]
	yield := func(name []byte, typ tree.Type, ino uint64) error {
		s.found = append(s.found, found{uint32(len(s.arena)), uint32(len(name)), typ, ino, head(name)})
		s.arena = append(s.arena, name...)
		return nil
	}
	if again {
		return d.dir.Entries(s.dirents, yield)
	}
	return d.dir.List(s.dirents, yield)
}

// sortNames puts the order of s.found by name into s.order, and returns the text all names are cut from. Heads are sorted
// first, by themselves; only where they are equal, names are looked at. One that was listed twice, which happens where it
// is removed and made anew while a large directory is read, counts once.
func (s *scratch) sortNames() string {
	text := string(s.arena)
	s.order = s.order[:0]
	for i := range s.found {
		s.order = append(s.order, position{s.found[i].head, uint32(i)})
	}
	s.order, s.spare = inOrder(s.order, s.spare)
	twice := false
	for rest := s.order; len(rest) > 1; {
		n := 1
		for n < len(rest) && rest[n].key == rest[0].key {
			n++
		}
		if n > 1 {
			slices.SortFunc(rest[:n], func(a, b position) int {
				order := strings.Compare(s.found[a.index].name(text), s.found[b.index].name(text))
				twice = twice || order == 0 && a.index != b.index
				return order
			})
		}
		rest = rest[n:]
	}
	if twice {
		s.order = slices.CompactFunc(s.order, func(a, b position) bool {
			return s.found[a.index].name(text) == s.found[b.index].name(text)
		})
	}
	return text
}

// stat fills d.Entries from the names found, and returns how many the rules have left out. It reports false if one could
// not be looked at that was only guessed, or if the walk ends.
func (w *walk) stat(d *Directory, text string, s *scratch, guessed bool) (excluded int, ok bool) {
	d.slab = w.slabs.of(len(s.found))
	entries := d.slab.entries
	names := len(s.order)
	order := s.order[:0] // of those that are kept, each behind the one that was looked at last
	for _, pos := range s.order {
		f := &s.found[pos.index]
		name := f.name(text)
		verdict := d.state.Name(s.arena[f.off:f.off+f.len], f.typ)
		if verdict == rules.Exclude {
			continue
		}
		order = append(order, position{f.ino, uint32(len(entries))})
		entries = append(entries, Entry{Name: name, hollow: verdict == rules.Hollow, ask: verdict == rules.NeedType})
	}
	order, s.spare = inOrder(order, s.spare)
	s.order = order
	missing := 0
	var lost []uint32 // entries that were not found
	excluded = names - len(entries)
	for len(order) > 0 {
		n := s.lstat(d, entries, order)
		for i, pos := range order[:n] {
			e := &entries[pos.index]
			verdict, err := w.entry(d, e, s, i)
			if err == nil && verdict != rules.Exclude {
				continue
			}
			e.Type = 0
			missing++
			switch {
			case errors.Is(err, localfs.ErrStopped):
				d.Err = err
				return 0, false // nobody will ask for the entries
			case err != nil && guessed:
				return 0, false
			case err == nil:
				excluded++
			case errors.Is(err, localfs.ErrVanished):
				lost = append(lost, pos.index)
			default:
				w.unseen(d, e, err)
			}
		}
		order = order[n:]
	}
	if len(lost) > 0 {
		excluded += w.again(d, entries, lost, s)
	}
	if missing > 0 {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Type == 0 })
	}
	d.Entries, d.slab.entries = entries, entries
	return excluded, true
}

// lstat asks for the status of some of the entries that are next, and returns how many: s.looks has it.
func (s *scratch) lstat(d *Directory, entries []Entry, order []position) int {
	wanted := s.wanted[:min(len(order), len(s.wanted))]
	for i := range wanted {
		wanted[i] = entries[order[i].index].Name
	}
	if d.dir == nil {
		return d.above.LstatSome(d.Name, wanted, &s.looks)
	}
	return d.dir.LstatSome("", wanted, &s.looks)
}

// entry takes over the status of one entry, and asks the rules that need to know more than its name.
func (w *walk) entry(d *Directory, e *Entry, s *scratch, at int) (rules.Verdict, error) {
	st := &s.looks.Stats[at]
	if err := s.looks.Errs[at]; err != nil {
		return 0, err
	}
	if st.Type == 0 {
		return 0, errNoType
	}
	verdict := rules.Include
	if e.ask {
		verdict = d.state.Name([]byte(e.Name), st.Type)
		e.hollow = verdict == rules.Hollow
	}
	if verdict != rules.Exclude {
		verdict = w.opt.Rules.Object(st.Type, st.Size, st.Attr&localfs.AttrNoDump != 0)
	}
	if verdict != rules.Exclude && w.needs.TimeMachine {
		verdict = w.sticky(d, e.Name, st.Type)
	}
	e.Set(st)
	e.Mount = st.Dev != d.Dev
	return verdict, nil
}

// sticky asks for the extended attribute by which macOS excludes an object from backups.
func (w *walk) sticky(d *Directory, name string, typ tree.Type) rules.Verdict {
	xattrs, err := d.dir.Xattrs(name, typ)
	if err != nil {
		return rules.Include
	}
	for i := range xattrs {
		if xattrs[i].Name == rules.StickyXattr {
			return w.opt.Rules.Sticky(xattrs[i].Value)
		}
	}
	return rules.Include
}
