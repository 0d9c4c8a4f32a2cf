// Package scan is the parallel walk: directories in, scanned directories out. Workers share one depth-first stack, so
// that a huge directory or a deep chain neither starves nor explodes, and memory stays bounded by the depth of the tree
// times the number of workers. Everything below a source root is opened relative to its parent; there is no path lookup, but
// for a look at what is in a directory of which Memory knows the names.
//
// The package knows nothing of snapshots, hashes or repositories: what becomes of a scanned directory is the visitor's
// business.
package scan

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/scan/listing"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Visitor receives what the walk finds. Its methods are called by several workers at once.
type Visitor interface {
	// Directory is called once for every directory, before any of its children. It may block: that is how a walk is
	// kept from running ahead of the readers. An error ends the whole walk.
	// The clock is that of the worker that calls.
	Directory(ctx context.Context, d *Directory, clock *report.Clock) error
	// Entry is told of an object that was named by its directory but could not be looked at. A vanished one is not.
	Entry(d *Directory, name string, err error)
	// Excluded is told how many entries of a directory the rules left out.
	Excluded(d *Directory, n int)
}

// Options of a walk.
type Options struct {
	Workers int        // directories looked at at the same time; at least 1
	Rules   *rules.Set // what is part of the walk
	Ledger  *report.Ledger
	Now     func() time.Time
	// Skip reports whether a directory is one whose contents never belong to a backup of themselves: the repository,
	// the cache.
	Skip func(dev, ino uint64) bool
	// Gate finds the way to the device of each source, of each directory on the way to one, and of each file system that
	// the walk crosses into. The context of Walk also ends what is done with a retained directory after it. Nil: no gates.
	Gate   localfs.Gates
	Memory Memory // of earlier walks; nil: none
}

// Directory is one directory as it was found. Its entries are sorted by the bytes of their names.
type Directory struct {
	Parent  *Directory
	Index   int    // of this directory among Parent.Entries
	Slot    int    // of this directory among Parent.Subdirs
	Name    string // in the snapshot; empty for the root
	Entries []Entry
	Err     error     // it could not be opened or read to its end: Entries may be incomplete
	Missed  int       // how many entries could not be looked at, vanished ones aside
	Sources int       // how many of the entries are sources; 1 for a root that is itself one
	Picked  bool      // holds only the way to sources, not all there is
	Closed  bool      // its contents are left out: another file system, a pseudo file system, or a rule
	Started time.Time // before its names were read
	FS      localfs.FSInfo
	Dev     uint64
	Ino     uint64
	Subdirs []uint32 // indexes of the entries that are directories; set before the visitor is called
	User    any      // the visitor's
	// Listing is what Memory may recall in another walk: of names that were read, and can be believed. Nil: there is no such
	// thing, or nothing to be gained by remembering it.
	Listing []byte

	dir     *localfs.Dir
	own     listing.Stamp           // of the root
	above   *localfs.Dir            // in which it lies
	way     string                  // the path by which it was opened, of the root and of directories on the way to sources
	door    localfs.Door            // through which it was opened by that path
	pass    *iopolicy.Pass          // of the device, of a directory that was entered by its name
	handles map[string]*localfs.Dir // of picked entries that lie in another directory than dir
	picks   map[string]*Pick
	state   *rules.DirState
	slab    *slab // of Entries; nil: not to be used again
	spent   bool  // the visitor has no use for it any more
}

// Dir returns the open directory in which the named entry lies; nil if the directory could not be opened, or need not be
// because Memory.Same said that all of it is as it was.
// It is open during Visitor.Directory, and longer for whoever retains it.
func (d *Directory) Dir(name string) *localfs.Dir {
	if h, ok := d.handles[name]; ok {
		return h
	}
	return d.dir
}

// Above returns the open directory in which d itself lies; nil for the root. It is open during Visitor.Directory.
func (d *Directory) Above() *localfs.Dir { return d.above }

// Reopen opens d again, for somebody who comes back after the walk has left it. It costs one call for each level, and is
// localfs.ErrVanished if another directory has taken its place. The caller releases it.
func (d *Directory) Reopen() (*localfs.Dir, error) {
	if d.Picked {
		return d.door.OpenWay(d.way)
	}
	if d.way != "" {
		return d.door.OpenDir(d.way)
	}
	above, err := d.reopenAbove()
	if err != nil {
		return nil, err
	}
	defer above.Release()
	dir, err := above.Open(d.Name)
	if err != nil {
		return nil, err
	}
	dir.Through(d.pass)
	st, err := dir.Fstat()
	if err == nil && (st.Ino != d.Ino || st.Dev != d.Dev) {
		err = fmt.Errorf("open %s again: %w", d.Path(), localfs.ErrVanished)
	}
	if err != nil {
		dir.Release()
		return nil, err
	}
	return dir, nil
}

