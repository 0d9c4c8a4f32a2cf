package browse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Live says how objects of a snapshot are compared with those on this machine.
type Live struct {
	Gates    localfs.Gates
	Rules    *rules.Set                   // what they exclude counts as not there; nil: everything counts
	Skip     func(dev, ino uint64) bool   // directories whose content no backup contains; nil: none
	ReadData bool                         // read files also if size and modification time are equal
	Problem  func(path string, err error) // receives what cannot be read, and is left out of the comparison
}

// Pair is an object of a snapshot and the path on this machine that it is compared with.
type Pair struct {
	Old    *tree.Node // nil: none. Of a node without a name, the root of a tree, only the content is compared
	Source string     // absolute: where the rules begin
	Path   string     // the object on this machine, at or below Source
	At     string     // path of the reported changes
}

// DiffLive compares objects of a snapshot with those on this machine, and calls visit for each that differs, in the
// order of their paths. The content of a file counts as equal if size and modification time are equal, unless it is to
// be read, and is read if only the time differs. Change times, links and inode numbers never count as metadata. In
// memory are the names of the directories from the source down to the current position. The error wraps ErrNotFound if
// neither side of a pair exists, and ErrNotDir if its path is to be a directory.
func DiffLive(ctx context.Context, r *repo.Repository, pairs []Pair, opt DiffOptions, live Live,
	visit func(Change) error,
) (DiffStats, error) {
	side := &liveSide{Live: live, load: r.LoadBlob, hasher: r.Keys().Hasher(), buf: make([]byte, 64<<10)}
	d := &differ{from: r.LoadBlob, opt: opt, visit: visit, live: side}
	for i := range pairs {
		if err := d.pairWithLive(ctx, &pairs[i]); err != nil {
			return DiffStats{}, fmt.Errorf("compare %s: %w", pairs[i].Path, err)
		}
	}
	return d.sum(), nil
}

// pairWithLive compares one object of a snapshot with one on this machine.
func (d *differ) pairWithLive(ctx context.Context, p *Pair) error {
	var old item
	if p.Old != nil {
		old = d.item(&d.old, p.Old)
	}
	new, release, err := d.live.object(ctx, p.Source, p.Path)
	defer release()
	switch {
	case err != nil:
		return err
	case old.Node == nil && new.Node == nil:
		return ErrNotFound
	case new.Node == nil:
		return d.only(ctx, p.At, old, item{})
	case old.Node == nil:
		return d.only(ctx, p.At, item{}, new)
	case old.Name != "":
		return d.pair(ctx, p.At, old, new)
	case new.Type != tree.Dir:
		return ErrNotDir
	}
	return d.dirs(ctx, p.At, old.content, new.content)
}

// liveSide delivers objects on this machine, each as a backup would see it.
type liveSide struct {
	Live
	load   tree.Load
	hasher *seal.Hasher
	buf    []byte
}

// liveObject is an object on this machine.
type liveObject struct {
	tree.Node
	path   string
	parent *localfs.Dir    // nil: the object is the root of the machine
	state  *rules.DirState // of a directory; nil: everything counts
	dev    uint64          // of the parent; 0: the file system is entered
	hollow bool            // the content of the directory is excluded
	st     localfs.Stat
}

// liveDir is an open directory.
type liveDir struct {
	*localfs.Dir
	path  string
	names []string // sorted
	state *rules.DirState
	dev   uint64
}

// object returns the object at path, or no node if it is excluded or does not exist. A source counts, whatever the
// rules say about it. release closes the directories on the way.
func (s *liveSide) object(ctx context.Context, source, path string) (_ item, release func(), err error) {
	var open []*localfs.Dir
	release = func() {
		for _, d := range open {
			d.Release()
		}
	}
	o := &liveObject{path: source}
	if s.Rules != nil {
		o.state, _ = s.Rules.Root(source)
	}
	io := localfs.IOContext{Ctx: ctx, Pass: s.Gates.Pass(nil, source)}
	if source == "/" {
		o.Type = tree.Dir
	} else {
		parent, err := io.OpenSearchable(filepath.Dir(source))
		if errors.Is(err, fs.ErrNotExist) {
			return item{}, release, nil
		}
		if err != nil {
			return item{}, release, fmt.Errorf("open source: %w", err)
		}
		open, o.parent = append(open, parent), parent
		if err := o.stat(filepath.Base(source)); err != nil {
			if errors.Is(err, localfs.ErrVanished) {
				err = nil
			}
			return item{}, release, err
		}
	}
	below := strings.Trim(strings.TrimPrefix(path, source), "/")
	for name := range strings.SplitSeq(below, "/") {
		if name == "" {
			break
		}
		d, err := s.open(ctx, o)
		if d == nil || err != nil {
			return item{}, release, err
		}
		open = append(open, d.Dir)
		if !slices.Contains(d.names, name) {
			return item{}, release, nil
		}
		if o, err = s.entry(d, name); o == nil || err != nil {
			return item{}, release, err
		}
	}
	return s.item(o), release, nil
}

