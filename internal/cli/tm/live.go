package tm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Live compares a snapshot with the files on this machine. It reads one directory after the other; in memory are the
// names of the directories from the source down to the present one.
type Live struct {
	Reader  browse.Reader
	Gates   localfs.Gates
	Rules   *rules.Set                 // nil: exclusions do not count
	Skip    func(dev, ino uint64) bool // directories that no backup contains
	Want    Property
	Visit   func(browse.Change) error
	Problem func(path string, err error) // receives what cannot be read, and is left out of the comparison
}

// Compare visits what differs between old, an object of a snapshot, and the object at the absolute path source on this
// machine. Only what lies at or below the path only counts; only lies at or below source. Paths are those of this
// machine.
func (l *Live) Compare(ctx context.Context, source string, old *tree.Node, only string) error {
	w := &liveWalk{Live: l, only: only, buf: make([]byte, 64<<10)}
	io := localfs.IOContext{Ctx: ctx, Pass: l.Gates.Pass(nil, source)}
	var state *rules.DirState
	if l.Rules != nil {
		state, _ = l.Rules.Root(source)
	}
	if source == "/" {
		d, err := io.OpenDir("/")
		if err != nil {
			return fmt.Errorf("open source: %w", err)
		}
		return w.directory(ctx, liveDir{dir: d, path: "/", state: state}, old.Subtree)
	}
	parent, err := io.OpenSearchable(filepath.Dir(source))
	if errors.Is(err, fs.ErrNotExist) {
		return w.removed(ctx, source, old)
	}
	if err != nil {
		return fmt.Errorf("open source: %w", err)
	}
	defer parent.Release()
	new, err := w.stat(parent, filepath.Base(source)) // a source is compared, whatever the rules say about it
	if errors.Is(err, localfs.ErrVanished) {
		return w.removed(ctx, source, old)
	}
	if err != nil {
		return fmt.Errorf("open source: %w", err)
	}
	new.state = state
	if old.Name == "" { // the root of a tree has no properties of its own
		return w.contents(ctx, source, new, old.Subtree)
	}
	return w.pair(ctx, source, old, new)
}

// liveWalk is one comparison.
type liveWalk struct {
	*Live
	only string
	buf  []byte
}

// live is an object on this machine.
type live struct {
	tree.Node
	parent *localfs.Dir
	state  *rules.DirState // of a directory; nil: exclusions do not count
	dev    uint64          // of its parent; 0: its file system is entered
	hollow bool            // of a directory: its contents are excluded
	st     localfs.Stat
}

// liveDir is an open directory.
type liveDir struct {
	dir   *localfs.Dir
	path  string
	state *rules.DirState
	dev   uint64
}

// counts reports whether a path is at or below the part that is compared; passed, whether it leads there.
func (w *liveWalk) counts(path string) bool { return Within(path, w.only) }

func (w *liveWalk) passed(path string) bool { return Within(w.only, path) }

// Within reports whether a clean absolute path is at or below another.
func Within(path, above string) bool {
	return path == above || strings.HasPrefix(path, strings.TrimSuffix(above, "/")+"/")
}

func (w *liveWalk) visit(path string, status browse.Status, old, new *tree.Node) error {
	if !w.counts(path) {
		return nil
	}
	return w.Visit(browse.Change{Path: path, Status: status, Old: old, New: new})
}

// removed visits an object that only the snapshot has, and its contents.
func (w *liveWalk) removed(ctx context.Context, path string, old *tree.Node) error {
	if !w.counts(path) && !w.passed(path) {
		return nil
	}
	if err := w.visit(path, browse.Removed, old, nil); err != nil || old.Type != tree.Dir {
		return err
	}
	return w.eachOld(ctx, path, old.Subtree, func(n *tree.Node) error {
		return w.removed(ctx, filepath.Join(path, n.Name), n)
	})
}

func (w *liveWalk) eachOld(ctx context.Context, path string, dir format.ID, visit func(*tree.Node) error) error {
	var own error
	err := tree.Walk(ctx, w.Reader.LoadBlob, dir, func(n *tree.Node) error {
		own = visit(n)
		return own
	})
	if err == nil || own != nil {
		return own
	}
	return fmt.Errorf("read folder %s of the snapshot: %w", path, err)
}

// added visits an object that only this machine has, and its contents.
func (w *liveWalk) added(ctx context.Context, path string, new *live) error {
	if err := w.visit(path, browse.Added, nil, &new.Node); err != nil {
		return err
	}
	return w.contents(ctx, path, new, format.ID{})
}

