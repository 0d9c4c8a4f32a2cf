package target_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/target"
)

// refusing fails after some Puts.
type refusing struct {
	store.Store
	left chan struct{}
	err  error
}

func (r *refusing) Put(ctx context.Context, name store.Name, data []byte) error {
	select {
	case <-r.left:
		return r.Store.Put(ctx, name, data)
	default:
		return r.err
	}
}

// What was written into a store of any kind is deleted, also what was written before it failed.
func TestMeasureDeletesWhatItWrote(t *testing.T) {
	for _, puts := range []int{0, 1, 2, 100, 502} {
		st := &refusing{Store: mem.New(), left: make(chan struct{}, puts), err: errors.New("refused")}
		for range puts {
			st.left <- struct{}{}
		}
		speed, err := target.Measure(t.Context(), st, "somewhere")
		if puts == 502 {
			require.NoError(t, err)
			require.Equal(t, 500, speed.Small.Files)
		} else {
			require.ErrorIs(t, err, st.err)
		}
		for kind := range store.Kinds() {
			for info, err := range st.List(t.Context(), kind) {
				require.NoError(t, err)
				require.Fail(t, "left behind: "+info.Name.Path())
			}
		}
	}
}
