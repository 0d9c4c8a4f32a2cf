package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/prune/limit"
	"github.com/tidemark-backup/tidemark/internal/prune/tally"
	"github.com/tidemark-backup/tidemark/internal/prune/turn"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
)

const defaultParallel = 4

// Options says how a repository is pruned.
type Options struct {
	MaxUnused Limit
	DryRun    bool          // change nothing
	Parallel  int           // folders and packs looked at together; 0: 4
	Scratch   string        // folder for the temporary index, about 110 bytes for each blob; empty: the system's
	Settle    time.Duration // how old a listing of the target may be that other machines see: a mark must be older
	Session   repo.SessionOptions
	Ledger    *report.Ledger    // of a report.Prune, where its steps are booked; may be nil
	Note      func(text string) // told what a person should know that is no error; may be nil
}

// What a prune did, and how far it may leave room taken in vain, under the names that callers use.
type (
	// Amount is a number of packs and their bytes.
	Amount = tally.Amount
	// Result is what a prune did.
	Result = tally.Result
	// Limit is how much may stay taken in vain.
	Limit = limit.Limit
)

// ParseLimit reads 5%, 200M or unlimited.
func ParseLimit(text string) (Limit, error) { return limit.Parse(text) }

// pruner is one prune under way.
type pruner struct {
	r   *repo.Repository
	s   *repo.Session
	opt Options
	res Result

	turn     turn.Turn
	pardoned map[format.ID]bool
	index    int64 // bytes of index segments that were removed, less those that the prune has put in their place
}

