package restore

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// A snapshot can hold names in one directory that differ only in case, or only in how Unicode composes a letter (é is
// one code point or two). A target that does not distinguish them would have the second object replace the first, so
// the restore refuses the second. APFS compares without regard to composition in both of its variants, and by default
// without regard to case; HFS+ and ext4 with casefold do as well.

// nameLister yields the names that the snapshot has in a directory, in their order.
type nameLister = func(yield func(name string)) error

// spellings is what is known of how a directory compares names. first maps the common spelling of several names of the
// snapshot that it does not distinguish to the first of them. Names without such a counterpart are missing.
type spellings struct {
	sure, folds [ways]bool // folds counts once it is sure
	first       map[string]string
}

// The ways in which spellings differ.
const (
	composed = iota
	cased
	ways
)

// respell returns name with each letter composed in another way, or in other case; name itself if there is no such
// spelling that the directory is not known to take for name.
func (s *spellings) respell(way int, name string) string {
	others := [...]string{name, name}
	if way == composed {
		others = [...]string{norm.NFC.String(name), norm.NFD.String(name)}
	} else {
		others[0] = swapCase(name)
	}
	for _, other := range others {
		if s.common(other) != s.common(name) {
			return other
		}
	}
	return name
}

// fold returns what all spellings of name have in common that differ in one way.
func fold(way int, name string) string {
	if way == cased {
		return strings.ToLower(name)
	}
	return norm.NFD.String(name)
}

// common returns what all spellings of name have in common that the directory is known not to distinguish.
func (s *spellings) common(name string) string {
	for _, way := range []int{cased, composed} {
		if s.folds[way] {
			name = fold(way, name)
		}
	}
	return name
}

// targetDir is what clash needs of a directory of the target.
type targetDir interface {
	Lstat(name string, st *localfs.Stat) error
	Entries(buf []byte, yield func(name []byte, typ tree.Type, ino uint64) error) error
}

// clash returns the earlier name that the directory d, open as in, does not distinguish from name, or "". An object of
// that name exists. The names of the snapshot are listed only if the directory takes several spellings for one; an
// error comes from that listing. It is safe for concurrent use.
func (d *dir) clash(in targetDir, name string, names nameLister) (string, error) {
	d.spelling.Lock()
	defer d.spelling.Unlock()
	known := d.spelled
	before, doubt := known, false
	for way := range ways {
		if !known.sure[way] {
			folds, sure := known.learn(way, in, name)
			known.sure[way], known.folds[way] = sure, sure && folds
			doubt = doubt || folds && !sure
		}
	}
	now := known
	for way := range ways {
		now.folds[way] = now.folds[way] || doubt && !now.sure[way]
	}
	if now.folds != before.folds {
		var err error
		if now.first, err = now.group(names); err != nil {
			return "", err
		}
	}
	if now.sure != before.sure && !doubt {
		d.spelled = now
	}
	if first := now.first[now.common(name)]; first != name {
		return first, nil
	}
	return "", nil
}

// checkCaseClash returns an error if the existing object of o's name is the place of another object of the snapshot; in
// is the directory of o.
func (j *job) checkCaseClash(o *entry, in *localfs.Dir) error {
	if o.dir.node.Subtree.IsZero() { // the target of a single object
		return nil
	}
	first, err := o.dir.clash(in, o.node.Name, func(yield func(string)) error {
		return j.snapshotNames(in.Context(), o.dir, yield)
	})
	if err == nil && first != "" {
		err = fmt.Errorf("it would take the place of %q: %w", first, errClash)
	}
	return err
}

// snapshotNames yields the names that are restored into d.
func (j *job) snapshotNames(ctx context.Context, d *dir, yield func(string)) error {
	err := tree.Walk(ctx, j.repo.LoadBlob, d.node.Subtree, func(n *tree.Node) error {
		if take, enter := j.sel.takes(d, n); take || enter {
			yield(n.Name)
		}
		return nil
	})
	if context.Cause(ctx) == nil && repo.IsPartial(err) {
		return nil // the walk reports it
	}
	return err
}

// learn finds out whether the existing entry name is also found under a spelling that differs in one way. Inode numbers
// cannot decide this: some file systems give each spelling its own. Instead, one of the two spellings is missing from
// the listing. In doubt it folds and is not sure: an entry that differs in the other way may be what was found.
func (s *spellings) learn(way int, in targetDir, name string) (folds, sure bool) {
	other := s.respell(way, name)
	if other == name {
		return false, false
	}
	var st localfs.Stat
	if in.Lstat(other, &st) != nil {
		return false, true
	}
	name, other = s.common(name), s.common(other)
	unlisted, doubtful := map[string]bool{name: true, other: true}, map[string]bool{}
	rest := ways - 1 - way
	err := eachName(in, func(entry []byte) {
		listed := s.common(string(entry))
		delete(unlisted, listed)
		for _, one := range []string{name, other} {
			if !s.sure[rest] && fold(rest, listed) == fold(rest, one) {
				doubtful[one] = true
			}
		}
	})
	sure = err == nil
	for one := range unlisted {
		sure = sure && !doubtful[one]
	}
	return len(unlisted) > 0, sure
}

// eachName yields the names in a directory.
func eachName(in targetDir, yield func(name []byte)) error {
	return in.Entries(make([]byte, 64<<10), func(name []byte, _ tree.Type, _ uint64) error {
		yield(name)
		return nil
	})
}

// isEmpty reports whether a directory can be listed and has no entries.
func isEmpty(in *localfs.Dir) bool {
	return in.Entries(make([]byte, 4<<10), func([]byte, tree.Type, uint64) error { return errNotEmpty }) == nil
}

// swapCase returns name in upper case, or in lower case if it is in upper case already.
func swapCase(name string) string {
	if upper := strings.ToUpper(name); upper != name {
		return upper
	}
	return strings.ToLower(name)
}

// group returns, of the names that the directory does not distinguish, the first by what they have in common.
func (s *spellings) group(names nameLister) (map[string]string, error) {
	seen, clashes := map[string]string{}, map[string]string{}
	err := names(func(name string) {
		common := s.common(name)
		if first, ok := seen[common]; ok {
			clashes[common] = first
		} else {
			seen[common] = name
		}
	})
	return clashes, err
}

// requireListed returns an error if one of the kept names, which is true unless the listing had it, leads to an object
// all the same. The listing spells that name differently, so nothing in the listing can be called superfluous.
func requireListed(in *localfs.Dir, keep map[string]bool) error {
	unlisted := map[string]bool{}
	var st localfs.Stat
	for name, missing := range keep {
		if missing && in.Lstat(name, &st) == nil {
			unlisted[name] = true
		}
	}
	if len(unlisted) == 0 {
		return nil
	}
	// Objects that were made since the first listing are in the next one.
	if err := eachName(in, func(name []byte) { delete(unlisted, string(name)) }); err != nil {
		return err
	}
	for name := range unlisted {
		return fmt.Errorf("%q: %w", name, errSpelling)
	}
	return nil
}
