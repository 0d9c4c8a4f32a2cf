package repo_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// The tools bound the number of open frames. A reader that waits for tools has already read what it will open.
func TestFrameReadersShareTools(t *testing.T) {
	const readers, open = 5, 2
	st := faultstore.Wrap(mem.New(), faultstore.Plan{})
	r := initialise(t, st)
	data := blobs(1, 10)
	mustBackUp(t, r, data)
	found := make([]index.Found, 1)
	require.NoError(t, r.Locate(t.Context(), []format.ID{r.Keys().Hasher().ID(data[0])}, found))
	loc := found[0].Loc
	info := *found[0].Pack
	spans := []repo.Span{{Offset: loc.Offset, Sealed: loc.Sealed}}

	synctest.Test(t, func(t *testing.T) {
		all := r.NewFrameReaders(readers, open)
		require.Len(t, all, readers)
		st.Reads()
		inside, ended := atomic.Int64{}, atomic.Int64{}
		leave := make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		for _, fr := range all {
			go func() {
				err := fr.Read(ctx, info, spans, func(_ int, raw []byte, _ []uint32, err error) error {
					require.NoError(t, err)
					require.NotEmpty(t, raw)
					inside.Add(1)
					defer inside.Add(-1)
					<-leave
					return nil
				})
				if err != nil {
					require.ErrorIs(t, err, context.Canceled)
				}
				ended.Add(1)
			}()
		}
		synctest.Wait()
		require.EqualValues(t, open, inside.Load())
		require.Equal(t, readers, st.Reads().Of(store.Pack))
		leave <- struct{}{}
		synctest.Wait()
		require.EqualValues(t, open, inside.Load(), "the next has them")
		require.EqualValues(t, 1, ended.Load())
		cancel(nil)
		synctest.Wait()
		require.EqualValues(t, readers-open, ended.Load(), "who waits for tools stops when it is called off")
		close(leave)
		synctest.Wait()
		require.EqualValues(t, readers, ended.Load())
	})
}
