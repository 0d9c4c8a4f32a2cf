// Package founding sees to it that of several programs that make a repository in the same place one does. It refuses to know
// what a key or a config is.
package founding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// How long a program that makes a repository waits for the config of another one.
const (
	lately    = 2 * time.Minute // between the times of two keys, if two programs may be at work at once
	longWait  = 8 * time.Second
	shortWait = 2 * time.Second
	patience  = 100 * time.Millisecond // from one look to the next
)

// Await returns when the caller, who has put the keys own, may put a config. The config of one program would take the place
// of another's, whose keys would open nothing. Each has put its keys when it looks for those of others, so that of two at
// least the later one sees the other's. Who sees some waits for a config. Who sees none puts one at once, and of two who see
// each other, the one with the least key after a shorter wait. Keys may also be what is left of a program that was cut off:
// then the wait is in vain. The error wraps ErrTaken if there is a config.
func Await(ctx context.Context, st store.Store, own []format.ID, notify func(string)) error {
	for begin := time.Now(); ; {
		wait, err := othersAtWork(ctx, st, own)
		if err != nil {
			return err
		}
		if err := noConfig(ctx, st); err != nil || time.Since(begin) >= wait {
			return err
		}
		if notify != nil {
			notify("another program has begun to make a repository here; waiting whether it does")
			notify = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(patience):
		}
	}
}

// othersAtWork returns for how long somebody else may be about to put a config.
func othersAtWork(ctx context.Context, st store.Store, own []format.ID) (wait time.Duration, err error) {
	var ours, theirs []store.Info
	for info, err := range st.List(ctx, store.Key) {
		if err != nil {
			return 0, fmt.Errorf("look for other keys: %w", err)
		}
		if slices.ContainsFunc(own, func(id format.ID) bool { return id.String() == info.Name.ID }) {
			ours = append(ours, info)
		} else {
			theirs = append(theirs, info)
		}
	}
	theirs = slices.DeleteFunc(theirs, func(a store.Info) bool {
		return !slices.ContainsFunc(ours, func(b store.Info) bool { return b.Modified.Sub(a.Modified).Abs() <= lately })
	})
	byName := func(a, b store.Info) int { return strings.Compare(a.Name.ID, b.Name.ID) }
	switch {
	case len(theirs) == 0:
		return 0, nil
	case byName(slices.MinFunc(theirs, byName), slices.MinFunc(ours, byName)) < 0:
		return longWait, nil
	}
	return shortWait, nil
}

// noConfig is ErrTaken if there is a config, or an error if that is not to be found out.
func noConfig(ctx context.Context, st store.Store) error {
	_, err := st.Stat(ctx, store.Name{Kind: store.Config})
	switch {
	case err == nil:
		return ErrTaken
	case !errors.Is(err, store.ErrNotExist):
		return fmt.Errorf("look for a repository: %w", err)
	}
	return nil
}
