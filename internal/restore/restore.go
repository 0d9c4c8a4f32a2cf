// Package restore brings a tree, or a part of it, back to a file system. The flow:
//
//	walker.go   the tree, page by page: directories and special objects are made as they are met; files become pieces
//	            of a window (bounded in bytes)
//	window.go   a full window: its chunks are looked up, sorted by pack and frame, and cut into runs (package order)
//	late.go     small files in frames of which a window wants little wait for those of other windows
//	worker.go   a run is read; each frame is opened once, each blob compared with its ID, then written to every place
//	            that wants it
//	small.go    a file of one chunk is made in one go
//	file.go     another one whose last chunk is written gets its size, its metadata and its name
//	dir.go      a directory whose last entry is finished gets its metadata
//	shut.go     directories of ours that shut us out are opened for that time
//
// What is there is compared (package same), left alone if it is equal, and otherwise removed (package removal). A frame that
// cannot be opened is not read for each window anew (package damage).
//
// While one window is read and written, the next one is planned. Nothing that does not match its ID is ever written.
//
// Directories that this run has made are known to be empty: what is put into them is not looked for first. It is made by
// calls that fail if there is something by that name, so what somebody else puts there meanwhile stays, and is told.
// The package refuses to know how snapshots are chosen, and what is printed.
package restore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore/damage"
	"github.com/tidemark-backup/tidemark/internal/restore/spelling"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Overwrite says what happens to a file that is there already.
type Overwrite uint8

// The overwrite rules, with restic's names.
const (
	Always    Overwrite = iota // replace it unless its content is the same, which is checked by reading it
	IfChanged                  // replace it unless size and modification time are the same
	IfNewer                    // replace it if the one in the snapshot was modified later
	Never                      // leave everything that exists alone
)

// ParseOverwrite reads the names of the command line.
func ParseOverwrite(name string) (Overwrite, error) {
	for i, known := range []string{"always", "if-changed", "if-newer", "never"} {
		if name == known {
			return Overwrite(i), nil
		}
	}
	return 0, fmt.Errorf("overwrite %q: choose always, if-changed, if-newer or never", name)
}

// Selection is what is restored.
type Selection struct {
	Tree format.ID // root page of the snapshot's tree
	Sub  string    // a path inside the snapshot: the content of that directory, or that one file; "" or "/": all
	// Sources are the absolute paths that the snapshot was made of. What it holds beside these are directories on the way to
	// them, of which it does not know what else was in them: there --delete removes nothing. None: everything is a source.
	Sources []string
	// Take decides about a path inside the snapshot: whether it is restored, and whether to look below it. Nil: all.
	Take func(path string, typ tree.Type) (take, enter bool)
}

// Target is where it goes, and how it meets what is there.
type Target struct {
	Path      string
	Overwrite Overwrite
	Delete    bool // remove what is in restored directories but not in the snapshot
	DryRun    bool
	Verify    bool // read every file back and compare it with the snapshot once all is written
	Apply     localfs.ApplyOptions
	Owners    func(uid, gid uint32) (uint32, uint32) // maps IDs of the snapshot to those of this machine; nil: as they are
	Gate      localfs.Gates                          // the ways to the devices that the target lies on; nil: no gates
}

// Parallel is how many goroutines read and write: at most 16, as each holds a buffer of some 2 MiB.
type Parallel struct{ Workers int }

const maxWorkers = 16

// Result is what a run did beside what its ledger counts.
type Result struct {
	Problems map[string]uint64 // metadata that could not be set: how often, by what it was ("owner", "xattr user.x")
	Deleted  uint64            // entries removed from the target
}

