package place_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// TestConfigIsReadOnce: keys of this machine and the slot that is tried first depend on the ID in the config. Opening
// reads it for these as well, since a share takes its time for each answer.
func TestConfigIsReadOnce(t *testing.T) {
	st := faultstore.Wrap(mem.New(), faultstore.Plan{})
	_, _, err := repo.Init(t.Context(), st, repo.InitOptions{
		Secrets: []repo.Secret{{Method: keyfile.Passphrase, Value: []byte("p")}},
		Params:  keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1},
	})
	require.NoError(t, err)
	st.Reads()
	r, err := at(t, "--no-cache").OpenWith(t.Context(), st, &unlock.Sources{Keys: options.Keys{Password: "p"}})
	require.NoError(t, err)
	require.Equal(t, 1, st.Reads().Of(store.Config))
	require.NoError(t, r.Close())
}
