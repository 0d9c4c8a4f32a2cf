package scan

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

var (
	// errNotFound: no other than the file system knows what it means by that: a damaged directory, or a name that cannot be
	// told in the character set it was mounted with.
	errNotFound = errors.New("its directory lists it, but there is nothing of that name")
	// errThere is what is said of a directory instead of that it vanished, if it did not.
	errThere = errors.New("it is there, but cannot be opened")
)

// oftenListed is how often a name must be listed by its directory and not be found, before that is no chance: a file that
// is removed and made anew is now there and now not.
const oftenListed = 3

// again looks once more at entries that were read from d and then not found. Nearly always they were removed in between,
// and the directory does not list them any more. It returns how many of those that it found are excluded.
func (w *walk) again(d *Directory, entries []Entry, lost []uint32, s *scratch) (excluded int) {
	for listed := 1; ; listed++ {
		var err error
		if lost, err = d.listed(entries, lost, s); err != nil {
			d.Err = err
		}
		if err != nil || len(lost) == 0 {
			return excluded
		}
		if listed == oftenListed {
			break
		}
		still := lost[:0]
		for _, i := range lost {
			e := &entries[i]
			s.wanted[0] = e.Name
			d.dir.LstatSome("", s.wanted[:1], &s.looks)
			switch verdict, err := w.entry(d, e, s, 0); {
			case errors.Is(err, localfs.ErrStopped):
				d.Err = err
				return excluded
			case errors.Is(err, localfs.ErrVanished):
				still = append(still, i)
			case err != nil:
				w.unseen(d, e, err)
			case verdict == rules.Exclude:
				e.Type = 0
				excluded++
			}
		}
		lost = still
	}
	for _, i := range lost {
		w.unseen(d, &entries[i], errNotFound)
	}
	return excluded
}

// unseen tells the visitor of an entry that could not be looked at.
func (w *walk) unseen(d *Directory, e *Entry, err error) {
	d.Missed++
	w.visitor.Entry(d, e.Name, err)
}

// listed returns which of some entries d still lists.
func (d *Directory) listed(entries []Entry, some []uint32, s *scratch) ([]uint32, error) {
	names := make(map[string]uint32, len(some))
	for _, i := range some {
		names[entries[i].Name] = i
	}
	some = some[:0]
	err := d.dir.Entries(s.dirents, func(name []byte, _ tree.Type, _ uint64) error {
		if i, ok := names[string(name)]; ok {
			some = append(some, i)
			delete(names, string(name)) // some list it twice
		}
		return nil
	})
	return some, err
}

// reason returns why d could not be opened, given the error: that it vanished, or is no directory, only if that is so.
func (d *Directory) reason(err error) error {
	if !errors.Is(err, localfs.ErrVanished) && !errors.Is(err, localfs.ErrNotDir) || d.above.Gone(d.Name, tree.Dir, d.Ino) {
		return err
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return errThere
	}
	return fmt.Errorf("%w: %w", errThere, errno)
}