// pair compares an object that both have.
func (w *liveWalk) pair(ctx context.Context, path string, old *tree.Node, new *live) error {
	if old.Type != new.Type {
		if err := w.visit(path, browse.TypeOf, old, &new.Node); err != nil {
			return err
		}
		if old.Type == tree.Dir {
			return w.eachOld(ctx, path, old.Subtree, func(n *tree.Node) error {
				return w.removed(ctx, filepath.Join(path, n.Name), n)
			})
		}
		return w.contents(ctx, path, new, format.ID{})
	}
	if w.counts(path) {
		c := browse.Change{Path: path, Old: old, New: &new.Node}
		if err := w.complete(ctx, &c, new); err != nil {
			return err
		}
		if Differing(&c, w.Want) != 0 {
			if err := w.Visit(c); err != nil {
				return err
			}
		}
	}
	return w.contents(ctx, path, new, old.Subtree)
}

// contents compares the contents of a directory with those of one in the snapshot, zero for none.
func (w *liveWalk) contents(ctx context.Context, path string, new *live, old format.ID) error {
	if new.Type != tree.Dir {
		return nil
	}
	none := func() error {
		if old.IsZero() {
			return nil
		}
		return w.eachOld(ctx, path, old, func(n *tree.Node) error { return w.removed(ctx, filepath.Join(path, n.Name), n) })
	}
	if new.hollow {
		return none()
	}
	d, err := new.parent.Open(new.Name)
	switch {
	case errors.Is(err, localfs.ErrVanished), errors.Is(err, localfs.ErrNotDir):
		return none()
	case errors.Is(err, localfs.ErrStopped):
		return err
	case err != nil:
		w.Problem(path, err)
		return nil
	}
	if new.dev != 0 && new.st.Dev != new.dev {
		d.SetPass(w.Gates.Pass(d, path))
		info, err := d.FS()
		if w.Rules != nil && err == nil && w.Rules.Mount(path, info.Pseudo) == rules.NotEntered {
			d.Release()
			return none()
		}
	}
	return w.directory(ctx, liveDir{dir: d, path: path, state: new.state, dev: new.st.Dev}, old)
}

// directory compares an open directory, and releases it.
func (w *liveWalk) directory(ctx context.Context, d liveDir, old format.ID) error {
	defer d.dir.Release()
	names, err := w.names(&d)
	if errors.Is(err, localfs.ErrStopped) {
		return err
	}
	if err != nil {
		w.Problem(d.path, err)
		return nil
	}
	next := 0
	until := func(name string) error { // the names before one of the snapshot's
		for ; next < len(names) && (name == "" || names[next] < name); next++ {
			if err := w.one(ctx, &d, nil, names[next]); err != nil {
				return err
			}
		}
		return nil
	}
	if !old.IsZero() {
		err := w.eachOld(ctx, d.path, old, func(n *tree.Node) error {
			if err := until(n.Name); err != nil {
				return err
			}
			if next < len(names) && names[next] == n.Name {
				next++
				return w.one(ctx, &d, n, n.Name)
			}
			return w.removed(ctx, filepath.Join(d.path, n.Name), n)
		})
		if err != nil {
			return err
		}
	}
	return until("")
}

