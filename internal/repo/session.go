package repo

import (
	"context"
	"time"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/repo/snapcache"
	"github.com/tidemark-backup/tidemark/internal/repo/writerlock"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

type (
	// Session is session.Session.
	Session = session.Session
	// FrameWriter is session.FrameWriter.
	FrameWriter = session.FrameWriter
	// SessionOptions are session.Options.
	SessionOptions = session.Options
	// Holder is session.Holder.
	Holder = session.Holder
	// SessionTotals is session.Totals.
	SessionTotals = session.Totals
	// Observer is session.Observer.
	Observer = session.Observer
)

// WithSession opens a session, calls fn and ends the session. It first updates the blob index.
func (r *Repository) WithSession(ctx context.Context, opt SessionOptions,
	fn func(context.Context, *Session) error,
) error {
	if err := r.index.Open(); err != nil {
		return err
	}
	live := r.index.Live(ctx)
	target := session.Target{
		Store: r.st, Keys: r.keys, Index: live, Packs: r.index.Packs, Trees: r.trees.keep,
	}
	target.Sync = func(ctx context.Context, marked map[format.ID]struct{}) error {
		err := r.index.SyncMarked(ctx, marked, opt.DryRun)
		if err == nil && !opt.DryRun && opt.Task != session.PruneTask {
			err = r.index.Adopt(ctx)
		}
		return err
	}
	target.PutBack = r.index.PutBack
	target.Killed = func(writer string) bool { return writerlock.Ended(r.CacheFolder(), writer) }
	begun := false
	target.Published = func(id format.ID, sealed []byte) {
		if folder := r.CacheFolder(); folder != "" {
			_ = snapcache.AddPublished(folder, id, time.Now()) // without it a lost snapshot is not noticed
		}
		r.copies.Put(id, sealed)
	}
	target.Unfinished = func() { begun = true; r.index.SetUnfinished(true) }
	if opt.DryRun {
		dry := r.index.Private()
		defer dry.Close()
		target.Index = overlay{known: live, added: dry}
	}
	var here *writerlock.Lock
	ended := false
	target.Ended = func() { ended = true }
	defer func() { here.Release(ended) }()
	if opt.Announce == nil {
		opt.Announce = func(lease string) { here = writerlock.Take(r.CacheFolder(), lease) }
	}
	err := session.Run(ctx, target, opt, fn)
	if err == nil && begun {
		r.index.SetUnfinished(false)
	}
	return err
}

// RetractDamage removes the marks of packs that were read back intact, and returns the number of packs that are no
// longer marked. It does so as a prune, so that no other one is at work: a prune removes marked packs that no snapshot
// needs, and without the mark a writer could rely on one of them. Beside a prune the marks stay.
func (r *Repository) RetractDamage(ctx context.Context, host string, intact []format.ID) (retracted int, err error) {
	opt := SessionOptions{Holder: Holder{Host: host, Task: session.PruneTask}}
	err = r.WithSession(ctx, opt, func(ctx context.Context, s *Session) error {
		retracted, err = s.RetractDamage(ctx, intact)
		return err
	})
	return retracted, err
}

// overlay is the index of a dry run: the blobs of the repository, and those that the run would have added. The added
// part also lies in a file, because memory must not grow with the amount of data.
type overlay struct{ known, added session.Index }

func (o overlay) Lookup(ids []format.ID, out []blobindex.Found) error {
	if err := o.known.Lookup(ids, out); err != nil {
		return err
	}
	_, err := blobindex.LookupRest(o.added, ids, out)
	return err
}

func (o overlay) Merge(id format.ID, seg *index.Segment) error { return o.added.Merge(id, seg) }