// once does it once, with one session.
func once(ctx context.Context, r *repo.Repository, opt Options) (res *Result, begun bool, err error) {
	opt.Session.DryRun, opt.Session.Task = opt.DryRun, session.PruneTask
	p := &pruner{r: r, opt: opt, pardoned: make(map[format.ID]bool), turn: turn.Take(opt.Scratch)}
	defer p.turn.End()
	p.opt.Session.Announce = p.turn.Write
	err = r.WithSession(ctx, p.opt.Session, func(ctx context.Context, s *repo.Session) error {
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

func (p *pruner) run(ctx context.Context) error {
	others, err := p.others(ctx)
	if err == nil {
		err = p.redate(ctx, others)
	}
	if err != nil {
		return err
	}
	for _, o := range others {
		if o.Alive && o.Lease.Task == session.PruneTask {
			return fmt.Errorf("%w: process %d on %s, last heard of %s ago", ErrBusy, o.Lease.PID, o.Lease.Host,
				max(0, o.Quiet).Round(time.Second))
		}
	}
	if p.turn.Busy() {
		return ErrBusy
	}
	if err := p.s.DropDamagedMarks(ctx); err != nil {
		return err
	}
	if err := p.first(ctx); err != nil {
		return err
	}
	if p.opt.DryRun {
		return nil
	}
	if others, err = p.others(ctx); err != nil {
		return err
	}
	if err := p.clear(ctx, others); err != nil {
		return err
	}
	if p.res.Damaged > 0 {
		return fmt.Errorf("%s %w", human.Plural(p.res.Damaged, "pack"), ErrUnread)
	}
	return nil
}

// others returns the leases of other writers. A prune of this machine that was killed is known not to be alive.
func (p *pruner) others(ctx context.Context) ([]session.Other, error) {
	others, err := p.s.Others(ctx)
	for i := range others {
		if p.turn.Over(&others[i], p.opt.Session.Host) {
			others[i].Alive = false
		}
	}
	return others, err
}

// first removes what earlier marks condemned, condemns what is not needed now, and removes that as well if no writer is
// left that may come to need it.
func (p *pruner) first(ctx context.Context) error {
	v, err := p.survey(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = v.close() }() // temporary files, of which nothing is needed any more
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
	if p.opt.DryRun {
		return p.forecast(ctx, v, plan)
	}
	if len(plan) == 0 {
		return nil
	}
	if err := p.repack(ctx, v, plan); err != nil {
		return err
	}
	if err := p.mark(ctx, v, plan); err != nil {
		return err
	}
	if err := v.close(); err != nil {
		return err
	}
	again, err := p.survey(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = again.close() }()
	return p.sweep(ctx, again)
}

// survey is what a prune knows of the repository at a moment: all decisions are made from one.
type survey struct {
	*places
	marks  []marks.Mark
	ripe   []marks.Mark // of these, those that every writer heeds who is at work
	young  bool         // a mark is not older than the listings that others may have seen
	others []session.Other
	listed []repo.Listed

	held    map[format.ID]bool // of a dry run: packs that the sweep would not remove yet
	rewrite uint64             // estimate of the bytes that packs take in which the plan writes blobs anew
}

// survey looks at everything, in the order on which the proof rests: the writers after the marks, the snapshots after the
// writers, the index after the snapshots that need it, the packs after the index that names them.
func (p *pruner) survey(ctx context.Context) (_ *survey, err error) {
	step := p.opt.Ledger.Step(report.Listing, report.Course{Unit: "snapshots"})
	v := &survey{}
	if v.marks, err = marks.All(ctx, p.r.Store(), p.r.Keys()); err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	if v.others, err = p.others(ctx); err != nil {
		return nil, err
	}
	v.judge(p)
	if v.listed, err = p.r.Snapshots(ctx); err != nil {
		return nil, err
	}
	p.res.Snapshots = uint64(len(v.listed))
	step.Did(p.res.Snapshots, 0)
	if v.places, err = openPlaces(ctx, p.r, p.opt, marks.CondemnedBy(v.marks)); err != nil {
		return nil, whatIsWrong(err)
	}
	v.step = p.opt.Ledger.Step(report.Following, report.Course{Unit: "folders", Units: v.pages, Bytes: v.pageBytes})
	if err := v.follow(ctx, v.listed, p.opt.Parallel); err != nil {
		return nil, errors.Join(err, v.close())
	}
	v.weigh()
	p.res.Pending = v.pending()
	return v, nil
}

// whatIsWrong says of an index that cannot be read that the repository is damaged.
func whatIsWrong(err error) error {
	if object.IsDamage(err) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// judge finds out which marks are ripe: no writer is at work who has not said that it heeds the mark. The prune itself is
// such a writer of marks that came after it began, and relies on nothing.
func (v *survey) judge(p *pruner) {
	p.res.Waiting, p.res.Settling = nil, false
	for i := range v.marks {
		m := &v.marks[i]
		waits := false
		for j := range v.others {
			if o := &v.others[j]; o.Alive && !o.Heeds(m.ID) {
				waits = true
				p.waitFor(o)
			}
		}
		if p.opt.Settle > 0 && p.s.Now().Sub(m.Info.Modified) < p.opt.Settle {
			waits, v.young, p.res.Settling = true, true, true
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

// weigh counts how many blobs of each pack are needed.
func (v *survey) weigh() {
	for i := range v.packs {
		if s := &v.packs[i]; s.known {
			s.live = v.used.Count(s.base, s.blobs)
		}
	}
}

// pending is the packs that a mark condemns and nothing needs.
func (v *survey) pending() (a Amount) {
	for i := range v.packs {
		if s := &v.packs[i]; s.condemned && s.live == 0 {
			a.Add(s.size)
		}
	}
	return a
}

// mark condemns packs. From then on it is for later to remove them.
func (p *pruner) mark(ctx context.Context, v *survey, plan []int) error {
	p.opt.Ledger.Phase(report.Marking)
	m := &mark.Mark{Created: time.Now().Unix(), Host: p.opt.Session.Host}
	for _, i := range plan {
		if !v.packs[i].unread {
			m.Packs = append(m.Packs, v.packs[i].id)
			p.res.Condemned.Add(v.packs[i].size)
		}
	}
	for i := range v.listed {
		m.Looked = append(m.Looked, v.listed[i].ID)
	}
	if len(m.Packs) == 0 {
		return nil
	}
	if err := p.s.Hold(ctx); err != nil {
		return err
	}
	data, id, err := object.Seal(p.r.Keys(), store.Mark, mark.Encode(m))
	if err != nil {
		return fmt.Errorf("seal mark: %w", err)
	}
	if err := object.Put(ctx, p.r.Store(), object.Named(store.Mark, id), data, true); err != nil {
		return fmt.Errorf("put mark: %w", err)
	}
	return nil
}

// clear removes the leases of writers that were taken for dead: none of them can go on without noticing.
func (p *pruner) clear(ctx context.Context, others []session.Other) error {
	for i := range others {
		if others[i].Alive {
			continue
		}
		if err := p.r.Store().Delete(ctx, others[i].Name); err != nil && !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("remove the lease of a writer that is gone: %w", err)
		}
	}
	return nil
}

// redate writes leases of the future anew as they are, so that they have the time of now and end as others do: they were
// put when the clock of the target was wrong, and would not end until that time comes. Who has put one and is at work soon
// puts it again.
func (p *pruner) redate(ctx context.Context, others []session.Other) error {
	for i := range others {
		if p.opt.DryRun || others[i].Quiet > -session.LeaseExpiry {
			continue
		}
		data, err := object.ReadFile(ctx, p.r.Store(), others[i].Name, -1)
		if err == nil {
			err = p.r.Store().Put(ctx, others[i].Name, data)
		}
		if err != nil && !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("give a lease of the future the time of now: %w", err)
		}
	}
	return nil
}
