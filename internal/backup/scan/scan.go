// Package scan is the parallel walk: it lists directories, reads the status of their entries, and passes each directory
// to a Visitor. Workers share one depth-first stack, so that memory is bounded by the depth of the tree times the
// number of workers, also for huge directories and deep chains. Everything below a source is opened relative to its
// parent. Only a directory whose names the NameCache has is not opened: the status of its entries is read by two
// components, its name and theirs.
package scan

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// Visitor receives what the walk finds. Several workers call its methods at once.
type Visitor interface {
	// Directory is called once for each directory, before any of its children. It may block, so that the walk does not run
	// ahead of the readers. An error ends the whole walk. The clock is that of the calling worker.
	Directory(ctx context.Context, d *Directory, clock *report.Clock) error
	// Entry is called for each listed object whose status could not be read, except those that vanished.
	Entry(d *Directory, name string, err error)
	// Excluded is called with the number of entries of a directory that the rules exclude.
	Excluded(d *Directory, n int)
}

// Options of a walk.
type Options struct {
	Workers int // directories listed at the same time; at least 1
	Rules   *rules.Set
	Ledger  *report.Ledger
	Now     func() time.Time
	// Skip reports whether a directory is one whose contents never belong to a backup of themselves: the repository,
	// the cache.
	Skip func(dev, ino uint64) bool
	// Gate returns the I/O gate of each source, of each directory on the path to one, and of each file system that the
	// walk enters. The context of Walk also ends I/O on a directory that is retained after it. Nil: no gates.
	Gate  localfs.Gates
	Cache NameCache // of earlier walks; nil: none
	View  View
}

// View is how a walk sees its sources where that is not what their file systems say.
type View struct {
	// Dataless reports whether the content of an object is not on this machine; nil: localfs.AttrDataless says it.
	Dataless func(st *localfs.Stat) bool
	Sticky   string // the attribute of Time Machine; "": rules.StickyXattr
	// Mounted are the names of mount points below the sources by the path of their directory, if sources are read from
	// snapshots of their file systems (Pick.ReadFrom); otherwise nil. What is mounted there is not in the snapshots and is
	// read live, as are subvolumes.
	Mounted map[string]map[string]bool
}

// Walk visits the tree below root and returns after all of it, or after the first error.
func Walk(ctx context.Context, root *SourceTree, opt Options, v Visitor) error {
	w := &walk{opt: opt, visitor: v, sticky: opt.Rules.NeedsSticky(), stack: newStack()}
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
	sticky  bool // the rules need rules.StickyXattr
	stack   *stack
	slabs   slabs
	spent   sync.Pool       // of *Directory
	life    context.Context // of open directories, which the visitor may retain after a walk without error
	fail    context.CancelCauseFunc

	mu    sync.Mutex
	extra []*localfs.Dir // of picks outside their parent's directory: open until the walk ends
}

func (w *walk) opened(dir *localfs.Dir) {
	w.mu.Lock()
	w.extra = append(w.extra, dir)
	w.mu.Unlock()
}

// failing cancels the I/O that other workers wait for at a gate, which may hold it for long.
func (w *walk) failing(err error) error {
	if err != nil {
		w.fail(err)
	}
	return err
}

// door returns the I/O context for a path.
func (w *walk) door(path string) localfs.IOContext {
	return localfs.IOContext{Ctx: w.life, Pass: w.opt.Gate.Pass(nil, path)}
}

func (w *walk) newWorker() *worker {
	return &worker{disk: &realNames{walk: w}, cache: w.opt.Cache, clock: w.opt.Ledger.Worker("scanner")}
}

func (w *walk) work(ctx context.Context) error {
	s := w.newWorker()
	defer s.clock.Stop()
	for {
		s.clock.Enter(report.WaitScan)
		task, ok := w.stack.pop()
		if !ok {
			return context.Cause(ctx)
		}
		s.clock.Enter(report.Scan)
		err := w.child(ctx, task, s)
		w.stack.end()
		if err != nil {
			w.stack.stop()
			return err
		}
	}
}

func (w *walk) root(ctx context.Context, root *SourceTree) error {
	d := &Directory{Name: "", Started: w.opt.Now()}
	s := w.newWorker()
	defer s.clock.Stop()
	s.clock.Enter(report.Scan)
	return w.pick(ctx, d, root, s)
}

