package place_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// reads counts how often the config is read.
type reads struct {
	store.Store
	config int
}

func (r *reads) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Config {
		r.config++
	}
	return r.Store.Get(ctx, name, off, p)
}

// TestConfigIsReadOnce: keys of this machine and the slot that is tried first depend on the ID in the config. Opening
// reads it for these as well, since a share takes its time for each answer.
func TestConfigIsReadOnce(t *testing.T) {
	st := &reads{Store: mem.New()}
	_, _, err := repo.Init(t.Context(), st, repo.InitOptions{
		Secrets: []repo.Secret{{Method: keyfile.Passphrase, Value: []byte("p")}},
		Params:  keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1},
	})
	require.NoError(t, err)
	st.config = 0
	r, err := at(t, "--no-cache").OpenWith(t.Context(), st, &unlock.Sources{Keys: options.Keys{Password: "p"}})
	require.NoError(t, err)
	require.Equal(t, 1, st.config)
	require.NoError(t, r.Close())
}
