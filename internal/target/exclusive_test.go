package target_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/target"
)

// server is a store on a server that decides by its own rule who gets a new name.
type server struct {
	store.Store
	putNew func(st store.Store, name store.Name, data []byte) error
}

func (s server) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	if s.putNew != nil {
		return store.Info{}, s.putNew(s.Store, name, data)
	}
	return s.Store.PutNew(ctx, name, data)
}

func (server) Describe(context.Context) (store.Link, error) {
	return store.Link{Conditional: true}, nil
}

func (server) Close() error { return nil }

func (s server) Scratch(_ context.Context, use func(string, func(string) store.Store) error) error {
	return use("scratch", func(string) store.Store { return server{mem.New(), s.putNew} })
}

// TestOneOfManyGetsAName: a server that lets several writers create one file, or none, is degraded.
func TestOneOfManyGetsAName(t *testing.T) {
	for want, putNew := range map[string]func(store.Store, store.Name, []byte) error{
		"one succeeded, 4 times.": nil,
		", 32 succeeded.": func(st store.Store, name store.Name, data []byte) error {
			return st.Put(context.Background(), name, data)
		},
		", 0 succeeded.": func(store.Store, store.Name, []byte) error { return store.ErrExists },
	} {
		r, err := target.RunServer(t.Context(), server{mem.New(), putNew}, target.Options{})
		require.NoError(t, err)
		verdict := target.Degraded
		if putNew == nil {
			verdict = target.Good
		}
		found := false
		for _, p := range r.Probes {
			if p.Name == "exclusive" {
				found = true
				require.Contains(t, p.Evidence, want)
				require.Equal(t, verdict, p.Result)
			}
		}
		require.True(t, found, want)
	}
}
