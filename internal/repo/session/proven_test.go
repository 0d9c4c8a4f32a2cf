package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/store/meter"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// proving is a store that proves what it is given.
type proving struct{ store.Store }

func (proving) Proves() bool { return true }

// TestNothingIsProvenTwice: what a store has proven is not asked for again, unless everything is to be read back, or the
// store has looked at less than there is to prove. That a pack is still there when a segment names it is another question.
func TestNothingIsProvenTwice(t *testing.T) {
	for name, c := range map[string]struct {
		under store.Store
		opt   Options
		blobs int
		asked bool
	}{
		"proves":          {proving{mem.New()}, Options{}, 1, false},
		"does not":        {mem.New(), Options{}, 1, true},
		"every byte":      {proving{mem.New()}, Options{Verify: VerifyFull}, 1, true},
		"a large trailer": {proving{mem.New()}, Options{}, 4000, true},
	} {
		t.Run(name, func(t *testing.T) {
			var count meter.Counters
			to, _ := target(t, meter.Wrap(c.under, &count))
			var before, after uint64
			err := Run(t.Context(), to, c.opt, func(ctx context.Context, s *Session) error {
				before = count.Gets.Load() + count.Stats.Load()
				w := s.Writer(pack.Data)
				for i := range c.blobs {
					blob := []byte{byte(i), byte(i >> 8)}
					if err := w.Add(s.to.Keys.Hasher().ID(blob), blob); err != nil {
						return err
					}
				}
				if err := w.Flush(); err != nil {
					return err
				}
				err := s.Flush(ctx)
				after = count.Gets.Load() + count.Stats.Load()
				return err
			})
			require.NoError(t, err)
			require.Equal(t, c.asked, after > before+1, "but for one look at the pack before a segment names it")
		})
	}
}