func (d *Directory) reopenAbove() (*localfs.Dir, error) {
	if h, ok := d.Parent.handles[d.Name]; ok {
		h.Retain()
		return h, nil
	}
	return d.Parent.Reopen()
}

// Recycle gives back the memory of d.Entries, for the entries of another directory. Nobody may have kept a pointer to one;
// their names may be kept. A directory without subdirectories that is given back inside Visitor.Directory is itself used
// again: nobody may keep a pointer to it.
func (d *Directory) Recycle() {
	d.Entries, d.spent = nil, true
	if d.slab != nil {
		d.slab.recycle()
		d.slab = nil
	}
}

// Path returns the path inside the snapshot, beginning with a slash.
func (d *Directory) Path() string {
	if d.Parent == nil {
		return "/"
	}
	return string(d.AppendPath(nil))
}

// AppendPath appends the path inside the snapshot: nothing for the root.
func (d *Directory) AppendPath(dst []byte) []byte {
	if d.Parent == nil {
		return dst
	}
	dst = d.Parent.AppendPath(dst)
	dst = append(dst, '/')
	return append(dst, d.Name...)
}

// place returns the path of d on this machine.
func (d *Directory) place() string {
	if d.way != "" {
		return d.way
	}
	if p := d.Parent.picks[d.Name]; p != nil {
		return p.Path
	}
	return filepath.Join(d.Parent.place(), d.Name)
}

// Join returns the path of an entry inside the snapshot.
func (d *Directory) Join(name string) string {
	if d.Parent == nil {
		return "/" + name
	}
	return d.Path() + "/" + name
}

// Walk visits the tree below root and returns when all of it has been visited or the first error has stopped it.
func Walk(ctx context.Context, root *Pick, opt Options, v Visitor) error {
	w := &walk{opt: opt, visitor: v, needs: opt.Rules.Needs(), stack: newStack()}
	if w.opt.Now == nil {
		w.opt.Now = time.Now
	}
	w.life, w.fail = context.WithCancelCause(ctx)
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, w.stack.stop)
	defer stop()
	w.stack.begin()
	for range max(1, opt.Workers) {
		group.Go(func() error { return w.failing(w.work(ctx)) })
	}
	group.Go(func() error {
		err := w.root(ctx, root)
		w.stack.end()
		return w.failing(err)
	})
	err := group.Wait()
	if errors.Is(err, localfs.ErrStopped) {
		err = context.Cause(w.life)
	}
	w.stack.release()
	for _, dir := range w.extra {
		dir.Release()
	}
	return err
}

type walk struct {
	opt     Options
	visitor Visitor
	needs   rules.Needs
	stack   *stack
	slabs   slabs
	spent   sync.Pool       // of *Directory
	life    context.Context // of open directories: it outlasts a walk that ends well, as those do that the visitor retains
	fail    context.CancelCauseFunc

	mu    sync.Mutex
	extra []*localfs.Dir // of picks outside their parent's directory: open to the end
}

func (w *walk) opened(dir *localfs.Dir) {
	w.mu.Lock()
	w.extra = append(w.extra, dir)
	w.mu.Unlock()
}

// failing ends what others wait for, at a gate that may let nobody through for long.
func (w *walk) failing(err error) error {
	if err != nil {
		w.fail(err)
	}
	return err
}

// door is the way to what lies at a path.
func (w *walk) door(path string) localfs.Door {
	return localfs.Door{Ctx: w.life, Pass: w.opt.Gate.Pass(nil, path)}
}

func (w *walk) work(ctx context.Context) error {
	s := scratch{clock: w.opt.Ledger.Worker("scanner")}
	defer s.clock.Stop()
	for {
		s.clock.Enter(report.WaitScan)
		task, ok := w.stack.pop()
		if !ok {
			return context.Cause(ctx)
		}
		s.clock.Enter(report.Scan)
		err := w.child(ctx, task, &s)
		w.stack.end()
		if err != nil {
			w.stack.stop()
			return err
		}
	}
}

func (w *walk) root(ctx context.Context, root *Pick) error {
	d := &Directory{Name: "", Started: w.opt.Now()}
	s := &scratch{clock: w.opt.Ledger.Worker("scanner")}
	defer s.clock.Stop()
	s.clock.Enter(report.Scan)
	return w.pick(ctx, d, root, s)
}

