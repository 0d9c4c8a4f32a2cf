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
	// errNotFound: the directory is damaged, or the name has no form in the character set of the mount.
	errNotFound = errors.New("its directory lists it, but there is nothing of that name")
	// errThere replaces an error that says a directory vanished, if it did not.
	errThere = errors.New("it is there, but cannot be opened")
)

// oftenListed is how often a directory must list a name that cannot be found before that is an error: a file that is
// removed and created again and again can be missed by chance.
const oftenListed = 3

// recheck reads the status of entries again that were listed in d and then not found. Nearly always they were removed
// meanwhile, and the directory does not list them any more. It returns how many of those that it found are excluded.
func (l *realNames) recheck(d *Directory, entries []Entry, lost []uint32) (excluded int) {
	for listed := 1; ; listed++ {
		var err error
		if lost, err = l.stillListed(d, entries, lost); err != nil {
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
			l.wanted[0] = e.Name
			d.dir.LstatBatch("", l.wanted[:1], &l.statuses)
			l.stickies[0] = false
			if l.walk.sticky && l.statuses.Errs[0] == nil {
				l.statuses.Errs[0] = l.sticky(d, 1)
			}
			switch verdict, err := l.setEntry(d, e, 0); {
			case errors.Is(err, localfs.ErrStopped):
				d.Err = err
				return excluded
			case errors.Is(err, localfs.ErrVanished):
				still = append(still, i)
			case err != nil:
				l.walk.missed(d, e, err)
			case verdict == rules.Exclude:
				e.Type = 0
				excluded++
			}
		}
		lost = still
	}
	for _, i := range lost {
		l.walk.missed(d, &entries[i], errNotFound)
	}
	return excluded
}

// missed reports an entry whose status could not be read.
func (w *walk) missed(d *Directory, e *Entry, err error) {
	d.Missed++
	w.visitor.Entry(d, e.Name, err)
}

// stillListed returns which of some entries d lists now.
func (l *realNames) stillListed(d *Directory, entries []Entry, some []uint32) ([]uint32, error) {
	names := make(map[string]uint32, len(some))
	for _, i := range some {
		names[entries[i].Name] = i
	}
	some = some[:0]
	err := d.dir.Entries(l.dirents, func(name []byte, _ tree.Type, _ uint64) error {
		if i, ok := names[string(name)]; ok {
			some = append(some, i)
			delete(names, string(name)) // some file systems list it twice
		}
		return nil
	})
	return some, err
}

// openError returns why d could not be opened, given the error. The error says that d vanished, or is no directory,
// only if that is so.
func (d *Directory) openError(err error) error {
	if !errors.Is(err, localfs.ErrVanished) && !errors.Is(err, localfs.ErrNotDir) ||
		d.above.Gone(d.Name, tree.Dir, d.Ino) {
		return err
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return errThere
	}
	return fmt.Errorf("%w: %w", errThere, errno)
}
