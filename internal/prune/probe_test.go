package prune

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
)

// unfit is a target on which PutNew replaces what there is: files, fences or both; or Fence succeeds where a file is.
type unfit struct {
	store.Store
	files, fences, over bool
}

func (u *unfit) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	info, err := u.Stat(ctx, name)
	if err == nil && (info.Fence && u.fences || !info.Fence && u.files) {
		if err := u.Delete(ctx, name); err != nil {
			return store.Info{}, err
		}
	}
	return u.Store.PutNew(ctx, name, data)
}

func (u *unfit) Fence(ctx context.Context, name store.Name) error {
	if u.over {
		return nil
	}
	return u.Store.Fence(ctx, name)
}

// A target that gives a name twice, in any of the ways that matter, is found out, and the probe leaves nothing.
func TestProbeFindsOutAnUnfitTarget(t *testing.T) {
	for name, st := range map[string]*unfit{
		"fit":                       {},
		"replaces files":            {files: true},
		"replaces fences":           {fences: true},
		"fences where a file is":    {over: true},
		"has no exclusion whatever": {files: true, fences: true, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			st.Store = mem.New()
			err := probe(t.Context(), st)
			if name == "fit" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrUnfit)
			}
			for info := range st.List(t.Context(), store.Lease) {
				t.Errorf("%s is left", info.Name)
			}
		})
	}
}

// Whichever operation of the probe is refused or loses its answer: a lost answer is no proof, a full disk decides
// nothing, and nothing is taken for unfit.
func TestProbeOfATroubledTarget(t *testing.T) {
	for _, effect := range []faultstore.Effect{faultstore.Refuse, faultstore.Unsure} {
		for at := 1; at <= 7; at++ {
			full := faultstore.Plan{At: at, Effect: effect, Err: store.ErrNoSpace, Ops: faultstore.Put}
			require.NoError(t, probe(t.Context(), faultstore.Wrap(mem.New(), full)), "%v %d", effect, at)
			st := faultstore.Wrap(mem.New(), faultstore.Plan{At: at, Effect: effect})
			err := probe(t.Context(), st)
			require.True(t, st.Fired(), at)
			require.NotErrorIs(t, err, ErrUnfit)
			if effect == faultstore.Refuse || err != nil { // what is to be refused has no answer that could be lost
				require.ErrorIs(t, err, faultstore.ErrInjected, "%v %d", effect, at)
			}
		}
	}
}