// child opens, reads and announces one subdirectory.
func (w *walk) child(ctx context.Context, t task, s *scratch) error {
	parent := t.parent
	entry := &parent.Entries[t.index]
	d := w.directory()
	*d = Directory{
		Parent: parent, Index: t.index, Slot: t.slot, Name: entry.Name, Dev: parent.Dev, Ino: entry.Ino, FS: parent.FS,
		Started: w.opt.Now(),
	}
	above, err := w.stack.dirOf(t)
	if err != nil {
		return w.failed(ctx, d, err, s)
	}
	defer above.Release()
	if h, ok := parent.handles[entry.Name]; ok {
		d.above = h
	} else {
		d.above = above
	}
	picked := parent.picks[entry.Name]
	if picked != nil && picked.Children != nil {
		return w.pick(ctx, d, picked, s)
	}
	if picked != nil {
		d.state = picked.state
	} else {
		d.state = parent.state.Child([]byte(entry.Name))
	}
	d.pass = parent.pass
	s.asked = false
	if !entry.Mount && !parent.Picked && !w.closed(d) && w.outside(d, s) {
		return w.announce(ctx, d, s)
	}
	dir, err := d.above.Open(entry.Name)
	if err != nil {
		d.forget(d.state) // what was seen from outside
		return w.failed(ctx, d, d.reason(err), s)
	}
	defer dir.Release()
	d.dir = dir
	if entry.Mount || parent.Picked {
		w.enter(d)
	}
	d.Closed = d.Closed || w.closed(d)
	if !d.Closed && d.Err == nil {
		state := d.state
		if w.list(d, s); w.covered(d) {
			d.forget(state)
			if w.enter(d); !d.Closed && d.Err == nil {
				s.guess = false
				d.Err = w.names(d, s, true)
				w.look(d, s)
			} else if w.opt.Memory != nil {
				w.same(d, s) // what it has seen is no part of d
			}
		}
	}
	return w.announce(ctx, d, s)
}

// enter crosses into the file system that is mounted on d.
func (w *walk) enter(d *Directory) {
	if d.Err = w.cross(d); d.Err == nil && !d.Closed {
		d.pass = w.opt.Gate.Pass(d.dir, d.place())
		d.dir.Through(d.pass)
	}
}

// covered reports whether something was mounted on d after its parent was looked at, perhaps because it was opened: some
// file systems mount what belongs there when somebody enters. Then all that is in it seems to be mounted.
func (w *walk) covered(d *Directory) bool {
	if len(d.Entries) == 0 || !d.Entries[0].Mount || d.Err != nil {
		return false
	}
	st, err := d.dir.Fstat()
	return err == nil && st.Dev != d.Dev
}

// closed reports whether the contents of d are left out by a rule or by Options.Skip.
func (w *walk) closed(d *Directory) bool {
	entry := &d.Parent.Entries[d.Index]
	return entry.hollow || w.opt.Skip != nil && w.opt.Skip(d.Dev, entry.Ino)
}

// directory returns memory for one.
func (w *walk) directory() *Directory {
	if d, ok := w.spent.Get().(*Directory); ok {
		return d
	}
	return &Directory{}
}

// cross learns about the file system that is mounted on d.
func (w *walk) cross(d *Directory) error {
	st, err := d.dir.Fstat()
	if err != nil {
		return err
	}
	d.Dev, d.Ino = st.Dev, st.Ino
	if d.FS, err = d.dir.FS(); err != nil {
		return err
	}
	if d.Parent == nil {
		d.own = d.stampOf(&st)
	}
	if source := d.Parent == nil || d.Parent.Picked; !source && w.opt.Rules.Mount(d.FS.Pseudo) == rules.Hollow {
		d.Closed = true
	}
	return nil
}

// failed announces a directory that could not be opened.
func (w *walk) failed(ctx context.Context, d *Directory, err error, s *scratch) error {
	if errors.Is(err, localfs.ErrStopped) {
		return err // of the walk, not of the directory
	}
	d.Err = err
	return w.visitor.Directory(ctx, d, s.clock)
}

func (w *walk) announce(ctx context.Context, d *Directory, s *scratch) error {
	if errors.Is(d.Err, localfs.ErrStopped) {
		return d.Err
	}
	dirs := 0
	for i := range d.Entries {
		if d.Entries[i].Type == tree.Dir {
			dirs++
		}
	}
	if dirs > 0 {
		d.Subdirs = make([]uint32, 0, dirs)
	}
	for i := range d.Entries {
		if d.Entries[i].Type == tree.Dir {
			d.Subdirs = append(d.Subdirs, uint32(i))
		}
	}
	if err := w.visitor.Directory(ctx, d, s.clock); err != nil {
		return err
	}
	switch {
	case len(d.Subdirs) > 0:
		w.stack.push(d) // of such a one, d.spent is for whoever ends the last below
	case d.spent && d.Parent != nil:
		*d = Directory{}
		w.spent.Put(d)
	}
	return nil
}
