package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// SourceTree is a node of the tree of sources. One without children is a source, backed up whole; one with children is
// a directory on the path to sources, and only its children are backed up.
type SourceTree struct {
	Name     string // inside the snapshot
	Path     string // on this machine; relative to the working directory if not absolute
	Children []*SourceTree

	copied string          // where a source is read instead, with the same name; "": at Path
	state  *rules.DirState // of a source, when it is found
}

// ReadFrom has each source read from the place that copy returns for its path, such as a snapshot of its file system.
// The last component of both must be the same, except for the root of the tree. "" leaves the source as it is.
func (p *SourceTree) ReadFrom(copy func(path string) string) {
	for _, c := range p.Children {
		c.ReadFrom(copy)
	}
	if p.Children == nil {
		p.copied = copy(p.Path)
	}
}

// place returns where p is read.
func (p *SourceTree) place() string { return cmp.Or(p.copied, p.Path) }

// Each calls fn for each source with its path inside the snapshot, below that of p, until one fails.
func (p *SourceTree) Each(at string, fn func(at string, source *SourceTree) error) error {
	if p.Children == nil {
		return fn(at, p)
	}
	for _, c := range p.Children {
		if err := c.Each(path.Join(at, c.Name), fn); err != nil {
			return err
		}
	}
	return nil
}

// Copy returns a copy of the tree of sources for another walk at the same time.
func (p *SourceTree) Copy() *SourceTree {
	out := &SourceTree{Name: p.Name, Path: p.Path, copied: p.copied}
	for _, c := range p.Children {
		out.Children = append(out.Children, c.Copy())
	}
	return out
}

// ErrNoSource: no path was named.
var ErrNoSource = errors.New("nothing to back up: name at least one path")

// ErrMissing: a source that was named does not exist.
var ErrMissing = errors.New("no such file or directory: check the path")

// ErrMixedDot: the contents of a directory and other sources are both to be the root of the snapshot.
var ErrMixedDot = errors.New(`"." puts a directory's contents at the root of the snapshot, ` +
	`where there is no room for other sources: name it by its path`)

// ErrClash: two different sources would be the same path in the snapshot.
var ErrClash = errors.New("would have the same place in the snapshot as another source: name both by their " +
	"absolute paths")

// Sources turns the paths that a user named into the tree of sources. An absolute path keeps all its components, a
// relative one those that were given, without leading "..": "." stands for the contents of the working directory. A
// path below another one is part of it.
func Sources(paths []string) (*SourceTree, error) {
	if len(paths) == 0 {
		return nil, ErrNoSource
	}
	root := &SourceTree{Path: "/"}
	for _, path := range paths {
		if path == "" || strings.ContainsRune(path, 0) {
			return nil, fmt.Errorf("source %q: not a path", path)
		}
		clean := filepath.Clean(path)
		prefix, rest := split(clean)
		if rest == "" {
			if len(paths) > 1 && clean != "/" {
				return nil, ErrMixedDot
			}
			return &SourceTree{Path: clean}, nil
		}
		if err := root.add(prefix, strings.Split(rest, "/")); err != nil {
			return nil, fmt.Errorf("source %q: %w", path, err)
		}
	}
	root.sort()
	return root, nil
}

// split cuts a clean path into the part that is not kept in the snapshot ("/", ".", "../..") and the part that is.
func split(clean string) (prefix, rest string) {
	if strings.HasPrefix(clean, "/") {
		return "/", clean[1:]
	}
	if clean == "." {
		return ".", ""
	}
	prefix, rest = ".", clean
	for rest == ".." || strings.HasPrefix(rest, "../") {
		prefix = filepath.Join(prefix, "..")
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, ".."), "/")
	}
	return prefix, rest
}

// add adds one source, unless it is part of another one.
func (p *SourceTree) add(prefix string, components []string) error {
	at, path := p, prefix
	for i, name := range components {
		path = filepath.Join(path, name)
		k := slices.IndexFunc(at.Children, func(c *SourceTree) bool { return c.Name == name })
		if k < 0 {
			k = len(at.Children)
			at.Children = append(at.Children, &SourceTree{Name: name, Path: path, Children: []*SourceTree{}})
		}
		at = at.Children[k]
		last := i == len(components)-1
		if at.Children == nil || last {
			if err := at.at(path); err != nil {
				return err
			}
		}
		if at.Children == nil {
			return nil // part of another source
		}
		if last {
			at.Children, at.Path = nil, path
		}
	}
	return nil
}

