package object

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// ahead returns how many index segments are read at the same time, if the largest has so many bytes: many small ones,
// since the latency of the target counts, and few large ones, since they are in memory.
func ahead(largest int64) int {
	return int(min(max(segmentBytes/max(largest, 1), leastAhead), mostAhead))
}

const (
	segmentBytes          = 16 << 20 // of all that are read ahead
	leastAhead, mostAhead = 2, 16
)

// InOrder loads n items, width of them concurrently, and passes them to use one by one in their order. At most width
// are in memory. load reports failures inside T if they concern that item only.
func InOrder[T any](ctx context.Context, n, width int, load func(context.Context, int) (T, error),
	use func(int, T) error,
) error {
	g, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, width)
	loaded := make([]chan T, n)
	for i := range loaded {
		loaded[i] = make(chan T, 1)
	}
	g.Go(func() error {
		for i := range n {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			g.Go(func() error {
				v, err := load(ctx, i)
				if err == nil {
					loaded[i] <- v
				}
				return err
			})
		}
		return nil
	})
	g.Go(func() error {
		for i := range n {
			select {
			case v := <-loaded[i]:
				if err := use(i, v); err != nil {
					return err
				}
				<-slots
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	return g.Wait()
}
