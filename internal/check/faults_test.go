package check_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
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

// Whichever answer of the target has a changed bit, a check reports no damage and marks none.
func TestChangedAnswerIsNoDamage(t *testing.T) {
	testkit.Slow(t)
	st, _, _ := sample(t)
	for at := 1; ; at++ {
		plan := faultstore.Plan{At: at, Ops: faultstore.Get, Effect: faultstore.Corrupt}
		faulty := faultstore.Wrap(copyOf(t, st), plan)
		r, err := stored.Open(t, faulty)
		if err != nil {
			continue // it could not even be opened
		}
		res, err := check.Run(t.Context(), r, check.Options{ReadData: true, Parallel: 2, Record: "test"}, ledger())
		require.NoError(t, err, "answer %d", at)
		require.Empty(t, res.Problems, "answer %d", at)
		all, err := marks.All(t.Context(), faulty.Under(), r.Keys())
		require.NoError(t, err)
		require.Empty(t, all, "answer %d", at)
		if !faulty.Fired() {
			require.Greater(t, at, 50)
			return
		}
	}
}

// A pack that was marked by mistake is no longer marked after a check has read it back intact. Beside a prune, which
// may be about to remove it, the mark stays.
func TestMarksOfIntactPacksGo(t *testing.T) {
	st, _, _ := sample(t)
	r, err := stored.Open(t, st)
	require.NoError(t, err)
	var packs []format.ID
	var last store.Info
	for _, info := range files(t, st) {
		if info.Name.Kind == store.Pack {
			id, err := format.ParseID(info.Name.ID)
			require.NoError(t, err)
			packs, last = append(packs, id), info
		}
	}
	require.Greater(t, len(packs), 2)
	_, err = r.RecordDamage(t.Context(), "test", packs)
	require.NoError(t, err)
	intact := content(t, st, last)
	harmed := bytes.Clone(intact)
	harmed[len(harmed)/2] ^= 1
	require.NoError(t, st.Put(t.Context(), last.Name, harmed))
	marked := func() map[format.ID]bool {
		all, err := marks.All(t.Context(), st, r.Keys())
		require.NoError(t, err)
		return marks.DamagedPacks(all)
	}
	read := func(opt check.Options) *check.Result {
		opt.ReadData = true
		res, err := check.Run(t.Context(), r, opt, ledger())
		require.NoError(t, err)
		return res
	}
	for name, opt := range map[string]check.Options{"writes nothing": {}, "lagging": {Record: "test", Lagging: true}} {
		read(opt)
		require.Len(t, marked(), len(packs), name)
	}
	prune := repo.SessionOptions{Holder: session.Holder{Host: "other", Task: session.PruneTask}}
	require.NoError(t, r.WithSession(t.Context(), prune, func(context.Context, *repo.Session) error {
		read(check.Options{Record: "test"})
		return nil
	}))
	require.Len(t, marked(), len(packs), "beside a prune")

	require.False(t, read(check.Options{Record: "test"}).OK())
	require.Equal(t, map[format.ID]bool{packs[len(packs)-1]: true}, marked(), "what is damaged stays marked")
	require.NoError(t, st.Put(t.Context(), last.Name, intact))
	require.True(t, read(check.Options{Record: "test"}).OK())
	require.Empty(t, marked())
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

// TestDeniedAccessIsNotRecorded: packs that may not be read are problems, and no other machine stores them again.
func TestDeniedAccessIsNotRecorded(t *testing.T) {
	for _, kind := range []store.Kind{store.Pack, store.Index} {
		st, _, _ := sample(t)
		r, err := stored.Open(t, faultstore.Wrap(st, faultstore.Plan{
			At: 1, Ops: faultstore.Get, Kind: kind, Sticky: true, Err: store.ErrDenied,
		}))
		require.NoError(t, err)
		res, err := check.Run(t.Context(), r, check.Options{ReadData: true, Parallel: 2, Record: "test"}, ledger())
		require.NoError(t, err)
		require.False(t, res.OK())
		for info, err := range st.List(t.Context(), store.Mark) {
			require.NoError(t, err)
			require.Fail(t, "a mark", "%v: %s", kind, info.Name)
		}
	}
}
