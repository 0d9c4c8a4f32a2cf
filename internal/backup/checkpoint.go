package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// The first backup of a source may take days. At checkpoints, what is stored so far is published as a partial snapshot.
// The walk and the readers go on; only what would store something waits:
//
//	pause ─► trees of the directories in work ─► frames, packs, index segment ─► partial snapshot ─► resume
//
// The tree of a directory in work has its finished subdirectories, those in work, and the entries whose content is
// stored. What is in memory when the pause begins is stored before the snapshot, so a slow target delays a checkpoint
// by the time that it takes for the buffers of a run.

// checkpoints publishes the partial snapshots of a run.
type checkpoints struct {
	job     *Job
	repo    *repo.Repository
	session *repo.Session
	lost    *lostPacks
	ledger  *report.Ledger
	out     *Outcome
	least   uint64    // files that an earlier run has published: a partial snapshot with less replaces nothing
	last    format.ID // tree of the last one
}

// checkpoints returns those of a run, nil if it has none.
func (job *Job) checkpoints(r *repo.Repository, s *repo.Session, listed []repo.Listed, lost *lostPacks,
	l *report.Ledger, out *Outcome,
) *checkpoints {
	if job.Checkpoint <= 0 || job.Session.DryRun || job.Stdin != nil || !job.first(listed) {
		return nil
	}
	c := &checkpoints{job: job, repo: r, session: s, lost: lost, ledger: l, out: out}
	for _, l := range listed {
		if job.of(l) && l.Snapshot.Partial {
			c.least = max(c.least, l.Snapshot.Stats.Content.Files)
		}
	}
	return c
}

