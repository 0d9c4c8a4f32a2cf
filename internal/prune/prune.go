package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/repo/writerlock"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
)

const defaultParallel = 4

// Options configure a prune.
type Options struct {
	MaxUnused Limit
	Parallel  int           // directories and packs processed together; 0: 4
	Scratch   string        // folder for the temporary index, about 110 bytes for each blob; empty: the system's
	Settle    time.Duration // how old a listing of a mounted share may be; see Unbounded, Exclusive

	repo.SessionOptions // Ledger: of a report.Prune, which records the steps
}

// round is one pass of a prune. Where the disk is full, a prune needs several.
type round struct {
	index  string // folder for the temporary index
	atMost uint64 // bytes to repack; 0: any number
	tight  bool   // there is no space for index segments before packs are removed

	without []format.ID // snapshots that count as forgotten; only in a dry run
}

// pruner is one round under way.
type pruner struct {
	r   *repo.Repository
	s   *repo.Session
	opt Options
	res Result

	reader  *object.Segments
	round   *round
	alone   bool // no other prune was running when this one had announced itself
	revived map[format.ID]bool
	bad     map[format.ID]bool      // packs that do not hold what they are said to, and exist
	met     map[format.ID]time.Time // when this prune first saw each mark
	put     int                     // index segments that were written since the last survey
	index   int64                   // bytes of removed index segments, less the bytes of those that replace them
	first   *survey                 // what the second survey carries over; nil: nothing
}

// once runs one round, in a session of its own.
func once(ctx context.Context, r *repo.Repository, opt Options, in *round) (res *Result, begun bool, err error) {
	opt.Task = session.PruneTask
	if in.tight {
		opt.NoLock = true // the cache folder may be on the same disk
	}
	p := &pruner{
		r: r, opt: opt, reader: segmentReader(r), round: in,
		revived: make(map[format.ID]bool), bad: make(map[format.ID]bool), met: make(map[format.ID]time.Time),
	}
	err = r.WithSession(ctx, p.opt.SessionOptions, func(ctx context.Context, s *repo.Session) error {
		p.s = s
		return p.run(ctx)
	})
	if p.s != nil && !opt.DryRun {
		t := p.s.Totals()
		p.res.Written = Amount{Packs: t.Packs, Bytes: t.InPacks}
		p.res.Index = p.index - int64(t.Stored-t.InPacks)
		p.res.Freed = int64(p.res.Deleted.Bytes) - int64(p.res.Written.Bytes) + p.res.Index
	}
	return &p.res, p.s != nil, err
}

// run reads the tombstones beside the first survey, and removes the stale ones after all else: a prune that refuses
// removes nothing.
func (p *pruner) run(ctx context.Context) error {
	var stale []store.Name
	var read errgroup.Group
	if !p.opt.DryRun {
		read.Go(func() (err error) {
			stale, err = marks.StaleTombstones(ctx, p.r.Store(), p.r.Keys(), time.Now())
			return err
		})
	}
	err := p.pass(ctx)
	if failed := read.Wait(); err == nil {
		err = failed
	}
	if err == nil && len(stale) > 0 {
		err = p.removeAll(ctx, stale, func(int) {})
	}
	if err != nil || p.opt.DryRun {
		return err
	}
	if p.res.Damaged += uint64(len(p.bad)); p.res.Damaged > 0 {
		return fmt.Errorf("%s %w", human.Plural(p.res.Damaged, "pack"), ErrUnread)
	}
	return nil
}

// others returns the leases of other writers. Writers of this machine that were killed are not alive. For a backup this
// holds only where a snapshot that it sent cannot appear after its death; the model has a test of that. A prune sends
// no snapshot.
func (p *pruner) others(ctx context.Context) ([]session.Other, error) {
	others, err := p.s.Others(ctx)
	direct := store.EndsWithProcess(p.r.Store())
	for i := range others {
		o := &others[i]
		gone := o.Alive && writerlock.Ended(p.r.CacheFolder(), lease.WriterOf(o.Name.ID))
		if gone && (direct || o.Lease.Task == session.PruneTask) {
			o.Alive = false
		}
		o.Ended = gone
	}
	return others, err
}

// fenceTries is how often prune reads the leases again after a writer that it treats as dead has renewed its lease.
const fenceTries = 8

// writers returns the other writers, and fences off dead ones. The snapshots are listed next. A writer that is alive
// after all has therefore published before that listing, or meets the fence.
func (p *pruner) writers(ctx context.Context) ([]session.Other, error) {
	for range fenceTries {
		others, err := p.others(ctx)
		if err == nil && !p.alone {
			err = p.begin(ctx, others)
		}
		if err != nil || p.opt.DryRun {
			return others, err
		}
		if all, err := p.s.Fence(ctx, others); all || err != nil {
			return others, err
		}
	}
	return nil, ErrLively
}

// begin fails with ErrBusy if another prune is running.
func (p *pruner) begin(ctx context.Context, others []session.Other) error {
	if err := p.redate(ctx, others); err != nil {
		return err
	}
	if o := session.Pruning(others); o != nil {
		return fmt.Errorf("%w: process %d on %s, last heard of %s ago", ErrBusy, o.Lease.PID, o.Lease.Host,
			max(0, o.SinceRenewal).Round(time.Second))
	}
	return nil
}

