package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/recall"
	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// Job is everything one backup is told.
type Job struct {
	Label    Label
	Source   Source
	Stdin    *Stdin // instead of Source: one file from a stream
	Parallel Parallel
	Parent   ParentChoice
	Session  repo.SessionOptions

	SkipUnchanged bool // save no snapshot when the tree is that of the parent
	NoMemory      bool // neither use nor keep directory signatures
}

// Label is what the snapshot is called by.
type Label struct {
	Host, User  string
	UID, GID    uint32
	Sources     []string // absolute paths, for people and for finding the parent
	Tags        []string
	Rules       []string
	Description string
	Time        time.Time // zero: the start of the run
	System      string
	Program     string
}

// ParentChoice says which snapshot to compare with.
type ParentChoice struct {
	Ref  string // ID prefix or "latest"; empty: the newest of the same host and sources
	None bool   // compare with nothing: read everything
	// Seen is told, before anything is read, whether this host has backed up these sources before; nil: nobody asks.
	Seen func(before bool)
}

// Outcome is what a backup made.
type Outcome struct {
	Snapshot *snapshot.Snapshot
	ID       format.ID // zero: none was saved
	Parent   format.ID
	Same     bool // the tree is the parent's
	Failed   bool // some objects could not be backed up
}

// Make makes one snapshot: it chooses the parent, runs the pipeline inside a session and saves.
func Make(ctx context.Context, r *repo.Repository, job Job, l *report.Ledger) (*Outcome, error) {
	start := time.Now()
	l.Phase(report.Opening)
	listed, err := r.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	parent, err := chooseParent(ctx, r, listed, job)
	if err != nil {
		return nil, err
	}
	if job.Parent.Seen != nil {
		job.Parent.Seen(slices.ContainsFunc(listed, job.of))
	}
	out := &Outcome{Snapshot: job.Label.snapshot(start)}
	if parent != nil {
		out.Parent, out.Snapshot.Parent = parent.ID, parent.ID
		stats := parent.Snapshot.Stats.Content
		l.Expect(stats.Files+stats.Dirs+stats.Others, stats.Bytes)
	}
	once := func(evidence error) error {
		return r.WithSession(ctx, job.Session, func(ctx context.Context, s *repo.Session) error {
			return job.run(ctx, r, s, listed, parent, out, l, evidence)
		})
	}
	if err = once(nil); errors.Is(err, errOldTree) {
		// A damaged parent must not keep new backups from being made. Again then, without what the cache vouches for:
		// every directory is compared with the parent's tree, and where that cannot be read, its files are. What the
		// first pass has counted stays counted.
		l.Note("", "compare", err)
		err = once(err)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (job *Job) run(ctx context.Context, r *repo.Repository, s *repo.Session, listed []repo.Listed, parent *repo.Listed,
	out *Outcome, l *report.Ledger, evidence error,
) (err error) {
	if listed, parent, err = job.rely(ctx, s, listed, parent, out, l); err != nil {
		return err
	}
	deps := Deps{Repo: r, Session: s, Ledger: l, Now: time.Now}
	var base Parent
	if parent != nil {
		base = Parent{ID: parent.ID, Tree: parent.Snapshot.Tree, Start: parent.Snapshot.Start, Damaged: evidence != nil}
	}
	if evidence != nil {
		distrust(s, evidence)
	}
	if !job.NoMemory && job.Stdin == nil {
		if deps.Memory, err = recall.Open(r, listed, evidence != nil, recall.ThisBoot(), l); err != nil {
			return err
		}
		defer deps.Memory.Discard()
	}
	l.Phase(report.Scanning)
	var result *Result
	if job.Stdin != nil {
		result, err = job.Stdin.run(ctx, deps, job.Parallel)
	} else {
		result, err = Run(ctx, deps, job.Source, job.Parallel, base)
	}
	if err != nil {
		return err
	}
	out.Failed = result.Failed
	out.Same = parent != nil && parent.Snapshot.Tree == result.Tree
	l.Phase(report.Uploading)
	if err := s.Flush(ctx); err != nil {
		return err
	}
	sn := out.Snapshot
	sn.Tree, sn.End = result.Tree, signature.Moment(time.Now())
	sn.Users, sn.Groups = result.Users, result.Groups
	sn.Stats = stats(l.Snapshot(), s.Totals())
	l.Phase(report.Saving)
	if job.SkipUnchanged && out.Same {
		return nil
	}
	id, err := s.Save(ctx, sn)
	if err != nil {
		return err
	}
	if !job.Session.DryRun {
		out.ID = id
		deps.Memory.Commit(id)
	}
	return nil
}

// rely leaves out the snapshots that the session may not take trees over from: what was listed before it began may have
// been forgotten since, and its packs removed; and of some it is not certain that they need nothing that a prune removes.
// If the parent is among them, another one takes its place.
func (job *Job) rely(ctx context.Context, s *repo.Session, listed []repo.Listed, parent *repo.Listed, out *Outcome,
	l *report.Ledger,
) ([]repo.Listed, *repo.Listed, error) {
	reliable, err := s.Reliable(ctx)
	if err != nil {
		return nil, nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(listed), func(one repo.Listed) bool {
		return one.Snapshot == nil || !reliable(one.ID, one.Snapshot)
	})
	if parent == nil || reliable(parent.ID, parent.Snapshot) {
		return rest, parent, nil
	}
	l.Note("", "compare", fmt.Errorf("snapshot %s was removed just now, or a prune has still to look at it", parent.ID.Short()))
	out.Parent, out.Snapshot.Parent = format.ID{}, format.ID{}
	if parent = job.newest(rest); parent != nil && job.Parent.Ref == "" {
		out.Parent, out.Snapshot.Parent = parent.ID, parent.ID
		return rest, parent, nil
	}
	return rest, nil, nil
}

// distrust keeps the session from relying on the pack that could not be read.
func distrust(s *repo.Session, err error) {
	var lost *repo.PackError
	if errors.As(err, &lost) {
		s.Distrust(lost.Pack)
	}
}

func (b *Label) snapshot(start time.Time) *snapshot.Snapshot {
	at := b.Time
	if at.IsZero() {
		at = start
	}
	return &snapshot.Snapshot{
		Time: signature.Moment(at), Start: signature.Moment(start), Host: b.Host, User: b.User, UID: b.UID, GID: b.GID,
		System: b.System, Program: b.Program, Sources: b.Sources, Tags: b.Tags, Rules: b.Rules,
		Description: b.Description,
	}
}

// chooseParent finds the snapshot to compare with: nil means none.
func chooseParent(ctx context.Context, r *repo.Repository, listed []repo.Listed, job Job) (*repo.Listed, error) {
	if job.Parent.None || job.Source.Comparing.Force || job.Stdin != nil {
		return nil, nil
	}
	if job.Parent.Ref != "" {
		found, err := r.FindSnapshot(ctx, job.Parent.Ref, repo.Filter{Hosts: []string{job.Label.Host}})
		if err != nil {
			return nil, fmt.Errorf("choose parent: %w", err)
		}
		return &found, nil
	}
	return job.newest(listed), nil
}

// newest returns the newest snapshot that is one of the job's, or nil.
func (job *Job) newest(listed []repo.Listed) *repo.Listed {
	for _, l := range slices.Backward(listed) {
		if job.of(l) {
			return &l
		}
	}
	return nil
}

// of reports whether a snapshot is one of the job's host and sources.
func (job *Job) of(l repo.Listed) bool {
	return l.Snapshot != nil && l.Snapshot.Host == job.Label.Host && sameSources(l.Snapshot.Sources, job.Label.Sources)
}

func sameSources(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// stats are the numbers kept in the snapshot.
func stats(t report.Totals, s session.Totals) snapshot.Stats {
	compared := func(c report.ComparedOf[uint64]) snapshot.Compared {
		return snapshot.Compared{New: c.New, Changed: c.Changed, Unmodified: c.Unmodified}
	}
	o, b := t.Objects, t.Bytes
	return snapshot.Stats{
		Content: snapshot.Content{Files: o.Files, Dirs: o.Dirs, Others: o.Others, Bytes: b.Inspected},
		Objects: snapshot.Objects{
			Inspected: o.Inspected, BackedUp: o.BackedUp, Updated: o.Updated, Unchanged: o.Unchanged, Rebound: o.Rebound,
			Expired: o.Expired, Failed: o.Failed, Grew: o.Grew, Retries: o.Retries, Excluded: o.Excluded,
			Changing: o.Changing,
		},
		Files: compared(t.Files), Dirs: compared(t.Dirs), Others: compared(t.Others),
		Bytes: snapshot.Bytes{
			Inspected: b.Inspected, Read: b.Read, BeforeDedup: b.BeforeDedup, AfterDedup: b.AfterDedup, Trees: b.Trees,
			Compressed: b.Compressed, Stored: b.Stored, Transferred: b.Transferred,
		},
	}
}