// names returns the sorted names of a directory, and loads the rules in it.
func (w *liveWalk) names(d *liveDir) ([]string, error) {
	var all, present []string
	err := d.dir.List(w.buf, func(name []byte, _ tree.Type, _ uint64) error {
		all = append(all, string(name))
		if d.state != nil && d.state.Control(name) {
			present = append(present, string(name))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(all)
	if len(present) > 0 {
		var problems []error
		d.state, problems = d.state.Load(d.path, present, func(name string, limit int) ([]byte, error) {
			return start(d.dir, name, limit)
		})
		for _, err := range problems {
			w.Problem(d.path, err)
		}
	}
	return all, nil
}

// start returns the beginning of a regular file.
func start(dir *localfs.Dir, name string, limit int) ([]byte, error) {
	f, err := dir.OpenFile(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	return text, errors.Join(err, f.Close())
}

// one compares the object of a name with that of the snapshot, nil for none.
func (w *liveWalk) one(ctx context.Context, d *liveDir, old *tree.Node, name string) error {
	path := filepath.Join(d.path, name)
	if !w.counts(path) && !w.passed(path) {
		return nil
	}
	new, err := w.object(d, path, name)
	switch {
	case errors.Is(err, localfs.ErrStopped):
		return err
	case err != nil && !errors.Is(err, localfs.ErrVanished):
		w.Problem(path, err)
		return nil
	case new == nil && old == nil:
		return nil
	case new == nil:
		return w.removed(ctx, path, old)
	case old == nil:
		return w.added(ctx, path, new)
	}
	return w.pair(ctx, path, old, new)
}

// object returns the object of a name as a backup would see it; nil if it is excluded or has vanished.
func (w *liveWalk) object(d *liveDir, path, name string) (*live, error) {
	new, err := w.stat(d.dir, name)
	if err != nil {
		return nil, err
	}
	new.dev = d.dev
	if new.Node.Type == 0 || new.Type == tree.Dir && w.Skip(new.st.Dev, new.st.Ino) {
		return nil, nil
	}
	if d.state == nil {
		return new, nil
	}
	switch d.state.Name([]byte(name), new.Type) {
	case rules.Exclude:
		return nil, nil
	case rules.NotEntered:
		new.hollow = true
	}
	if w.Rules.Object(new.Type, new.st.Size, new.st.Attr&localfs.AttrNoDump != 0) == rules.Exclude {
		return nil, nil
	}
	if w.Rules.Needs().TimeMachine && (new.Type == tree.File || new.Type == tree.Dir) {
		list, err := d.dir.Xattrs(name, new.Type)
		if err != nil {
			return nil, err
		}
		for _, x := range list {
			if x.Name == rules.StickyXattr && w.Rules.Sticky(x.Value) == rules.Exclude {
				return nil, nil
			}
		}
	}
	if new.Type == tree.Dir {
		new.state = d.state.Child([]byte(name))
	}
	return new, nil
}

// stat returns the object of a name with those properties that its status has.
func (w *liveWalk) stat(parent *localfs.Dir, name string) (*live, error) {
	new := &live{parent: parent}
	if err := parent.Lstat(name, &new.st); err != nil {
		return nil, err
	}
	st := &new.st
	new.Node = tree.Node{Name: name, Type: st.Type, Mode: st.Mode, UID: st.UID, GID: st.GID, ModTime: st.Mtime,
		Changed: st.Ctime}
	switch st.Type {
	case tree.File:
		new.Size = st.Size
	case tree.CharDevice, tree.BlockDevice:
		new.Device = st.Rdev
	}
	if st.Birth.Sec != localfs.UnknownTime {
		new.Born = &st.Birth
	}
	return new, nil
}

// complete adds the wanted properties that cost more than a status.
func (w *liveWalk) complete(ctx context.Context, c *browse.Change, new *live) (err error) {
	problem := func(err error) error {
		if err == nil || errors.Is(err, localfs.ErrVanished) || localfs.Unsupported(err) {
			return nil
		}
		if errors.Is(err, localfs.ErrStopped) {
			return err
		}
		w.Problem(c.Path, err)
		return nil
	}
	plain := new.Type == tree.File || new.Type == tree.Dir
	if new.Type == tree.Symlink && w.Want&Target != 0 {
		if new.Target, err = new.parent.Readlink(new.Name); problem(err) != nil {
			return err
		}
	}
	if w.Want&(ACL|Xattrs) != 0 {
		if new.Xattrs, err = new.parent.Xattrs(new.Name, new.Type); problem(err) != nil {
			return err
		}
	}
	if plain && w.Want&Flags != 0 {
		if new.Flags, err = new.parent.Flags(new.Name, new.Type); problem(err) != nil {
			return err
		}
	}
	if new.Type != tree.File {
		return nil
	}
	differs := c.Old.Size != new.Size
	if !differs && w.Want&Data != 0 {
		err := w.compareData(ctx, c.Old, new)
		if differs = errors.Is(err, errDiffers); !differs && problem(err) != nil {
			return err
		}
	}
	if differs {
		c.Status |= browse.Content
	}
	return nil
}

// compareData returns errDiffers if the content of a file is not that in the snapshot.
func (w *liveWalk) compareData(ctx context.Context, old *tree.Node, new *live) error {
	f, err := new.parent.OpenFile(new.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	err = browse.WriteContent(ctx, w.Reader, old, &comparer{file: f})
	if err == nil || errors.Is(err, errDiffers) {
		return err
	}
	return fmt.Errorf("compare: %w", err)
}

// comparer is a Writer that fails with errDiffers at the first byte that is not the next one of a file.
type comparer struct {
	file io.Reader
	buf  []byte
}

func (c *comparer) Write(p []byte) (int, error) {
	c.buf = slices.Grow(c.buf[:0], len(p))[:len(p)]
	_, err := io.ReadFull(c.file, c.buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && !bytes.Equal(c.buf, p) {
		return 0, errDiffers
	}
	return len(p), err
}
