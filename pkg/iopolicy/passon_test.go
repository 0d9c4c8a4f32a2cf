package iopolicy_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// TestUnusedSlotIsPassedOn: workers with cached results do not lower the rate of a worker that needs the device, and
// continue themselves.
func TestUnusedSlotIsPassedOn(t *testing.T) {
	for _, idlers := range []int{0, 1, 3, 7} {
		t.Run(fmt.Sprint(idlers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Medium: iopolicy.SSD})
				above, err := g.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{Certain: true})
				require.NoError(t, err)
				defer above.End(0)
				pass := g.Pass(iopolicy.NewClient(iopolicy.Throttle))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var wg sync.WaitGroup
				var cached atomic.Int64
				for range idlers {
					wg.Go(func() {
						for {
							grant, err := pass.Begin(ctx, iopolicy.Op{Kind: iopolicy.Metadata})
							if err != nil {
								return
							}
							grant.End(0)
							cached.Add(1)
							time.Sleep(200 * time.Microsecond)
						}
					})
				}
				reads := 0
				for {
					grant, err := pass.Begin(ctx, iopolicy.Op{Kind: iopolicy.Read, Certain: true})
					if err != nil {
						break
					}
					time.Sleep(100 * time.Microsecond)
					grant.End(4096)
					reads++
				}
				wg.Wait()
				require.InDelta(t, 400, reads, 60, "one in 25 ms, or some milliseconds more")
				require.EqualValues(t, reads, g.Stats().Charged)
				if idlers > 0 {
					require.Greater(t, cached.Load(), int64(reads))
				}
			})
		})
	}
}
