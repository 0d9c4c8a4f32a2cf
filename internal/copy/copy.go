// Package copy copies snapshots to a second repository. Files are not chunked again: the copy has the chunks of the
// source. Where both repositories have the same master key, blob IDs agree and blobs keep theirs. Where keys differ,
// each blob gets the ID under the second key, and the trees are written with the new IDs.
//
//	walk ─► wanted chunks ─► window of 32 Ki ─► frames of source packs ─► claim, store ─► new IDs, in walk order
//	walk again (keys differ) ─► trees with new IDs ─► snapshot, which names its original
//
// A snapshot is compared with an earlier one that was already copied: parts that are equal in the two sources are equal
// in the two copies, so they are neither read nor written. An interrupted run leaves blobs that the next run reuses.
package copy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const defaultParallel = 4

// Options configure a copy.
type Options struct {
	Snapshots []repo.Listed  // of the source
	New       bool           // leave out what was there, copied or not, when the newest copy was made
	Parallel  int            // packs of the source read concurrently; 0: 4
	Scratch   string         // folder for the temporary list of IDs, 32 bytes for each chunk; empty: the system's
	Each      func(Snapshot) // called after each snapshot; may be nil

	repo.SessionOptions // Ledger: of a report.Copy
}

// Snapshot is the outcome for one snapshot of the source. Copy is zero after a failure, and in a dry run. The caller
// sets DryRun, Original and Error.
type Snapshot struct {
	Source   repo.Listed `json:"-"`
	Err      error       `json:"-"` // the source is damaged
	DryRun   bool        `json:"dry_run,omitempty"`
	Copy     format.ID   `json:"snapshot_id,omitzero"` // ID of the copy
	Original format.ID   `json:"original"`             // source snapshot
	There    bool        `json:"already_copied"`       // true if copied earlier
	Error    string      `json:"error,omitempty"`      // data lost in the source; not copied
}

// Result is the outcome of a run.
type Result struct {
	Copied      uint64 `json:"snapshots_copied"`
	There       uint64 `json:"snapshots_skipped"` // copied earlier
	Failed      uint64 `json:"snapshots_failed"`
	SameKey     bool   `json:"same_key"`   // true if both share a master key
	Blobs       uint64 `json:"data_blobs"` // stored
	Trees       uint64 `json:"tree_blobs"`
	BlobBytes   uint64 `json:"data_added"`   // their bytes before compression
	BytesStored uint64 `json:"bytes_stored"` // growth of the repository
}

// copier is one run.
type copier struct {
	from, to *repo.Repository
	opt      Options
	res      Result
	sources  map[format.ID]repo.Listed // snapshots of the source
	copies   []repo.Listed             // snapshots of the destination
}

// Run copies snapshots, oldest first. The error wraps ErrFailed if some could not be read; all others are still copied.
func Run(ctx context.Context, from, to *repo.Repository, opt Options) (*Result, error) {
	if from.ID() == to.ID() {
		return &Result{}, ErrOne
	}
	if opt.Parallel <= 0 {
		opt.Parallel = defaultParallel
	}
	if opt.Ledger == nil {
		opt.Ledger = report.NewJob(report.Copy, time.Now)
	}
	if opt.Each == nil {
		opt.Each = func(Snapshot) {}
	}
	if opt.Note == nil {
		opt.Note = func(string) {}
	}
	c := &copier{from: from, to: to, opt: opt, sources: make(map[format.ID]repo.Listed)}
	probe := []byte("one key or two")
	c.res.SameKey = from.Keys().Hasher().ID(probe) == to.Keys().Hasher().ID(probe)
	if err := c.list(ctx); err != nil {
		return &c.res, err
	}
	chosen := slices.Clone(opt.Snapshots)
	if opt.New {
		chosen = slices.DeleteFunc(chosen, c.old)
	}
	slices.SortStableFunc(chosen, func(a, b repo.Listed) int { return a.Snapshot.Time.Compare(b.Snapshot.Time) })
	for _, s := range chosen {
		if err := c.one(ctx, s); err != nil {
			return &c.res, fmt.Errorf("copy snapshot %s: %w", s.ID.Short(), err)
		}
	}
	if c.res.Failed > 0 {
		return &c.res, fmt.Errorf("%d of %d snapshots %w", c.res.Failed, len(chosen), ErrFailed)
	}
	return &c.res, nil
}

func (c *copier) list(ctx context.Context) error {
	all, err := c.from.Snapshots(ctx)
	if err != nil {
		return fmt.Errorf("list the source: %w", err)
	}
	for _, s := range all {
		if s.Err == nil {
			c.sources[s.ID] = s
		}
	}
	if c.copies, err = c.to.Snapshots(ctx); err != nil {
		return fmt.Errorf("list the destination: %w", err)
	}
	c.copies = slices.DeleteFunc(c.copies, func(s repo.Listed) bool { return s.Err != nil })
	return nil
}