func (s *liveSide) item(o *liveObject) item {
	i := item{Node: &o.Node, live: o}
	if o.Type == tree.Dir {
		i.content = func(ctx context.Context, failed *error) iter.Seq[item] { return s.items(ctx, o, failed) }
	}
	return i
}

// items visits the objects of a directory. What cannot be read is a problem and ends the comparison of the directory
// with errUnread.
func (s *liveSide) items(ctx context.Context, o *liveObject, failed *error) iter.Seq[item] {
	return func(yield func(item) bool) {
		d, err := s.open(ctx, o)
		if d == nil && err == nil {
			return
		}
		if err != nil {
			*failed = s.problem(o.path, err)
			if *failed == nil {
				*failed = errUnread
			}
			return
		}
		defer d.Release()
		for _, name := range d.names {
			child, err := s.entry(d, name)
			switch {
			case errors.Is(err, localfs.ErrVanished):
				continue
			case err != nil:
				if *failed = s.problem(join(d.path, name), err); *failed != nil {
					return
				}
				child = &liveObject{Node: tree.Node{Name: name}} // so that it does not count as removed
			case child == nil:
				continue
			}
			if !yield(s.item(child)) {
				return
			}
		}
	}
}

// problem reports what could not be read. It returns the error of a comparison that was stopped.
func (s *liveSide) problem(path string, err error) error {
	if errors.Is(err, localfs.ErrStopped) {
		return err
	}
	s.Problem(path, err)
	return nil
}

// open opens a directory and reads its names and the rules in it. It returns nil if no backup has its content, or if it
// has vanished.
func (s *liveSide) open(ctx context.Context, o *liveObject) (*liveDir, error) {
	if o.hollow || o.Type != tree.Dir {
		return nil, nil
	}
	d := &liveDir{path: o.path, state: o.state}
	var err error
	if o.parent == nil {
		d.Dir, err = localfs.IOContext{Ctx: ctx, Pass: s.Gates.Pass(nil, o.path)}.OpenDir(o.path)
	} else {
		d.Dir, err = o.parent.Open(o.Name)
	}
	if errors.Is(err, localfs.ErrVanished) || errors.Is(err, localfs.ErrNotDir) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if o.parent == nil {
		if o.st, err = d.Fstat(); err != nil {
			d.Release()
			return nil, err
		}
	}
	d.dev = o.st.Dev
	if o.dev != 0 && o.st.Dev != o.dev {
		d.SetPass(s.Gates.Pass(d.Dir, d.path))
		info, err := d.FS()
		if s.Rules != nil && err == nil && s.Rules.Mount(d.path, info.Pseudo) == rules.NotEntered {
			d.Release()
			return nil, nil
		}
	}
	if err := s.list(d); err != nil {
		d.Release()
		return nil, err
	}
	return d, nil
}