// child opens, reads and announces one subdirectory.
func (w *walk) child(ctx context.Context, t task, s *worker) error {
	parent := t.parent
	entry := &parent.Entries[t.index]
	d := w.directory()
	*d = Directory{
		Parent: parent, Index: t.index, Slot: t.slot, Name: entry.Name, Dev: parent.Dev, Ino: entry.Ino, FS: parent.FS,
		Started: w.opt.Now(),
	}
	picked := parent.picks[entry.Name]
	d.First = parent.First || picked != nil && picked.First
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
	if picked != nil && picked.Children != nil {
		return w.pick(ctx, d, picked, s)
	}
	if picked != nil {
		d.state, _ = w.opt.Rules.Root(picked.Path)
	} else {
		d.state = parent.state.Child([]byte(entry.Name))
	}
	d.pass = parent.pass
	if s.begin(d, entry.Mount() || parent.Picked || w.excluded(d)) {
		return w.announce(ctx, d, s)
	}
	dir, err := d.above.Open(entry.Name)
	if err != nil {
		d.reset(d.state) // entries that begin has filled
		return w.failed(ctx, d, d.openError(err), s)
	}
	defer dir.Release()
	d.dir = dir
	if entry.Mount() || parent.Picked {
		w.enter(d)
	}
	d.Excluded = d.Excluded || w.excluded(d)
	if !d.Excluded && d.Err == nil {
		state := d.state
		if s.list(d); d.mountedOver() {
			d.reset(state)
			w.enter(d)
			s.relist(d)
		}
	}
	return w.announce(ctx, d, s)
}

// enter enters the file system that is mounted on d, unless it is excluded.
func (w *walk) enter(d *Directory) {
	if d.Err = w.cross(d); d.Err == nil && !d.Excluded {
		d.pass = w.opt.Gate.Pass(d.dir, d.place())
		d.dir.SetPass(d.pass)
	}
}

// mountedOver reports whether a file system was mounted on d after the scan of its parent, perhaps because d was
// opened: an automounter mounts on access. Then every entry of d seems to be a mount.
func (d *Directory) mountedOver() bool {
	if len(d.Entries) == 0 || !d.Entries[0].Mount() || d.Err != nil {
		return false
	}
	st, err := d.dir.Fstat()
	return err == nil && st.Dev != d.Dev
}

// excluded reports whether a rule or Options.Skip excludes the contents of d.
func (w *walk) excluded(d *Directory) bool {
	entry := &d.Parent.Entries[d.Index]
	return entry.byName == rules.NotEntered || w.opt.Skip != nil && w.opt.Skip(d.Dev, entry.Ino)
}

// directory returns a used or a new Directory.
func (w *walk) directory() *Directory {
	if d, ok := w.spent.Get().(*Directory); ok {
		return d
	}
	return &Directory{}
}

// cross sets the file system of d, which begins at d.
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
	if source := d.Parent == nil || d.Parent.Picked; !source &&
		w.opt.Rules.Mount(d.place(), d.FS.Pseudo) == rules.NotEntered {
		d.Excluded = true
	}
	return nil
}

// failed passes on a directory that could not be opened.
func (w *walk) failed(ctx context.Context, d *Directory, err error, s *worker) error {
	if errors.Is(err, localfs.ErrStopped) {
		return err // of the walk, not of the directory
	}
	d.Err = err
	return w.visitor.Directory(ctx, d, s.clock)
}

// announce passes d to the visitor and queues its subdirectories.
func (w *walk) announce(ctx context.Context, d *Directory, s *worker) error {
	if errors.Is(d.Err, localfs.ErrStopped) {
		return d.Err
	}
	dirs := 0
	for i := range d.Entries {
		if d.Entries[i].Entered() {
			dirs++
		}
	}
	if dirs > 0 {
		d.Subdirs = make([]uint32, 0, dirs)
	}
	for i := range d.Entries {
		if d.Entries[i].Entered() {
			d.Subdirs = append(d.Subdirs, uint32(i))
		}
	}
	if err := w.visitor.Directory(ctx, d, s.clock); err != nil {
		return err
	}
	switch {
	case len(d.Subdirs) > 0:
		w.stack.push(d) // its children refer to d, so it is not reused
	case d.spent && d.Parent != nil:
		*d = Directory{}
		w.spent.Put(d)
	}
	return nil
}