// Run restores the selection. What fails for one object is a failure in the ledger; an error ends the run.
func Run(ctx context.Context, r *repo.Repository, sel Selection, to Target, par Parallel, l *report.Ledger) (*Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	j := &job{repo: r, sel: sel, to: to, ledger: l, result: Result{Problems: map[string]uint64{}}, links: map[linkKey][]*link{}, stop: stop}
	j.maker = localfs.NewMaker(to.Apply)
	j.handles.gate, j.handles.path, j.handles.most = to.Gate, to.Path, mostHandles()
	j.handles.widened.Never = to.DryRun
	defer j.handles.close()
	l.Phase(report.Planning)
	root, err := j.root(ctx)
	if err != nil {
		return nil, err
	}
	l.Phase(report.Restoring)
	group, gctx := errgroup.WithContext(ctx)
	workers := min(max(1, par.Workers), maxWorkers)
	readers, err := r.NewFrameReaders(workers, min(workers, j.writers()))
	if err != nil {
		return nil, err
	}
	j.start(gctx, group, root, readers)
	if err = group.Wait(); err == nil {
		err = context.Cause(ctx) // what was called off is not told as a failure of its own
	}
	if err != nil {
		j.tidy()
		return nil, err
	}
	l.Phase(report.Finishing)
	if to.Verify && !to.DryRun {
		l.Phase(report.Verifying)
		if err := j.verify(ctx); err != nil {
			return nil, err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return &j.result, nil
}

// start starts the planner, who fills windows, the one who cuts them into runs, and the workers.
func (j *job) start(ctx context.Context, group *errgroup.Group, root *start, readers []*repo.FrameReader) {
	full, free, cut := make(chan *window), make(chan *window, windows), make(chan run)
	for range windows {
		free <- &window{home: free}
	}
	group.Go(func() error {
		defer close(full)
		w := &walker{job: j, windows: full, free: free, limit: firstWindow, clock: j.ledger.Worker("planner")}
		defer w.clock.Stop()
		w.clock.Enter(report.Unpack)
		return j.ending(w.run(w.clock.Within(ctx), root))
	})
	group.Go(func() error {
		defer close(cut)
		return j.ending(j.dispatch(ctx, full, cut, len(readers)))
	})
	for _, reader := range readers {
		group.Go(func() error { return j.ending(j.work(ctx, reader, cut)) })
	}
}

// writers returns how many workers may write at the same time while the others read: for a file system of this machine,
// which mostly takes what is written at once, two for each processor, so that one may wait for the disk. A call to
// another machine takes the time of the way there and back, however fast both are: then everybody may.
func (j *job) writers() int {
	if base := j.handles.base; base != nil {
		if info, err := base.FS(); err != nil || info.Remote {
			return maxWorkers
		}
	}
	return 2 * runtime.NumCPU()
}

// job is one restore.
type job struct {
	repo   *repo.Repository
	sel    Selection
	to     Target
	ledger *report.Ledger
	stop   context.CancelCauseFunc

	handles handles
	growing sync.Map // leftover -> *file: what exists in the target and is not whole; nil of a small one that could not be removed
	bad     damage.Frames
	maker   *localfs.Maker

	mu     sync.Mutex
	result Result
	links  map[linkKey][]*link

	places    []string // of the sources inside the snapshot; nil if nothing is to be deleted, or everything is a source
	spellings spelling.Dirs[*dir]
}

// ending ends what others wait for when one of them has failed: a gate may let nobody through for long.
func (j *job) ending(err error) error {
	if err != nil {
		j.stop(err)
	}
	return err
}

// tell books what could not be done with an object. A call that was not made because the run was called off says nothing
// about the object.
func (j *job) tell(path, op string, err error) {
	if !errors.Is(err, localfs.ErrStopped) {
		j.ledger.Fail(path, op, err)
	}
}

// failed books what could not be restored. A full target ends the run: nothing that is still to come would fit.
func (j *job) failed(path, op string, err error) {
	if errors.Is(err, localfs.ErrStopped) {
		return
	}
	j.ledger.Fail(path, op, err)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		j.stop(fmt.Errorf("restore %s: %w (%w)", path, ErrFull, err))
	}
}

// problems books metadata that could not be set on one object.
func (j *job) problems(path string, ps []localfs.Problem) {
	ps = slices.DeleteFunc(ps, func(p localfs.Problem) bool { return errors.Is(p.Err, localfs.ErrStopped) })
	if len(ps) == 0 {
		return
	}
	j.mu.Lock()
	for _, p := range ps {
		j.result.Problems[p.What]++
	}
	j.mu.Unlock()
	for _, p := range ps {
		j.ledger.Note(path, "set "+p.What, p.Err)
	}
}

// owned returns the node with the owners of this machine.
func (j *job) owned(n *tree.Node) *tree.Node {
	if j.to.Owners != nil {
		n.UID, n.GID = j.to.Owners(n.UID, n.GID)
	}
	return n
}
