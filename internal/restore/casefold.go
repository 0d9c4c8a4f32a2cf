package restore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// A snapshot from a case-sensitive file system can hold names in one directory that differ only in case. On a
// case-insensitive target the second object would replace the first, so the restore refuses the second.

// nameLister yields the names that the snapshot has in a directory, in their order.
type nameLister = func(yield func(name string)) error

// caseClashes caches, for each directory of the target, which names of the snapshot clash there. It is safe for
// concurrent use.
type caseClashes struct {
	mu   sync.Mutex
	dirs map[*dir]firstNames
}

// firstNames maps a lower-case name to the first of several names that differ only in case. Names without such a
// counterpart are missing; nil stands for a case-sensitive directory.
type firstNames map[string]string

// find returns the earlier name that the directory d, open as in, does not distinguish from name, or "". An object of
// that name exists. The names of the snapshot are listed only if the directory is case-insensitive; an error comes from
// that listing.
func (c *caseClashes) find(d *dir, in *localfs.Dir, name string, names nameLister) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.dirs[d]
	if !ok {
		folds, sure := foldsCase(in, name)
		if !sure {
			return "", nil
		}
		if folds {
			var err error
			if known, err = groupByCase(names); err != nil {
				return "", err
			}
		}
		if c.dirs == nil {
			c.dirs = map[*dir]firstNames{}
		}
		c.dirs[d] = known
	}
	if first := known[strings.ToLower(name)]; first != name {
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
	first, err := j.clashes.find(o.dir, in, o.node.Name, func(yield func(string)) error {
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
	if context.Cause(ctx) == nil && isPartialDamage(err) {
		return nil // the walk reports it
	}
	return err
}

func (c *caseClashes) forget(d *dir) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.dirs, d)
}

// foldsCase reports whether the existing entry name is also found in other case. Inode numbers cannot decide this: some
// file systems give each spelling its own. Instead, one of the two spellings is missing from the listing.
func foldsCase(in *localfs.Dir, name string) (folds, sure bool) {
	other := swapCase(name)
	if other == name {
		return false, false
	}
	var st localfs.Stat
	if in.Lstat(other, &st) != nil {
		return false, true
	}
	unlisted := map[string]bool{name: true, other: true}
	if err := eachName(in, func(name []byte) { delete(unlisted, string(name)) }); err != nil {
		return false, false
	}
	return len(unlisted) > 0, true
}

// eachName yields the names in a directory.
func eachName(in *localfs.Dir, yield func(name []byte)) error {
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

func groupByCase(names nameLister) (firstNames, error) {
	seen, clashes := map[string]string{}, firstNames{}
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
