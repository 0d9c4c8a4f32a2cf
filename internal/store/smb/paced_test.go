package smb_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

// counted is a pacer of 10000 bytes that never sleeps.
type counted struct {
	moved [2]atomic.Int64
	most  atomic.Int64
}

func (c *counted) Piece(store.Direction) int { return 10_000 }

func (c *counted) Moved(_ context.Context, d store.Direction, n int) error {
	c.moved[d].Add(int64(n))
	for most := c.most.Load(); int64(n) > most && !c.most.CompareAndSwap(most, int64(n)); most = c.most.Load() {
	}
	return nil
}

// TestPaced requires that a share moves a file in the pieces of the pacer, and reports each: the file itself, and what
// is read back of it.
func TestPaced(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	st := create(t, target(s, ""), smb.Options{Protection: smb.Signed})
	data := storetest.Pattern(1<<20+1, 1)
	c := &counted{}
	require.NoError(t, st.Put(store.WithPacer(t.Context(), c), pack(1), data))
	require.EqualValues(t, len(data), c.moved[store.Upload].Load())
	require.EqualValues(t, store.ProvenEnd, c.moved[store.Download].Load())
	require.LessOrEqual(t, c.most.Load(), int64(1<<20), "the end of the file is read in one request")
	c = &counted{}
	got := make([]byte, len(data))
	require.NoError(t, st.Get(store.WithPacer(t.Context(), c), pack(1), 0, got))
	require.Equal(t, data, got)
	require.EqualValues(t, len(data), c.moved[store.Download].Load())
	require.EqualValues(t, 10_000, c.most.Load())
}
