package check_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
)

// Whichever operation on the target fails, the check does not pass it over in silence. A listing
// that fails, or a target that is gone, is an error; what concerns one file is a problem with it.
func TestEveryOperationFails(t *testing.T) {
	testkit.Slow(t)
	st, _, _ := sample(t)
	for name, plan := range map[string]faultstore.Plan{
		"refused": {Ops: faultstore.Get | faultstore.List},
		"gone":    {Ops: faultstore.Get | faultstore.List, Sticky: true, Err: store.ErrGone},
	} {
		t.Run(name, func(t *testing.T) {
			for at := 1; ; at++ {
				plan.At = at
				faulty := faultstore.Wrap(st, plan)
				r, err := stored.Open(t, faulty)
				if err != nil {
					continue // it could not even be opened
				}
				res, err := check.Run(t.Context(), r, check.Options{ReadData: true, Parallel: 2}, ledger())
				if !faulty.Fired() {
					require.NoError(t, err)
					require.True(t, res.OK())
					require.Greater(t, at, 50)
					return
				}
				require.True(t, err != nil || !res.OK() || len(res.Notes) > 0, "operation %d", at)
				if plan.Sticky {
					require.ErrorIs(t, err, store.ErrGone, "operation %d", at)
				}
			}
		})
	}
}

func FuzzParseSubset(f *testing.F) {
	for _, text := range []string{"5%", "3/10", "500M", "", "1/0", "99999999999999999999T"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := check.ParseSubset(text)
		if err != nil {
			require.ErrorIs(t, err, check.ErrSubset)
			require.True(t, s.All(), "an error comes with the zero value")
			return
		}
		require.False(t, s.All())
		require.True(t, s.Of == 0 || s.Part >= 1 && s.Part <= s.Of)
		require.True(t, s.Percent >= 0 && s.Percent <= 100)
	})
}