// old reports whether a snapshot is neither made nor stored after the newest copy of one of the same machine and
// sources. The destination may have forgotten it. Two clocks must be wrong for a new one to be taken for old.
func (c *copier) old(s repo.Listed) bool {
	var made tree.Time
	var stored time.Time
	found := false
	for _, d := range c.copies {
		if o := d.Snapshot; o.Original.IsZero() || o.Host != s.Snapshot.Host || !slices.Equal(o.Sources, s.Snapshot.Sources) {
			continue
		}
		if !found || d.Snapshot.Time.Compare(made) > 0 {
			made = d.Snapshot.Time
		}
		if d.Stored.After(stored) {
			stored = d.Stored
		}
		found = true
	}
	return found && s.Snapshot.Time.Compare(made) <= 0 && !c.sources[s.ID].Stored.After(stored)
}

// one copies a snapshot, unless the destination has it. Each has a session of its own: after a failure, no claim is
// left for the next.
func (c *copier) one(ctx context.Context, s repo.Listed) error {
	if id, there := c.there(s); there {
		c.res.There++
		c.opt.Each(Snapshot{Source: s, Copy: id, There: true})
		return nil
	}
	if c.opt.DryRun {
		c.res.Copied++
		c.opt.Each(Snapshot{Source: s})
		return nil
	}
	id, err := c.attempt(ctx, s, true)
	if errors.Is(err, errReference) && ctx.Err() == nil {
		c.opt.Note(fmt.Sprintf("snapshot %s is copied as a whole: %v", s.ID.Short(), err))
		id, err = c.attempt(ctx, s, false)
	}
	var of *sideError
	switch {
	case errors.As(err, &of) && of.source && ctx.Err() == nil:
		c.res.Failed++
		c.opt.Each(Snapshot{Source: s, Err: err})
		return nil
	case err != nil:
		return err
	}
	c.res.Copied++
	c.opt.Each(Snapshot{Source: s, Copy: id})
	return nil
}

// there returns the existing copy of a snapshot in the destination. That is a copy of it, a copy of its own original,
// or its original. One with other contents, since one of the two was rewritten, is none.
func (c *copier) there(s repo.Listed) (format.ID, bool) {
	for _, d := range c.copies {
		if d.Snapshot.Stats.Content != s.Snapshot.Stats.Content {
			continue
		}
		original := s.Snapshot.Original
		if d.Snapshot.Original == s.ID || !original.IsZero() && (d.ID == original || d.Snapshot.Original == original) {
			return d.ID, true
		}
	}
	return format.ID{}, false
}

// attempt copies a snapshot in a session. With compare it is compared with one that was copied before.
func (c *copier) attempt(ctx context.Context, s repo.Listed, compare bool) (id format.ID, err error) {
	content := s.Snapshot.Stats.Content
	step := c.opt.Ledger.Step(report.Copying, report.Course{Unit: "files", Units: content.Files, Bytes: content.Bytes})
	var added session.Totals
	err = c.to.WithSession(ctx, c.opt.SessionOptions, func(ctx context.Context, session *repo.Session) error {
		defer func() { added = session.Totals() }()
		t, err := c.transfer(session, step)
		if err != nil {
			return err
		}
		defer t.close()
		var earlier pair
		if compare {
			if earlier, err = c.earlier(ctx, session, s); err != nil {
				return err
			}
		}
		root, err := t.tree(ctx, s.Snapshot.Tree, earlier)
		if err != nil {
			return err
		}
		made := c.record(s, root)
		if id, err = session.Save(ctx, made); err == nil {
			c.copies = append(c.copies, repo.Listed{ID: id, Snapshot: made})
		}
		return err
	})
	c.res.Blobs, c.res.Trees = c.res.Blobs+added.DataBlobs, c.res.Trees+added.TreeBlobs
	c.res.BlobBytes, c.res.BytesStored = c.res.BlobBytes+added.DataRaw, c.res.BytesStored+added.Stored
	return id, err
}

// record returns the snapshot for the destination: that of the source, with another tree and the ID of its original.
func (c *copier) record(s repo.Listed, root format.ID) *snapshot.Snapshot {
	made := *s.Snapshot
	made.Tree, made.Original, made.Parent, made.Acknowledged = root, s.ID, format.ID{}, nil
	if parent, ok := c.sources[s.Snapshot.Parent]; ok {
		made.Parent, _ = c.there(parent)
	}
	return &made
}

// pair is a tree of the source and its copy; zero for none.
type pair struct{ from, to format.ID }

// earlier returns the trees of the most similar snapshot that was copied before: of the same machine, with the same
// sources if possible, and of those the nearest in time. None of its data was removed since, nor is about to be.
func (c *copier) earlier(ctx context.Context, session *repo.Session, s repo.Listed) (pair, error) {
	reliable, err := session.FilterParents(ctx)
	if err != nil {
		return pair{}, err
	}
	var best pair
	var alike bool
	var nearest uint64
	for _, d := range c.copies {
		source, ok := c.sources[d.Snapshot.Original]
		if !ok || source.Snapshot.Host != s.Snapshot.Host || !reliable(d.ID, d.Snapshot) {
			continue
		}
		same := slices.Equal(source.Snapshot.Sources, s.Snapshot.Sources)
		far := apart(source.Snapshot.Time, s.Snapshot.Time)
		if best == (pair{}) || same && !alike || same == alike && far < nearest {
			best, alike, nearest = pair{source.Snapshot.Tree, d.Snapshot.Tree}, same, far
		}
	}
	return best, nil
}

func apart(a, b tree.Time) uint64 {
	if a.Sec > b.Sec {
		a, b = b, a
	}
	return uint64(b.Sec) - uint64(a.Sec)
}
