// Package restore writes a snapshot, or a part of it, to a file system. The flow:
//
//	walker.go    walks the tree, and has each entry decided and carried out
//	decide.go    compares an entry with what exists (consent.go: what may be replaced); the result is an action
//	execute.go   carries out actions: makes objects, and adds the chunks of files to a batch
//	dry.go       carries out actions by counting, and collects what would be lost for a survey (survey.go)
//	batch.go     looks up the chunks of a batch, sorts them by pack and frame, and cuts them into pack reads (order.go)
//	deferred.go  collects small files from frames that their batch needs little of
//	worker.go    reads: opens each frame once, compares each blob with its ID, and writes it to all its files
//	small.go     makes a file of one chunk
//	file.go      makes larger files: when the last chunk is written, sets size, metadata and name
//	special.go   makes links, fifos, sockets and devices
//	dir.go       sets the metadata of a directory after its last entry
//
// Existing objects are compared (view.Compare, metadata.go), and kept if they are equal. While one batch is read and
// written, the next one is planned. Data that does not match its ID is never written.
//
// Directories that this run makes are empty. Their entries are made by calls that fail if the name exists; what other
// programs put there stays, and is reported.
package restore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Overwrite is the rule for files that exist in the target.
type Overwrite uint8

// The rules have restic's names.
const (
	Always    Overwrite = iota // replace unless the content is the same, which is checked by reading it
	IfChanged                  // replace unless size and modification time are the same
	IfNewer                    // replace if the snapshot's file is newer
	Never                      // keep everything that exists
)

// ParseOverwrite parses the name of a rule.
func ParseOverwrite(name string) (Overwrite, error) {
	for i, known := range []string{"always", "if-changed", "if-newer", "never"} {
		if name == known {
			return Overwrite(i), nil
		}
	}
	return 0, fmt.Errorf("overwrite %q: choose always, if-changed, if-newer or never", name)
}

// Selection says what to restore.
type Selection struct {
	Tree format.ID // root of the snapshot's tree
	Sub  string    // path inside the snapshot: the content of that directory, or that one file; "" or "/": all
	// Sources are the absolute paths that the snapshot was made of. Directories above them are incomplete in the
	// snapshot, so Delete removes nothing there. None: everything is a source.
	Sources []string
	// Take reports whether a path inside the snapshot is restored, and whether to descend into it. Nil: everything.
	Take func(path string, typ tree.Type) (take, enter bool)
	// Made is when the backup began, by the clock of its machine; zero: unknown. Objects that replace later ones are
	// counted.
	Made tree.Time
	// Planned receives each action of a dry run with its reason, one call at a time. May be nil.
	Planned func(path, what, why string)
}

// Target says where to restore, and how to treat what exists there.
type Target struct {
	Path      string
	Overwrite Overwrite
	Delete    bool // remove entries of restored directories that the snapshot does not have
	DryRun    bool
	Verify    bool // afterwards read every file and compare it with the snapshot
	// Unasked: there is no consent to lose anything. An object whose content differs from the snapshot stays, and so
	// does one that Delete would remove; each is a failure.
	Unasked bool
	// Asked is when consent was asked for; zero: never. What changed later stays, and is a failure.
	Asked  time.Time
	Apply  localfs.ApplyOptions
	Owners func(uid, gid uint32) (uint32, uint32) // maps IDs of the snapshot to those of this machine; may be nil
	Gate   localfs.Gates                          // I/O gates of the target's devices; may be nil
}

// maxWorkers bounds the goroutines that read and write: each holds a buffer of some 2 MiB.
const maxWorkers = 16

// Result is the outcome besides the ledger's counters.
type Result struct {
	Problems map[string]uint64 // number of properties that could not be set, by Problem.What
	Replaced Replaced
	Damaged  []format.ID // packs that are damaged somewhere
}

// Run restores the selection with so many workers. Failures of single objects are in the ledger; an error ends the
// run.
func Run(
	ctx context.Context, r *repo.Repository, sel Selection, to Target, workers int, l *report.Ledger,
) (*Result, error) {
	return (&job{repo: r, sel: sel, to: to, ledger: l}).run(ctx, workers)
}

