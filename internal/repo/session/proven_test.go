package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/meter"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// proving is a store that proves its files.
type proving struct{ store.Store }

func (proving) VerifiesPut() bool { return true }

// TestNothingIsProvenTwice: a session does not verify what the store has proven, unless the store has verified less
// than needed. Whether that pack still exists when a segment names it is a separate check.
func TestNothingIsProvenTwice(t *testing.T) {
	for name, c := range map[string]struct {
		under store.Store
		blobs int
		asked bool
	}{
		"proves":          {proving{mem.New()}, 1, false},
		"does not":        {mem.New(), 1, true},
		"a large trailer": {proving{mem.New()}, 4000, true},
	} {
		t.Run(name, func(t *testing.T) {
			var count meter.Counters
			to, _ := target(t, meter.Wrap(c.under, count.Observe))
			var before, after uint64
			err := Run(t.Context(), to, Options{}, func(ctx context.Context, s *Session) error {
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
