package backup

import (
	"context"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/compare"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Job describes one backup.
type Job struct {
	Label    Label
	Source   Source
	Stdin    *Stdin // instead of Source: one file from a stream
	Parallel Parallel
	Parent   string // ID prefix or "latest" of the snapshot to compare with; "": each source has its own, see parents.go
	Phases   Phases
	Session  repo.SessionOptions

	Checkpoint    time.Duration // to the first partial snapshot of sources that no whole one has; 0: none
	SkipUnchanged bool          // save no snapshot when the tree is that of the parent
	NoDirCache    bool          // neither use nor keep entries of the directory cache
}

// Label is the metadata of the snapshot.
type Label struct {
	Host, User  string
	UID, GID    uint32
	Sources     []string // absolute paths: displayed, and used to find the parent
	Domain      []string // words by which the machine found Sources; nil: the user named them
	Tags        []string
	Rules       []string
	Description string
	Time        time.Time // zero: the start of the run
	System      string
	Program     string
	Job         string // of the service; "": made by hand
	Setup       string // option file, without secrets; "": none
}

// Outcome is the result of a backup.
type Outcome struct {
	Snapshot *snapshot.Snapshot
	ID       format.ID // zero: none was saved
	Former   string    // host whose snapshots were taken over, as these folders are its own; "": none
	Same     bool      // the sources are the parent's
	Failed   bool      // some objects could not be backed up
	Mended   uint64    // files that were stored again because the repository had lost data of them
	Sources  []Found
	Unusual  string      // how much more than usual was stored, and where; "": it was not
	Damaged  []format.ID // snapshots that were there before and cannot be read
	PutBack  []format.ID // those of them that were put back from copies on this machine; not in Damaged

	partial []repo.Listed // the last partial snapshot, if it was not removed yet
}

// Run makes one snapshot: it chooses the parent, runs the pipeline inside a session and saves.
func Run(ctx context.Context, r *repo.Repository, job Job, l *report.Ledger) (*Outcome, error) {
	start := time.Now()
	l.Phase(report.Opening)
	job.Session.Packs = true
	var before *begun[*history]
	look := func(ctx context.Context) {
		if before == nil {
			before = begin(ctx, func(ctx context.Context) (*history, error) { return job.history(ctx, r) })
		}
	}
	defer func() {
		if before != nil {
			before.end() // r is in use until then
		}
	}()
	if job.Session.DryRun || !store.Coherent(r.Store()) {
		look(ctx) // a session begins meanwhile, since both take several round trips to the target
	}
	out := &Outcome{Snapshot: job.Label.snapshot(start)}
	once := func(known *damage) error {
		return r.WithSession(ctx, job.Session, func(in context.Context, s *repo.Session) error {
			look(s.Early(ctx)) // else the session has listed the snapshots
			return job.run(in, r, s, before, out, l, known)
		})
	}
	// A damaged parent must not prevent new backups. The next pass ignores the directory cache: it compares each
	// directory with the parent's tree, and reads the files where that tree cannot be read. Counts of earlier passes
	// stay.
	known := &damage{}
	for pass := 1; ; pass++ {
		err := once(known)
		if err == nil {
			return out, nil
		}
		if pass == passes || !known.add(err) {
			return nil, err
		}
		l.Note("", "compare", err)
	}
}

// history is what is known of earlier backups when a backup begins.
type history struct {
	listed []repo.Listed // all snapshots
	named  *repo.Listed  // the parent that the user chose, or nil
	first  bool          // a source is in no snapshot of this host
	former string        // the host whose snapshots this one takes over; "": none
}

// history reads the snapshots. Which of them a backup may rely on is asked for once its session has begun.
func (job *Job) history(ctx context.Context, r *repo.Repository) (*history, error) {
	listed, err := r.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	r.ReportMissing(ctx, listed)
	named, err := job.namedParent(ctx, r)
	former := ""
	if err == nil && named == nil {
		listed, former, err = job.takeOver(ctx, r, listed)
	}
	return &history{listed, named, job.first(listed), former}, err
}

// damaged returns the snapshots that cannot be read.
func (h *history) damaged() (ids []format.ID) {
	for i := range h.listed {
		if object.IsDamage(h.listed[i].Err) {
			ids = append(ids, h.listed[i].ID)
		}
	}
	return ids
}

// begun is work under way beside the backup.
type begun[T any] struct {
	cancel context.CancelFunc
	done   chan struct{}
	value  T     // set once done is closed
	err    error // set once done is closed
}

// begin starts do.
func begin[T any](ctx context.Context, do func(context.Context) (T, error)) *begun[T] {
	b := &begun[T]{done: make(chan struct{})}
	ctx, b.cancel = context.WithCancel(ctx)
	go func() {
		defer close(b.done)
		b.value, b.err = do(ctx)
	}()
	return b
}

// result waits for the end of the work.
func (b *begun[T]) result() (T, error) {
	<-b.done
	return b.value, b.err
}

// end cancels the work and waits until it has ended.
func (b *begun[T]) end() {
	b.cancel()
	<-b.done
}

// Phases has the callbacks around the part of a backup that scans, reads and stores. Before and after that, a backup
// does a few operations that a user waits for.
type Phases struct {
	Begin func(first bool) // first: a source is in no snapshot of this host; nil: not called
	End   func()           // nil: not called
}

func (b Phases) begin(first bool) {
	if b.Begin != nil {
		b.Begin(first)
	}
}

func (b Phases) end() {
	if b.End != nil {
		b.End()
	}
}

func (job *Job) run(ctx context.Context, r *repo.Repository, s *repo.Session, before *begun[*history],
	out *Outcome, l *report.Ledger, known *damage,
) (err error) {
	lost := begin(ctx, s.LostPacks)
	defer lost.end()
	filter := begin(ctx, s.FilterParents)
	defer filter.end() // s is in use until then
	h, err := before.result()
	if err == nil {
		err = out.putBack(ctx, r, s, h, job.Session.DryRun)
	}
	if err == nil {
		err = known.exclude(ctx, s, lost)
	}
	if err != nil {
		return err
	}
	reliable, parents, err := job.parents(ctx, r, s, h, filter, known, l)
	if err != nil {
		return err
	}
	out.Snapshot.Parent, out.Former = parents.newest(), h.former
	cache, err := r.DirCache()
	if err != nil {
		return err
	}
	d := deps{repo: r, session: s, ledger: l, load: parents.load, sources: job.Label.Sources,
		differing: job.differing(cache), partial: job.checkpoints(r, s, h.listed, lost, l, out),
		growth: newGrowth(h.listed, out.Snapshot)}
	if job.Stdin == nil && !job.NoDirCache {
		d.cache, err = compare.OpenCache(r, withoutSuspects(s, reliable), known.evidence != nil, sysinfo.ThisBoot().ID, l)
		if err != nil {
			return err
		}
		defer d.cache.Discard()
	}
	job.Phases.begin(h.first)
	l.Phase(report.Scanning)
	found, err := job.walk(ctx, d, parents.Parent)
	if err == nil {
		err = reliedOn(lost, s)
	}
	if err != nil {
		return err
	}
	out.Sources = job.judge(found.found, h.listed, parents, l)
	out.Failed, out.Mended = l.Snapshot().Failures > 0, found.mended
	out.Same = parents.same(found, out.Snapshot)
	out.Unusual = d.growth.warning(l.Snapshot().Bytes.AfterDedup)
	l.Phase(report.Uploading)
	if err := s.Flush(ctx); err != nil {
		return err
	}
	sn := out.Snapshot
	sn.Tree, sn.End = found.tree, tree.TimeOf(time.Now())
	sn.Users, sn.Groups = found.users, found.groups
	sn.Held = make([]snapshot.Held, len(out.Sources))
	for i := range out.Sources {
		sn.Held[i] = out.Sources[i].Held
	}
	sn.Stats = stats(l.Snapshot())
	job.Phases.end()
	l.Phase(report.Saving)
	if job.SkipUnchanged && out.Same && !parents.Damaged { // a new snapshot records that it acknowledges the damage marks
		return nil
	}
	id, err := s.SaveLast(ctx, sn)
	if err != nil {
		return err
	}
	if !job.Session.DryRun {
		out.ID = id
		d.cache.Commit(id)
		if len(d.differing) > 0 {
			_ = cache.SetValue("differing "+job.cacheKey(), nil) // otherwise they are read once more
		}
		remove(ctx, r, out.superseded(h.listed), l)
	}
	return nil
}

// putBack repairs damaged snapshots from the copies that this machine has.
func (out *Outcome) putBack(ctx context.Context, r *repo.Repository, s *repo.Session, h *history, dry bool) error {
	out.Damaged = h.damaged()
	if dry {
		return nil
	}
	back, err := r.PutBack(ctx, s, h.listed)
	out.PutBack = append(out.PutBack, back...)
	out.Damaged = slices.DeleteFunc(out.Damaged, func(id format.ID) bool { return slices.Contains(back, id) })
	return err
}

func (job *Job) walk(ctx context.Context, d deps, parent Parent) (*result, error) {
	if job.Stdin != nil {
		return job.Stdin.run(ctx, d, job.Parallel)
	}
	return run(ctx, d, job.Source, job.Parallel, parent)
}

func (b *Label) snapshot(start time.Time) *snapshot.Snapshot {
	at := b.Time
	if at.IsZero() {
		at = start
	}
	return &snapshot.Snapshot{
		Time: tree.TimeOf(at), Start: tree.TimeOf(start), Host: b.Host, User: b.User, UID: b.UID, GID: b.GID,
		System: b.System, Program: b.Program, Sources: b.Sources, Domain: b.Domain, Tags: b.Tags, Rules: b.Rules,
		Description: b.Description, Job: b.Job, Setup: b.Setup,
	}
}

// stats are the numbers stored in the snapshot.
func stats(t report.Totals) snapshot.Stats {
	o, b := t.Objects, t.Bytes
	return snapshot.Stats{
		Content: snapshot.Content{Files: o.Files, Dirs: o.Dirs, Others: o.Others, Bytes: b.Inspected},
		Objects: snapshot.Objects{
			Inspected: o.Inspected, BackedUp: o.BackedUp, Updated: o.Updated, Unchanged: o.Unchanged, Rebound: o.Rebound,
			Expired: o.Expired, Failed: o.Failed, Grew: o.Grew, Retries: o.Retries, Excluded: o.Excluded,
			Changing: o.Changing,
		},
		Files: snapshot.Compared(t.Files), Dirs: snapshot.Compared(t.Dirs), Others: snapshot.Compared(t.Others),
		Bytes: snapshot.Bytes{
			Inspected: b.Inspected, Read: b.Read, BeforeDedup: b.BeforeDedup, AfterDedup: b.AfterDedup, Trees: b.Trees,
			Compressed: b.Compressed, Stored: b.Stored, Transferred: b.Transferred,
		},
	}
}