// publish makes partial snapshots until all is read. The time between them grows by half each time: a checkpoint checks
// all packs of the run, and its trees of unfinished directories are not used for long.
func (c *checkpoints) publish(ctx context.Context, read <-chan struct{}, p *pipeline) error {
	for every := c.job.Checkpoint; ; {
		timer := time.NewTimer(every)
		select {
		case <-read:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		last := c.last
		if err := c.checkpoint(ctx, p); err != nil {
			return err
		}
		if c.last != last {
			every += every/2 + 1
		}
	}
}

// checkpoint publishes what is stored, unless that is no more than what the last partial snapshot has.
func (c *checkpoints) checkpoint(ctx context.Context, p *pipeline) error {
	p.save.Pause()
	defer p.save.Resume()
	root, held, each, err := p.soFar(ctx)
	if err != nil || held.Files == 0 || held.Files < c.least || root == c.last {
		return err
	}
	if err := reliedOn(c.lost, c.session); err != nil {
		return err
	}
	if err := p.save.Flush(); err != nil {
		return err
	}
	one, err := c.snapshot(ctx, root, held, each, &p.owners)
	if err != nil {
		return err
	}
	c.last = root
	remove(ctx, c.repo, c.out.partial, c.ledger)
	c.out.partial = []repo.Listed{one}
	return nil
}

// snapshot saves a partial snapshot.
func (c *checkpoints) snapshot(ctx context.Context, root format.ID, held amount, each []snapshot.Held, o *owners) (
	repo.Listed, error,
) {
	sn := *c.out.Snapshot
	sn.Partial, sn.Tree, sn.End, sn.Held = true, root, tree.TimeOf(time.Now()), each
	sn.Users, sn.Groups = o.names()
	sn.Stats = stats(c.ledger.Snapshot())
	sn.Stats.Content.Files, sn.Stats.Content.Others, sn.Stats.Content.Bytes = held.Files, 0, held.Bytes
	if c.job.Label.Time.IsZero() {
		sn.Time = sn.End
	}
	id, err := c.session.Save(ctx, &sn)
	if err != nil {
		return repo.Listed{}, err
	}
	c.ledger.Note("", "checkpoint", fmt.Errorf("partial snapshot %s saved: the backup goes on", id.Short()))
	return repo.Listed{ID: id, Snapshot: &sn}, nil
}

func (p *pipeline) partial() bool { return p.deps.partial != nil }

// soFar makes the tree of what is stored, and counts what it holds: of all, and of each source. It is called during a
// pause.
func (p *pipeline) soFar(ctx context.Context) (root format.ID, held amount, each []snapshot.Held, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.top == nil {
		return format.ID{}, amount{}, nil, nil
	}
	inWork := map[*place]amount{}
	root, held, err = p.top.soFar(ctx, inWork)
	each = make([]snapshot.Held, len(p.found))
	for i, at := range p.found {
		if a, ok := inWork[at]; ok {
			each[i].Count = a.Count
		} else if at != nil {
			each[i].Count = at.amount.Count
		}
	}
	return root, held, each, err
}

// soFar makes the tree of what is stored of a directory in work. It notes what that is for the places at and below it
// that are in work.
func (j *dirWork) soFar(ctx context.Context, inWork map[*place]amount) (root format.ID, held amount, err error) {
	s := &stored{finisher: finisher{ledger: j.flow.deps.ledger, work: j}, inWork: map[int]*child{}}
	slot := 0
	for i := range j.dir.Entries {
		if slot < len(j.dir.Subdirs) && int(j.dir.Subdirs[slot]) == i {
			c := &j.children[slot]
			slot++
			if c.work != nil && !c.work.gone {
				done := child{self: c.work.self, incomplete: c.work.compared.Incomplete}
				if done.tree, done.held, err = c.work.soFar(ctx, inWork); err != nil {
					return root, held, err
				}
				c, s.inWork[slot-1] = &done, &done
			}
			held.add(&c.held)
			if !c.tree.IsZero() {
				s.entries = append(s.entries, uint32(i))
			}
			continue
		}
		e, one := &j.dir.Entries[i], amount{}
		if j.compared.Reuses(i) || j.stored[i] && !j.reading.Results[i].Gone {
			s.entries = append(s.entries, uint32(i))
			if e.Type != tree.Dir {
				one.Files = 1
			}
			if e.Type == tree.File {
				one.Bytes = e.Size
			}
			held.add(&one)
		}
		if at := j.place.at(e.Name); at != nil {
			inWork[at] = one
		}
	}
	if j.place != nil {
		inWork[j.place] = held
	}
	old, err := j.compared.OldRoot()
	if err == nil {
		root, err = j.flow.save.TreeWhilePaused(ctx, j.flow.deps.load, old, s)
	}
	if err != nil {
		return root, held, j.treeError(err)
	}
	return root, held, nil
}

// stored are the entries of a directory in work that can be part of a partial snapshot. It changes nothing of the job,
// which counts when it is finished.
type stored struct {
	finisher
	entries []uint32       // ascending
	inWork  map[int]*child // by scan.Directory.Slot: subdirectories in work
}

// Name returns the name of entry k of those that are stored.
func (s *stored) Name(k int) (name string, ok bool) {
	if k == len(s.entries) {
		return "", false
	}
	return s.work.dir.Entries[s.entries[k]].Name, true
}

// Node makes the node of entry k of those that are stored.
func (s *stored) Node(k int, old, n *tree.Node) (keep bool, err error) {
	i, subdirs := s.entries[k], s.work.dir.Subdirs
	if err := s.describe(int(i), old, n); err != nil {
		return false, err
	}
	slot, isDir := slices.BinarySearch(subdirs, i)
	if !isDir {
		return true, nil
	}
	c := &s.work.children[slot]
	if c.work != nil {
		c = s.inWork[slot]
	}
	c.complete(n, s.work.compared.Reuses(int(i)))
	return true, nil
}

// Rejected drops the attributes of a node that are too large, and leaves out any other node.
func (s *stored) Rejected(n *tree.Node, _ error) (again bool) {
	again = n.Xattrs != nil
	n.Xattrs = nil
	return again
}

// superseded returns the partial snapshots that a new whole one and earlier ones supersede. What this run published
// itself is part of the new one, also if objects of it have failed.
func (out *Outcome) superseded(listed []repo.Listed) []repo.Listed {
	all := append(slices.Clone(listed), repo.Listed{ID: out.ID, Snapshot: out.Snapshot})
	return append(slices.DeleteFunc(slices.Clone(listed), func(l repo.Listed) bool {
		return l.Snapshot == nil || !l.Snapshot.Partial || !repo.Superseded(l.Snapshot, all)
	}), out.partial...)
}

// remove removes partial snapshots that a later one replaces. If that fails they stay: the backup itself is complete.
func remove(ctx context.Context, r *repo.Repository, list []repo.Listed, l *report.Ledger) {
	if err := r.Remove(ctx, list); err != nil {
		l.Note("", "remove partial snapshot", err)
	}
}
