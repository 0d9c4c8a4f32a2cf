package browse_test

import (
	"testing"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

type (
	dir   = stored.Dir
	mount = stored.Mount
	holed = stored.Sparse
)

func initialise(t *testing.T) *repo.Repository {
	t.Helper()
	return stored.Init(t, mem.New())
}

// save stores a snapshot of d and returns the root page of its tree.
func save(t *testing.T, r *repo.Repository, d dir) format.ID {
	t.Helper()
	return stored.Save(t, r, 0, d).Tree
}