func (j *job) run(ctx context.Context, workers int) (*Result, error) {
	ctx, j.stop = context.WithCancelCause(ctx)
	defer j.stop(nil)
	r, to, l := j.repo, j.to, j.ledger
	j.links = map[linkKey][]*link{}
	j.result.Problems = map[string]uint64{}
	j.ownershipKept = map[uint64]bool{}
	j.maker = localfs.NewMaker(to.Apply)
	j.handles.gate, j.handles.path, j.handles.most = to.Gate, to.Path, mostHandles()
	defer j.handles.close()
	l.Phase(report.Planning)
	w := &walker{job: j, limit: firstBatch}
	j.choose(w)
	if err := w.begin(ctx); err != nil {
		return nil, err
	}
	l.Phase(report.Restoring)
	group, gctx := errgroup.WithContext(ctx)
	workers = min(max(1, workers), maxWorkers)
	j.start(gctx, group, w, r.NewFrameReaders(workers, min(workers, j.writers())))
	err := group.Wait()
	if err == nil {
		err = context.Cause(ctx) // a cancelled call is not a failure of its own
	}
	if err != nil {
		j.cleanUp()
		return nil, err
	}
	l.Phase(report.Finishing)
	if j.to.Verify {
		l.Phase(report.Verifying)
		if err := j.verify(ctx, w); err != nil {
			return nil, err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	j.result.Damaged = j.damaged.allPacks()
	return &j.result, nil
}

// choose sets the executor.
func (j *job) choose(w *walker) {
	if j.to.DryRun {
		j.do, j.handles.widened.never, j.to.Verify = dry{w}, true, false
	} else {
		j.do, j.sel.Planned = real{w}, nil
	}
}

// start starts the walker, the planner of reads, and the workers.
func (j *job) start(ctx context.Context, group *errgroup.Group, w *walker, readers []*repo.FrameReader) {
	full, free, cut := make(chan *batch), make(chan *batch, batchCount), make(chan packRead)
	for range batchCount {
		free <- &batch{freeList: free}
	}
	w.batches, w.free, w.clock = full, free, j.ledger.Worker("planner")
	group.Go(func() error {
		defer close(full)
		defer w.clock.Stop()
		w.clock.Enter(report.Unpack)
		return j.stopOnError(w.run(w.clock.Within(ctx)))
	})
	group.Go(func() error {
		defer close(cut)
		return j.stopOnError(j.planReads(ctx, full, cut, len(readers)))
	})
	for _, reader := range readers {
		group.Go(func() error { return j.stopOnError(j.runWorker(ctx, reader, cut)) })
	}
}

// writers returns how many workers may write at the same time while the others read. On local file systems, which
// mostly write to memory, it is two for each processor, so that one may wait for the disk. On remote ones each call
// waits for the network, so all workers may write.
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
	// partials maps partialFile to *file: incomplete files in the target. *file is nil for a small file.
	partials sync.Map
	damaged  damagedFrames
	maker    *localfs.Maker

	mu            sync.Mutex
	result        Result
	links         map[linkKey][]*link
	ownershipKept map[uint64]bool // by file system: result of keepsOwnership

	survey *Survey // collects what would be lost; nil: no survey
	do     executor
}

// stopOnError cancels the other goroutines, which may wait at a gate, if err is not nil.
func (j *job) stopOnError(err error) error {
	if err != nil {
		j.stop(err)
	}
	return err
}

// fail records a failure of one object. Calls that were not made because of cancellation are not failures.
func (j *job) fail(path, op string, err error) {
	if !errors.Is(err, localfs.ErrStopped) {
		j.ledger.Fail(path, op, err)
	}
}

// failRestore records that an object could not be restored. A full target ends the run.
func (j *job) failRestore(path, op string, err error) {
	if errors.Is(err, localfs.ErrStopped) {
		return
	}
	j.ledger.Fail(path, op, err)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		j.stop(fmt.Errorf("restore %s: %w (%w)", path, ErrFull, err))
	}
}

// noteProblems records metadata that could not be set on one object.
func (j *job) noteProblems(path string, ps []localfs.Problem) {
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

// planned reports what a dry run would do with an object.
func (j *job) planned(path string, what verb, why string) {
	if j.sel.Planned == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sel.Planned(path, string(what), why)
}

// Replaced counts objects of the target that a restore replaced. An object whose content is equal is not replaced.
type Replaced struct {
	Objects uint64
	Newer   uint64 // of these, those that were changed after the snapshot was made
}

// countReplaced counts one object.
func (j *job) countReplaced(newer bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.result.Replaced.Objects++
	if newer {
		j.result.Replaced.Newer++
	}
}
