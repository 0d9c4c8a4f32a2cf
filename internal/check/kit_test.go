package check_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

type dir = stored.Dir

// sample is a repository with two snapshots that share most of what they hold.
func sample(t *testing.T) (st *mem.Store, old, new format.ID) {
	t.Helper()
	st = mem.New()
	r := stored.Init(t, st)
	photos := dir{"a.jpg": stored.Noise(1, 9000), "b.jpg": stored.Noise(2, 5000), "tiny": []byte("x")}
	many := dir{}
	for i := range 40 {
		many[fmt.Sprintf("f%03d", i)] = stored.Noise(100+uint64(i), 200)
	}
	home := dir{"photos": photos, "big.img": stored.Noise(3, 40*stored.ChunkSize), "many": many,
		"notes": stored.Noise(4, 700)}
	old = stored.Save(t, r, 1, dir{"home": home}).ID
	home["notes"] = stored.Noise(5, 800)
	new = stored.Save(t, r, 2, dir{"home": home}).ID
	return st, old, new
}

// ledger's clock stands still: nothing here is about time.
func ledger() *report.Ledger {
	return report.NewJob(report.Check, func() time.Time { return time.Unix(1, 0) })
}

// files lists every stored file.
func files(t *testing.T, st store.Store) (all []store.Info) {
	t.Helper()
	for kind := range store.Kinds() {
		for info, err := range st.List(t.Context(), kind) {
			require.NoError(t, err)
			all = append(all, info)
		}
	}
	return all
}

func content(t *testing.T, st store.Store, info store.Info) []byte {
	t.Helper()
	p := make([]byte, info.Size)
	require.NoError(t, st.Get(t.Context(), info.Name, 0, p))
	return p
}

// copyOf returns a store with the same files.
func copyOf(t *testing.T, st store.Store) *mem.Store {
	t.Helper()
	to := mem.New()
	for _, info := range files(t, st) {
		require.NoError(t, to.Put(t.Context(), info.Name, content(t, st, info)))
	}
	return to
}

// run checks st, which must open.
func run(t *testing.T, st store.Store, opt check.Options) *check.Result {
	t.Helper()
	r, err := stored.Open(t, st)
	require.NoError(t, err)
	opt.Parallel = 3
	res, err := check.Run(t.Context(), r, opt, ledger())
	require.NoError(t, err)
	return res
}