// pass removes the packs of earlier marks, marks the packs that are not needed now, and removes these as well if every
// running writer acknowledges the new mark.
func (p *pruner) pass(ctx context.Context) error {
	v, err := p.surveyWithout(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = v.close() }() // only temporary files
	for i := range v.packs {
		p.res.Before.Add(v.packs[i].size)
	}
	if err := p.sweep(ctx, v); err != nil {
		return err
	}
	plan, err := p.plan(ctx, v)
	if err != nil {
		return err
	}
	if plan, err = p.withoutDoubted(ctx, v, plan); err != nil {
		return err
	}
	p.res.Unused, p.res.Postponed = plan.unused, p.res.Postponed || plan.postponed
	if p.opt.DryRun {
		p.forecast(v, plan)
		return nil
	}
	if len(plan.remove)+len(plan.repack)+len(p.bad) == 0 {
		return p.compact(ctx, v)
	}
	// If space runs out while packs are repacked, what nothing needs can be removed: its mark is there.
	if err := p.mark(ctx, v, plan.remove); err != nil {
		return err
	}
	repacked, err := p.repack(ctx, v, plan.repack)
	if err != nil {
		return err
	}
	if err := p.mark(ctx, v, repacked); err != nil {
		return err
	}
	p.first = v
	again, err := p.surveyWithout(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = again.close() }()
	if err := p.sweep(ctx, again); err != nil {
		return err
	}
	return p.compact(ctx, again)
}

// survey is the state of the repository at one moment. Every decision of a prune is based on one survey.
type survey struct {
	*places
	marks  []marks.Mark
	ripe   []marks.Mark    // those that every running writer acknowledges
	others []session.Other // the dead ones are fenced off
	listed []repo.Listed
}

// mostFalse is how many packs with false trees one survey marks. Each costs a walk.
const mostFalse = 16

// surveyWithout is survey, again for each pack that does not hold a tree that counts there: the pack is marked as
// damaged, and another copy counts, if there is one.
func (p *pruner) surveyWithout(ctx context.Context) (v *survey, err error) {
	for range mostFalse {
		var lost *repo.PackError
		if v, err = p.survey(ctx); !errors.As(err, &lost) || !object.IsDamage(lost.Err) || p.opt.DryRun {
			return v, err
		}
		n, markErr := p.r.RecordDamage(ctx, p.opt.Host, []format.ID{lost.Pack})
		if markErr != nil || n == 0 { // it was marked, and no other pack has the tree
			return nil, err
		}
		p.bad[lost.Pack] = true
		p.opt.Note(fmt.Sprintf("pack %s does not hold what it is said to, and is marked as damaged: %v", lost.Pack.Short(),
			lost.Err))
	}
	return v, err
}

// survey reads everything, in the order that the proof requires: the leases after the marks, the snapshots after the
// leases, the index after the snapshots that need it, the packs after the index that names them.
func (p *pruner) survey(ctx context.Context) (_ *survey, err error) {
	step := p.opt.Ledger.Step(report.Listing, report.Course{Unit: "snapshots"})
	v := &survey{}
	p.put = 0
	var damaged []marks.Unreadable
	if v.marks, damaged, err = marks.Read(ctx, p.r.Store(), p.r.Keys()); err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	if len(damaged) > 0 && p.alone {
		return nil, fmt.Errorf("read marks: %w", damaged[0].Why)
	}
	if err := p.letMarksSettle(ctx, v.marks); err != nil {
		return nil, err
	}
	if v.others, err = p.writers(ctx); err != nil {
		return nil, err
	}
	if err := p.s.DropDamagedMarks(ctx, damaged); err != nil {
		return nil, err
	}
	p.alone = true
	v.findRipe(p)
	if len(v.ripe) > 0 { // the listing must show every snapshot of a writer that has ended
		if err := p.wait(ctx, p.opt.Settle); err != nil {
			return nil, err
		}
	}
	if v.listed, err = p.r.Snapshots(ctx); err != nil {
		return nil, err
	}
	p.res.Snapshots = uint64(len(v.listed))
	step.Did(p.res.Snapshots, 0)
	if v.places, err = p.places(ctx, marks.UnusableBy(v.marks)); err != nil {
		return nil, indexError(err)
	}
	v.following()
	if err := p.reach(ctx, v); err != nil {
		return nil, errors.Join(p.suspects(v, err), v.close())
	}
	if err := p.missing(ctx, v); err != nil {
		return nil, errors.Join(err, v.close())
	}
	v.countLive()
	p.res.Pending = v.pending()
	return v, nil
}