// list reads the names in a directory, and loads the rules in it.
func (s *liveSide) list(d *liveDir) error {
	var present []string
	err := d.Entries(s.buf, func(name []byte, _ tree.Type, _ uint64) error {
		d.names = append(d.names, string(name))
		if d.state != nil && d.state.Control(name) {
			present = append(present, string(name))
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(d.names)
	if len(present) == 0 {
		return nil
	}
	var problems []error
	d.state, problems = d.state.Load(d.path, present, d.ReadStart)
	for _, err := range problems {
		s.Problem(d.path, err)
	}
	return nil
}

// entry returns the object of a name as a backup would see it; nil if it is excluded.
func (s *liveSide) entry(d *liveDir, name string) (*liveObject, error) {
	o := &liveObject{path: join(d.path, name), parent: d.Dir, dev: d.dev}
	if err := o.stat(name); err != nil {
		return nil, err
	}
	if o.Type == 0 {
		return nil, nil
	}
	o.hollow = o.Type == tree.Dir && s.Skip != nil && s.Skip(o.st.Dev, o.st.Ino)
	if d.state == nil {
		return o, nil
	}
	switch d.state.Name([]byte(name), o.Type) {
	case rules.Exclude:
		return nil, nil
	case rules.NotEntered:
		o.hollow = true
	}
	if s.Rules.Object(o.Type, o.st.Size, o.st.Attr&localfs.AttrNoDump != 0) == rules.Exclude {
		return nil, nil
	}
	if s.Rules.NeedsSticky() && (o.Type == tree.File || o.Type == tree.Dir) {
		verdict := rules.Include
		err := d.EachXattr([]string{name}, rules.StickyXattr, func(_ int, value []byte) {
			verdict = s.Rules.Sticky(value, func() string { return o.path })
		})
		if err != nil || verdict == rules.Exclude {
			return nil, err
		}
	}
	if o.Type == tree.Dir {
		o.state = d.state.Child([]byte(name))
	}
	return o, nil
}

// stat sets the properties of the object that its status has.
func (o *liveObject) stat(name string) error {
	if err := o.parent.Lstat(name, &o.st); err != nil {
		return err
	}
	st := &o.st
	o.Node = tree.Node{Name: name, Type: st.Type, Mode: st.Mode, UID: st.UID, GID: st.GID, ModTime: st.Mtime,
		Changed: st.Ctime}
	switch st.Type {
	case tree.File:
		o.Size = st.Size
	case tree.CharDevice, tree.BlockDevice:
		o.Device = st.Rdev
	}
	return nil
}

// compare sets the status of a change between two objects of one type.
func (s *liveSide) compare(ctx context.Context, c *Change, o *liveObject, metadata bool) error {
	old, times := c.Old, c.Old.ModTime == o.ModTime
	if o.Type == tree.File {
		differs := old.Size != o.Size
		if !differs && (s.ReadData || !times) {
			err := s.compareData(ctx, old, o)
			if differs = errors.Is(err, view.ErrDiffers); !differs && s.incomplete(o, err) != nil {
				return err
			}
		}
		if differs {
			c.Status |= Content
		}
		if differs && old.Size == o.Size && times && old.Changed == o.Changed {
			c.Status |= Silent
		}
	}
	if !metadata {
		return nil
	}
	if err := s.complete(o); err != nil {
		return err
	}
	o.Changed, o.Links = old.Changed, old.Links
	if !sameMetadata(old, &o.Node) {
		c.Status |= Metadata
	}
	return nil
}

// complete adds the metadata that are not part of the status.
func (s *liveSide) complete(o *liveObject) (err error) {
	if o.Type == tree.Symlink {
		if o.Target, err = o.parent.Readlink(o.Name); s.incomplete(o, err) != nil {
			return err
		}
	}
	if o.Xattrs, err = o.parent.Xattrs(o.Name, o.Type); s.incomplete(o, err) != nil {
		return err
	}
	if o.Type == tree.File || o.Type == tree.Dir {
		if o.Flags, err = o.parent.Flags(o.Name, o.Type); s.incomplete(o, err) != nil {
			return err
		}
	}
	return nil
}

// incomplete reports what could not be read of an object, except for what has vanished or does not exist on its file
// system. It returns the error of a comparison that was stopped.
func (s *liveSide) incomplete(o *liveObject, err error) error {
	if err == nil || errors.Is(err, localfs.ErrVanished) || localfs.Unsupported(err) {
		return nil
	}
	return s.problem(o.path, err)
}

// compareData returns view.ErrDiffers if the content of a file is not that in the snapshot.
func (s *liveSide) compareData(ctx context.Context, old *tree.Node, o *liveObject) error {
	if !hasContent(old) {
		return ErrNoContent
	}
	f, err := o.parent.OpenFile(o.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	return view.Compare(ctx, s.load, s.hasher, old, f)
}
