// Package stored puts snapshots into a repository from a literal, without a source and without the pipeline of a
// backup. Tests of readers use it for content that no backup would write.
package stored

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// ChunkSize is the length of the chunks that contents are cut into.
const ChunkSize = 1 << 10

// Dir is a directory to be stored: each value is a Dir, a Mount, the content of a file, a Sparse, or a node, which is
// stored unchanged except for its name.
type Dir map[string]any

// Mount is a directory on which another file system is mounted.
type Mount Dir

// Sparse is a file of data ([]byte, a chunk each) and holes (int, a length).
type Sparse []any

// Secret opens the repositories of Init.
func Secret() repo.Secret {
	return repo.Secret{Method: keyfile.KeyFile, Value: bytes.Repeat([]byte{7}, 32)}
}

// Init makes a repository in st, and opens it until the test ends.
func Init(t testing.TB, st store.Store) *repo.Repository {
	t.Helper()
	r, _, err := repo.Init(t.Context(), st, repo.InitOptions{
		Secrets: []repo.Secret{Secret()},
		Open:    repo.OpenOptions{Cache: repo.CacheOptions{Temporary: true}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// Open opens a repository that may be damaged, until the test ends.
func Open(t testing.TB, st store.Store) (*repo.Repository, error) {
	t.Helper()
	r, err := repo.Open(t.Context(), st,
		repo.OpenOptions{Unlock: UnlockWith(Secret()), Cache: repo.CacheOptions{Temporary: true}})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, r.Close()) })
	}
	return r, err
}

// writer stores blobs, each once.
type writer struct {
	s    *repo.Session
	r    *repo.Repository
	outs map[pack.Kind]*session.FrameWriter
}

func (w *writer) put(kind pack.Kind, p []byte) (format.ID, error) {
	ids, fresh := []format.ID{w.r.Keys().Hasher().ID(p)}, make([]bool, 1)
	if err := w.s.Claim(ids, fresh); err != nil || !fresh[0] {
		return ids[0], err
	}
	if w.outs[kind] == nil {
		w.outs[kind] = w.s.Writer(kind)
	}
	return ids[0], w.outs[kind].Add(ids[0], p)
}

func (w *writer) page(p []byte) (format.ID, error) { return w.put(pack.Trees, p) }

func (w *writer) file(name string, data []byte) (*tree.Node, error) {
	n := &tree.Node{Name: name, Type: tree.File, Mode: 0o644, Links: 1, Size: uint64(len(data))}
	if len(data) <= tree.MaxInline {
		n.Content.Inline = data
		return n, nil
	}
	var chunks []tree.Chunk
	for piece := range slices.Chunk(data, ChunkSize) {
		id, err := w.put(pack.Data, piece)
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, tree.Chunk{ID: id, Len: uint64(len(piece))})
	}
	var err error
	n.Content, err = w.content(chunks)
	return n, err
}

func (w *writer) content(chunks []tree.Chunk) (tree.Content, error) {
	b := tree.NewContentBuilder(w.page)
	for _, c := range chunks {
		if err := b.Add(c); err != nil {
			return tree.Content{}, err
		}
	}
	return b.Finish()
}

func (w *writer) sparse(name string, s Sparse) (n *tree.Node, err error) {
	n = &tree.Node{Name: name, Type: tree.File, Mode: 0o644, Links: 1}
	var chunks []tree.Chunk
	for _, piece := range s {
		var c tree.Chunk
		switch v := piece.(type) {
		case int:
			c.Len = uint64(v)
		case []byte:
			c.Len = uint64(len(v))
			if c.ID, err = w.put(pack.Data, v); err != nil {
				return nil, err
			}
		}
		chunks = append(chunks, c)
		n.Size += c.Len
	}
	n.Content, err = w.content(chunks)
	return n, err
}

func (w *writer) dir(d Dir) (format.ID, error) {
	b := tree.NewBuilder(w.page)
	for _, name := range slices.Sorted(maps.Keys(d)) {
		n := &tree.Node{Name: name, Type: tree.Dir, Mode: 0o755, Links: 2}
		var err error
		switch v := d[name].(type) {
		case Dir:
			n.Subtree, err = w.dir(v)
		case []byte:
			n, err = w.file(name, v)
		case Sparse:
			n, err = w.sparse(name, v)
		case *tree.Node:
			n = v
			n.Name = name
		case Mount:
			n.Mount = true
			n.Subtree, err = w.dir(Dir(v))
		default:
			err = fmt.Errorf("%T", v)
		}
		if err == nil {
			err = b.Add(n)
		}
		if err != nil {
			return format.ID{}, err
		}
	}
	return b.Finish()
}

// Snapshot is a snapshot that Save has stored.
type Snapshot struct {
	ID   format.ID
	Tree format.ID // the first page of its root
}

// Save stores a snapshot of d, dated in seconds, in packs so small that there are many.
func Save(t testing.TB, r *repo.Repository, at int64, d Dir) (saved Snapshot) {
	t.Helper()
	opt := repo.SessionOptions{Holder: session.Holder{Host: "host"}, Tuning: session.Tuning{
		Frame: 2 << 10, DataPack: 8 << 10, TreePack: 2 << 10, Segment: 3,
	}}
	err := r.WithSession(t.Context(), opt, func(ctx context.Context, s *repo.Session) error {
		w := &writer{s: s, r: r, outs: map[pack.Kind]*session.FrameWriter{}}
		var err error
		saved.Tree, err = w.dir(d)
		if err != nil {
			return err
		}
		for _, out := range w.outs {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		saved.ID, err = s.Save(ctx, &snapshot.Snapshot{Time: tree.Time{Sec: at}, Tree: saved.Tree, Host: "host"})
		return err
	})
	require.NoError(t, err)
	return saved
}

// Noise is incompressible content; the same seed yields the same content.
func Noise(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 3))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

// UnlockWith tries on each slot the first secret of the slot's method.
func UnlockWith(secrets ...repo.Secret) func(*keyfile.Slot) ([]byte, error) {
	return func(s *keyfile.Slot) ([]byte, error) {
		for _, secret := range secrets {
			if secret.Method == s.Method {
				return secret.Value, nil
			}
		}
		return nil, nil
	}
}