// reach marks what the snapshots need. The ID of a snapshot determines which blobs those are, so the second survey
// follows only snapshots that the first one has not followed. What the first one reached is looked up in the index of
// the second. If something of it is in no pack, all snapshots are followed: only a forgotten one may have needed it.
func (p *pruner) reach(ctx context.Context, v *survey) error {
	listed := slices.DeleteFunc(slices.Clone(v.listed), func(l repo.Listed) bool {
		return slices.Contains(p.round.without, l.ID)
	})
	if p.first != nil {
		all, err := v.carry(p.first.places)
		if err != nil {
			return err
		}
		if all {
			listed = v.unlike(p.first.listed)
		}
		if err := p.forgetFirst(); err != nil {
			return err
		}
	}
	return v.follow(ctx, listed, p.opt.Parallel)
}

// unlike returns the listed snapshots that are not among the followed ones, and those that cannot be read any more.
func (v *survey) unlike(followed []repo.Listed) (listed []repo.Listed) {
	had := make(map[format.ID]bool, len(followed))
	for i := range followed {
		had[followed[i].ID] = true
	}
	for _, l := range v.listed {
		if l.Err != nil || !had[l.ID] {
			listed = append(listed, l)
		}
	}
	return listed
}

// forgetFirst releases the memory and the files of the first survey.
func (p *pruner) forgetFirst() error {
	v := p.first
	p.first, v.used = nil, nil
	return v.close()
}

// suspects adds to the error of missing data the snapshots that were published late. Another prune may have treated
// their writers as dead, and the writers may have died before they deleted the snapshots.
func (p *pruner) suspects(v *survey, err error) error {
	for i := range v.listed {
		if l := &v.listed[i]; errors.Is(err, ErrDamaged) && session.PublishedLate(l.Snapshot, l.Stored) {
			err = fmt.Errorf("%w; snapshot %s was published when its writer may have counted as dead, so it may lack what a "+
				"prune removed: 'tidemark forget %s' drops it", err, l.ID.Short(), l.ID.Short())
		}
	}
	return err
}

// indexError wraps the error of an index that cannot be read in ErrDamaged.
func indexError(err error) error {
	if object.IsDamage(err) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// findRipe finds the ripe marks: those that every running writer acknowledges. The prune itself is a running writer
// that does not acknowledge newer marks, but it relies on no pack.
func (v *survey) findRipe(p *pruner) {
	p.res.Waiting = nil
	for i := range v.marks {
		m := &v.marks[i]
		waits := false
		for j := range v.others {
			if o := &v.others[j]; o.Alive && !o.Acknowledges(m.ID) {
				waits = true
				p.waitFor(o)
			}
		}
		if !waits {
			v.ripe = append(v.ripe, *m)
		}
	}
}

func (p *pruner) waitFor(o *session.Other) {
	if !slices.ContainsFunc(p.res.Waiting, func(w session.Other) bool { return w.Name == o.Name }) {
		p.res.Waiting = append(p.res.Waiting, *o)
	}
}

// countLive counts how many blobs of each pack are needed.
func (v *survey) countLive() {
	for i := range v.packs {
		if s := &v.packs[i]; s.known {
			s.live = uint32(v.used.Count(s.base, s.blobs))
		}
	}
}

// pending returns the packs that are doomed and without live blobs.
func (v *survey) pending() (a Amount) {
	for i := range v.packs {
		if s := &v.packs[i]; s.doomed && s.live == 0 {
			a.Add(s.size)
		}
	}
	return a
}

// mark puts a mark that dooms packs. A later sweep removes them.
func (p *pruner) mark(ctx context.Context, v *survey, packs []planned) error {
	p.opt.Ledger.Phase(report.Marking)
	if len(packs) == 0 {
		return nil
	}
	if err := p.s.RenewOrFail(ctx); err != nil {
		return err
	}
	err := p.putMark(ctx, v, packs)
	for p.round.tight && errors.Is(err, store.ErrNoSpace) && len(packs) > 1 {
		packs, p.res.Postponed = packs[:len(packs)/2], true // the rest follows in the space of these
		err = p.putMark(ctx, v, packs)
	}
	for _, t := range packs {
		p.res.Marked.Add(t.size)
	}
	return err
}

func (p *pruner) putMark(ctx context.Context, v *survey, packs []planned) error {
	m := &mark.Mark{Created: time.Now().Unix(), Host: p.opt.Host}
	for _, t := range packs {
		m.Packs = append(m.Packs, t.id)
	}
	for i := range v.listed {
		m.Checked = append(m.Checked, v.listed[i].ID)
	}
	_, err := marks.Put(ctx, p.r.Store(), p.r.Keys(), m)
	return err
}

// redate stores leases that are dated in the future once more, so that they expire like others. The target dated them
// while its clock was wrong. The writer of such a lease, if it is running, soon renews it itself.
func (p *pruner) redate(ctx context.Context, others []session.Other) error {
	for i := range others {
		if p.opt.DryRun || others[i].Fenced || others[i].SinceRenewal > -session.LeaseExpiry {
			continue // a fence keeps no prune waiting
		}
		data, err := object.ReadFile(ctx, p.r.Store(), others[i].Name, -1)
		if err == nil {
			err = p.r.Store().Put(ctx, others[i].Name, data)
		}
		for _, older := range others[i].Older {
			if err == nil {
				err = p.r.Store().Delete(ctx, older)
			}
		}
		if err != nil && !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("give a lease of the future the time of now: %w", err)
		}
	}
	return nil
}
