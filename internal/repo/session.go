package repo

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

type (
	// Session is session.Session.
	Session = session.Session
	// SessionOptions are session.Options.
	SessionOptions = session.Options
)

// WithSession opens a session, calls fn and ends the session. It first updates the blob index.
func (r *Repository) WithSession(ctx context.Context, opt SessionOptions,
	fn func(context.Context, *Session) error,
) error {
	if err := r.index.Open(); err != nil {
		return err
	}
	x, end := r.index.Writer(ctx, opt.DryRun)
	defer end()
	to := session.Target{
		Store: r.st, Keys: r.keys, Index: x, Trees: r.trees, Folder: r.CacheFolder(), Copies: r.copies,
	}
	return session.Run(ctx, to, opt, fn)
}

// RetractDamage removes the marks of packs that were read back intact, and returns the number of packs that are no
// longer marked. It does so as a prune, so that no other one is at work: a prune removes marked packs that no snapshot
// needs, and without the mark a writer could rely on one of them. Beside a prune the marks stay.
func (r *Repository) RetractDamage(ctx context.Context, host string, intact []format.ID) (retracted int, err error) {
	opt := SessionOptions{Holder: session.Holder{Host: host, Task: session.PruneTask}}
	err = r.WithSession(ctx, opt, func(ctx context.Context, s *Session) error {
		retracted, err = s.RetractDamage(ctx, intact)
		return err
	})
	return retracted, err
}
