package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/compare"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// The first backup of a source may take days. At checkpoints the walk is cut: no further directory of such a source is
// read, those in work are finished, and the tree so far is published as a partial snapshot. Then the walk begins again,
// with that snapshot as the parent of these sources, so that nothing is read or counted twice:
//
//	walk ─► due? finish the tree ─► partial snapshot ─► walk, compared with it ─► … ─► whole snapshot

// checkpoints are the moments of a run at which the walk is cut. The distance between them grows by half each time, so
// that walking again through what was done takes a bounded part of the whole.
type checkpoints struct {
	every time.Duration // to the next; 0: never
	due   time.Time
	cuts  int
}

func (job *Job) checkpoints() *checkpoints {
	every := job.Checkpoint
	if job.Session.DryRun {
		every = 0
	}
	return &checkpoints{every: every, due: time.Now().Add(every)}
}

// passed reports whether it is time to cut the walk.
func (c *checkpoints) passed() bool { return c.every > 0 && !time.Now().Before(c.due) }

func (c *checkpoints) next() {
	c.every += c.every/2 + 1
	c.due = time.Now().Add(c.every)
	c.cuts++
}

// walks are the walks of one session, each from a checkpoint to the next.
type walks struct {
	job      *Job
	d        deps
	out      *Outcome
	lost     *search
	known    *damage
	reliable []repo.Listed
	parents  *parents
}

// run walks until nothing is left out.
func (w *walks) run(ctx context.Context) (*result, error) {
	for {
		found, err := w.once(ctx)
		if err == nil {
			err = w.lost.found(w.d.session)
		}
		if err != nil || !found.cut {
			return found, err
		}
		if err := w.checkpoint(ctx, found); err != nil {
			return nil, err
		}
	}
}

func (w *walks) once(ctx context.Context) (*result, error) {
	job, d := w.job, &w.d
	d.load, d.since = w.parents.load, w.parents.since
	if job.Stdin != nil {
		return job.Stdin.run(ctx, *d, job.Parallel)
	}
	if !job.NoDirCache {
		var err error
		d.cache, err = compare.OpenCache(d.repo, withoutSuspects(d.session, w.reliable), w.known.evidence != nil,
			sysinfo.ThisBoot().ID, d.ledger)
		if err != nil {
			return nil, err
		}
	}
	return run(ctx, *d, job.Source, job.Parallel, w.parents.Parent)
}

// checkpoint publishes a partial snapshot, and makes it the parent of its sources. What the walk put into the directory
// cache is dropped: only what the whole snapshot contains may stay there.
func (w *walks) checkpoint(ctx context.Context, found *result) error {
	job, d := w.job, &w.d
	d.cache.Discard()
	d.cache = nil
	one, err := job.publish(ctx, d.session, found, w.out, w.parents, d.ledger)
	if err != nil {
		return err
	}
	remove(ctx, d.repo, w.out.partial, d.ledger)
	w.out.partial = []repo.Listed{one}
	w.parents = &parents{load: d.repo.LoadBlob, since: w.parents.since}
	reliable := append(slices.Clone(w.reliable), one)
	if err := job.chooseParents(ctx, d.repo, reliable, w.parents, w.known.evidence != nil, d.ledger); err != nil {
		return err
	}
	w.parents.Damaged = w.parents.damaged(d.session, w.known)
	d.due.next()
	d.ledger.Restart()
	return nil
}

// publish saves what a walk that was cut has found, as a partial snapshot.
func (job *Job) publish(ctx context.Context, s *repo.Session, found *result, out *Outcome, p *parents,
	l *report.Ledger,
) (repo.Listed, error) {
	if err := s.Flush(ctx); err != nil {
		return repo.Listed{}, err
	}
	sn := *out.Snapshot
	sn.Partial, sn.Tree, sn.Start, sn.End = true, found.tree, p.since, scan.Moment(time.Now())
	sn.Users, sn.Groups = found.users, found.groups
	sn.Stats = stats(l.Snapshot(), s.Totals())
	if job.Label.Time.IsZero() {
		sn.Time = sn.End
	}
	id, err := s.Save(ctx, &sn)
	if err != nil {
		return repo.Listed{}, err
	}
	l.Note("", "checkpoint", fmt.Errorf("partial snapshot %s saved: the backup goes on", id.Short()))
	return repo.Listed{ID: id, Snapshot: &sn}, nil
}

// superseded returns the partial snapshots whose sources are all among those of the job.
func (job *Job) superseded(listed []repo.Listed) (partial []repo.Listed) {
	for _, l := range listed {
		if l.Snapshot == nil || !l.Snapshot.Partial || l.Snapshot.Host != job.Label.Host {
			continue
		}
		covered := true
		for _, source := range l.Snapshot.Sources {
			covered = covered && has(job.Label.Sources, source)
		}
		if covered {
			partial = append(partial, l)
		}
	}
	return partial
}

// has reports whether a path is one of the sources, or lies below one.
func has(sources []string, path string) bool {
	for _, source := range sources {
		if path == source || strings.HasPrefix(path, strings.TrimSuffix(source, "/")+"/") {
			return true
		}
	}
	return false
}

// remove removes partial snapshots that a later one replaces. If that fails they stay: the backup itself is complete.
func remove(ctx context.Context, r *repo.Repository, list []repo.Listed, l *report.Ledger) {
	if len(list) == 0 {
		return
	}
	err := r.RecordForget(ctx, list)
	for i := 0; err == nil && i < len(list); i++ {
		err = r.Store().Delete(ctx, object.Named(store.Snapshot, list[i].ID))
	}
	if err != nil {
		l.Note("", "remove partial snapshot", err)
	}
}
