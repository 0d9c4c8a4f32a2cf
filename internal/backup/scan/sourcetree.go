package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// SourceTree is a node of the tree of sources. One without children is a source, backed up whole; one with children is
// a directory on the path to sources, and only its children are backed up.
type SourceTree struct {
	Name     string
	Path     string // absolute, the same on this machine and inside the snapshot
	Children []*SourceTree
	First    bool // no whole snapshot has this source, or any source below

	copied string // where a source is read instead, with the same name; "": at Path
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

// Each calls fn for each source until one fails.
func (p *SourceTree) Each(fn func(source *SourceTree) error) error {
	if p.Children == nil {
		return fn(p)
	}
	for _, c := range p.Children {
		if err := c.Each(fn); err != nil {
			return err
		}
	}
	return nil
}

// SpreadFirst sets First of the directories on the path to sources.
func (p *SourceTree) SpreadFirst() bool {
	for i, c := range p.Children {
		p.First = c.SpreadFirst() && (i == 0 || p.First)
	}
	return p.First
}

// ErrNoSource: no path was named.
var ErrNoSource = errors.New("nothing to back up: name at least one path")

// ErrMissing: a source that was named does not exist.
var ErrMissing = errors.New("no such file or directory: check the path")

// Sources returns the tree of sources for the paths that a user named. A relative path begins at the working directory,
// as the user sees it: symbolic links on the way there keep their names. A path below another one is part of it.
func Sources(paths []string) (*SourceTree, error) {
	if len(paths) == 0 {
		return nil, ErrNoSource
	}
	root := &SourceTree{Path: "/", Children: []*SourceTree{}}
	for _, path := range paths {
		if path == "" || strings.ContainsRune(path, 0) {
			return nil, fmt.Errorf("source %q: not a path", path)
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("find source %s: %w", path, err)
		}
		root.add(absolute)
	}
	root.sort()
	return root, nil
}

// add adds one source, unless it is part of another one.
func (p *SourceTree) add(absolute string) {
	at, rest := p, absolute[1:]
	for rest != "" && at.Children != nil {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		k := slices.IndexFunc(at.Children, func(c *SourceTree) bool { return c.Name == name })
		if k < 0 {
			k = len(at.Children)
			at.Children = append(at.Children, &SourceTree{Name: name, Path: filepath.Join(at.Path, name),
				Children: []*SourceTree{}})
		}
		at = at.Children[k]
	}
	at.Children = nil
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
	d.dir, d.way, d.named, d.First = dir, p.place(), p.Path, p.First
	if err := w.cross(d); err != nil {
		return fmt.Errorf("open source %s: %w", p.Path, err)
	}
	if p.Children == nil {
		d.state, _ = w.opt.Rules.Root(p.Path)
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
		if _, decided := w.opt.Rules.Root(c.Path); decided.Verdict == rules.Exclude {
			w.visitor.Excluded(d, 1)
			return nil
		}
	}
	e := Entry{Name: c.Name}
	e.Set(&st)
	e.Dataless = false // a source that cannot be read is a failure
	e.on(st.Dev, d.Dev)
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
