package repo

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

type (
	// Session is one writer's scope.
	Session = session.Session
	// FrameWriter gathers the blobs of one worker.
	FrameWriter = session.FrameWriter
	// SessionOptions are what a user or a verb may decide about a session.
	SessionOptions = session.Options
	// Holder is what the lease says of its writer.
	Holder = session.Holder
	// Observer is told what a session does.
	Observer = session.Observer
)

// WithSession opens a session, calls fn and ends the session. The blob index is brought up to date first.
func (r *Repository) WithSession(ctx context.Context, opt SessionOptions,
	fn func(context.Context, *Session) error,
) error {
	if _, err := r.Cache(); err != nil {
		return err
	}
	live := r.index.Live(ctx)
	target := session.Target{
		Store: r.st, Keys: r.keys, Index: live, Sync: r.Sync, Packs: r.index.Packs, Trees: r.trees.keep,
	}
	if opt.DryRun {
		dry := r.index.Aside()
		defer dry.Close()
		target.Index = overlay{known: live, added: dry}
		target.Sync = r.index.SyncLocal
	}
	return session.Run(ctx, target, opt, fn)
}

// overlay is the index of a dry run: what the repository holds, and on top what the run would have added. That part is
// in a file too, because memory must not grow with the amount of data.
type overlay struct{ known, added session.Index }

// addedPack marks numbers of packs that are in added.
const addedPack = 1 << 31

func (o overlay) Lookup(ids []format.ID, out []hashcache.Found) error {
	if err := o.known.Lookup(ids, out); err != nil {
		return err
	}
	var rest []format.ID
	var at []int
	for i := range ids {
		if !out[i].OK {
			rest = append(rest, ids[i])
			at = append(at, i)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	found := make([]hashcache.Found, len(rest))
	if err := o.added.Lookup(rest, found); err != nil {
		return err
	}
	for j, i := range at {
		if out[i] = found[j]; out[i].OK {
			out[i].Loc.Pack |= addedPack
		}
	}
	return nil
}

func (o overlay) Pack(n uint32) (hashcache.PackInfo, error) {
	if n&addedPack != 0 {
		return o.added.Pack(n &^ addedPack)
	}
	return o.known.Pack(n)
}

func (o overlay) Merge(id format.ID, seg *index.Segment) error { return o.added.Merge(id, seg) }
