package prune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
)

// Exclusive is the Settle of a prune beside which no other program uses the repository. It neither waits nor probes.
const Exclusive = time.Duration(-2)

// probe finds out whether the target gives a name to one of several programs, on which the fences of dead writers rest.
// A failure proves that it does not. A success proves nothing about a second gateway to the same files. A full disk
// decides nothing.
func probe(ctx context.Context, st store.Store) (err error) {
	var names [2]store.Name
	for i := range names {
		names[i] = store.Name{Kind: store.Lease, ID: lease.ProbeName()}
	}
	fenced, stored := names[0], names[1]
	defer func() {
		var both errgroup.Group // without a context: one that stays does not keep the other
		for _, name := range names {
			both.Go(func() error {
				if err := st.Delete(context.WithoutCancel(ctx), name); !errors.Is(err, store.ErrNotExist) {
					return err
				}
				return nil
			})
		}
		if failed := both.Wait(); err == nil && failed != nil {
			err = fmt.Errorf("remove the probe of the target: %w", failed)
		}
		if errors.Is(err, store.ErrNoSpace) {
			err = nil
		}
	}()
	data := []byte("probe")
	err = together(
		func() error { return st.Fence(ctx, fenced) },
		func() error { return putNew(ctx, st, stored, data) },
	)
	if err != nil && !errors.Is(err, store.ErrExists) { // an answer was lost, and the file is there
		return fmt.Errorf("probe the target: %w", err)
	}
	return together(
		func() error { return refused(putNew(ctx, st, fenced, data), store.ErrFenced) },
		func() error { return refused(putNew(ctx, st, stored, data), store.ErrExists) },
		func() error { return refused(st.Fence(ctx, stored), store.ErrExists) },
	)
}

func putNew(ctx context.Context, st store.Store, name store.Name, data []byte) error {
	_, err := st.PutNew(ctx, name, data)
	return err
}

// refused requires that a name was refused.
func refused(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	if err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrFenced) {
		return fmt.Errorf("probe the target: %w", err)
	}
	return ErrUnfit
}

func together(calls ...func() error) error {
	var all errgroup.Group // without a context: requests in flight finish
	for _, call := range calls {
		all.Go(call)
	}
	return all.Wait()
}
