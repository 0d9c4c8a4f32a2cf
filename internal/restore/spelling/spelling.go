// Package spelling notices where the target does not tell names apart that a snapshot tells apart: file systems that take
// upper and lower case for the same, and keep the spelling that came first. There one file would take the place of another.
//
// It refuses to know what becomes of such a name.
package spelling

import (
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Names yields the names that are to lie in a directory, in their order.
type Names = func(yield func(name string)) error

// Dirs are directories of the target, by what the caller knows them by. It is for several goroutines.
type Dirs[K comparable] struct {
	mu  sync.Mutex
	all map[K]firsts
}

// firsts has the first of the names that differ in case only, by what they are in lower case. Names that stand alone are
// not in it; nil: the directory tells case.
type firsts map[string]string

// Clash returns the first of those names of the directory key, open as in, that it does not tell from name; "" if there is
// none before it. There is something by that name.
//
// One look for another spelling of it tells whether the directory tells case; the names are asked for only where it does not.
// An error is theirs.
func (d *Dirs[K]) Clash(key K, in *localfs.Dir, name string, names Names) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.all[key]
	if !ok {
		folds, sure := folding(in, name)
		if !sure {
			return "", nil
		}
		if folds {
			var err error
			if known, err = group(names); err != nil {
				return "", err
			}
		}
		if d.all == nil {
			d.all = map[K]firsts{}
		}
		d.all[key] = known
	}
	if first := known[strings.ToLower(name)]; first != name {
		return first, nil
	}
	return "", nil
}

// Forget forgets a directory.
func (d *Dirs[K]) Forget(key K) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, key)
}

// folding looks for the entry name by another spelling. What is found by one that no listing has is the same entry; numbers
// of inodes do not tell, as there are file systems that give each spelling its own.
func folding(in *localfs.Dir, name string) (folds, sure bool) {
	other := respell(name)
	if other == name {
		return false, false
	}
	var st localfs.Stat
	if in.Lstat(other, &st) != nil {
		return false, true
	}
	unlisted := map[string]bool{name: true, other: true}
	if err := Listed(in, func(name []byte) { delete(unlisted, string(name)) }); err != nil {
		return false, false
	}
	return len(unlisted) > 0, true
}

// Listed yields the names that a directory has.
func Listed(in *localfs.Dir, yield func(name []byte)) error {
	return in.Entries(make([]byte, 64<<10), func(name []byte, _ tree.Type, _ uint64) error {
		yield(name)
		return nil
	})
}

// Alike reports whether two names can be spellings of one: they differ in case at most, or in dots and blanks at the end.
func Alike(a, b string) bool {
	const dropped = ". "
	return strings.EqualFold(strings.TrimRight(a, dropped), strings.TrimRight(b, dropped))
}

// respell returns name in upper case, or in lower case if it is that already; a name without letters stays.
func respell(name string) string {
	if upper := strings.ToUpper(name); upper != name {
		return upper
	}
	return strings.ToLower(name)
}

func group(names Names) (firsts, error) {
	seen, clashes := map[string]string{}, firsts{}
	err := names(func(name string) {
		lower := strings.ToLower(name)
		if first, ok := seen[lower]; ok {
			clashes[lower] = first
		} else {
			seen[lower] = name
		}
	})
	return clashes, err
}