// at returns ErrClash unless the sources at and below p lie at path: "/a" and "a" have the same path in a snapshot.
func (p *SourceTree) at(path string) error {
	for _, c := range p.Children {
		if err := c.at(filepath.Join(path, c.Name)); err != nil {
			return err
		}
	}
	if len(p.Children) > 0 || p.Path == path {
		return nil
	}
	here, err := filepath.Abs(p.Path)
	if err != nil {
		return err
	}
	there, err := filepath.Abs(path)
	if err == nil && here != there {
		err = ErrClash
	}
	return err
}

func (p *SourceTree) sort() {
	slices.SortFunc(p.Children, func(a, b *SourceTree) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range p.Children {
		c.sort()
	}
}

// pick visits a directory on the path to sources, or the source that is the root itself.
func (w *walk) pick(ctx context.Context, d *Directory, p *SourceTree, s *worker) error {
	d.door = w.door(p.place())
	d.pass = d.door.Pass
	open := d.door.OpenDir
	if p.Children != nil {
		open = d.door.OpenSearchable
	}
	dir, err := open(p.place())
	if err != nil {
		return fmt.Errorf("open source %s: %w", p.Path, err)
	}
	defer dir.Release()
	d.dir, d.way, d.named = dir, p.place(), p.Path
	if err := w.cross(d); err != nil {
		return fmt.Errorf("open source %s: %w", p.Path, err)
	}
	if p.Children == nil {
		if _, err := w.source(p); err != nil {
			return err
		}
		d.state = p.state
		d.Excluded, d.Sources = false, 1
		s.list(d)
		return w.announce(ctx, d, s)
	}
	d.Picked, d.Excluded = true, false
	d.picks = make(map[string]*SourceTree, len(p.Children))
	d.handles = map[string]*localfs.Dir{}
	for _, c := range p.Children {
		if err := w.pickEntry(d, p, c); err != nil {
			return err
		}
	}
	return w.announce(ctx, d, s)
}

// pickEntry adds the entry of a source, or of a directory on the path to one. A missing source is a failed entry, and
// the walk goes on.
func (w *walk) pickEntry(d *Directory, p, c *SourceTree) error {
	in := d.dir
	if parent := filepath.Dir(c.place()); filepath.Join(p.Path, c.Name) != c.place() {
		other, err := w.door(parent).OpenSearchable(parent)
		if err != nil {
			return w.missedSource(d, c.Name, err)
		}
		d.handles[c.Name] = other
		w.opened(other)
		in = other
	}
	var st localfs.Stat
	var err error
	if c.Children == nil {
		err = in.Lstat(c.Name, &st)
	} else {
		err = w.statFollowing(c.Path, &st)
	}
	if errors.Is(err, localfs.ErrVanished) || errors.Is(err, fs.ErrNotExist) {
		err = ErrMissing
	}
	if err != nil {
		return w.missedSource(d, c.Name, err)
	}
	if c.Children == nil {
		verdict, err := w.source(c)
		if err != nil {
			return err
		}
		if verdict == rules.Exclude {
			w.visitor.Excluded(d, 1)
			return nil
		}
	}
	e := Entry{Name: c.Name, Mount: st.Dev != d.Dev}
	e.Set(&st)
	d.picks[c.Name] = c
	if c.Children == nil {
		d.Sources++
	}
	d.Entries = append(d.Entries, e)
	return nil
}

// missedSource reports a source whose status could not be read.
func (w *walk) missedSource(d *Directory, name string, err error) error {
	if errors.Is(err, localfs.ErrStopped) {
		return err
	}
	w.visitor.Entry(d, name, err)
	return nil
}

// source applies the rules to a source. Rules are about absolute paths.
func (w *walk) source(p *SourceTree) (rules.Verdict, error) {
	path, err := filepath.Abs(p.Path)
	if err != nil {
		return 0, fmt.Errorf("find source %s: %w", p.Path, err)
	}
	state, decision := w.opt.Rules.Root(path)
	p.state = state
	return decision.Verdict, nil
}

// statFollowing reads the status of a directory on the path to a source, and follows symbolic links, as opening it
// does.
func (w *walk) statFollowing(path string, st *localfs.Stat) error {
	dir, err := w.door(path).OpenSearchable(path)
	if err != nil {
		return err
	}
	defer dir.Release()
	*st, err = dir.Fstat()
	return err
}
