package repo

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

// The wait for the config of another program that creates a repository in the same store.
const (
	concurrentKeys = 2 * time.Minute // at most between the times of two keys of programs that run concurrently
	longWait       = 8 * time.Second
	shortWait      = 2 * time.Second
	pollInterval   = 100 * time.Millisecond
)

// awaitTurn returns when the caller, which has stored the keys own, may store a config. Otherwise the config of one
// program would replace that of another, whose keys would then open nothing. Each program stores its keys before it
// lists those of others, so of two programs at least the later one finds the other's. A program that finds none stores
// a config at once. Of two that find each other, the one with the lowest key waits less. Keys may also be the remains
// of an interrupted program; then the wait ends without a config. The error wraps errTaken if there is a config.
func awaitTurn(ctx context.Context, st store.Store, own []format.ID, notify func(string)) error {
	for begin := time.Now(); ; {
		wait, err := othersWait(ctx, st, own)
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
		if err := store.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// othersWait returns how long to wait for the config of another program.
func othersWait(ctx context.Context, st store.Store, own []format.ID) (wait time.Duration, err error) {
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
		return !slices.ContainsFunc(ours,
			func(b store.Info) bool { return b.Modified.Sub(a.Modified).Abs() <= concurrentKeys })
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

// noConfig returns errTaken if there is a config.
func noConfig(ctx context.Context, st store.Store) error {
	_, err := st.Stat(ctx, store.Name{Kind: store.Config})
	switch {
	case err == nil:
		return errTaken
	case !errors.Is(err, store.ErrNotExist):
		return fmt.Errorf("look for a repository: %w", err)
	}
	return nil
}
