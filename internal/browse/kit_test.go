package browse_test

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
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const chunkSize = 1 << 10

// dir is a directory to be stored: each value is a dir, the content of a file, or a node.
type dir map[string]any

// mount is a directory on which another file system is mounted.
type mount dir

func secret() repo.Secret {
	return repo.Secret{Method: keyfile.KeyFile, Value: bytes.Repeat([]byte{7}, 32)}
}

func initialise(t *testing.T) *repo.Repository {
	t.Helper()
	r, _, err := repo.Init(t.Context(), mem.New(), repo.InitOptions{
		Secrets: []repo.Secret{secret()},
		Chunker: config.Chunker{Algorithm: 1, Min: 16 << 10, Avg: 64 << 10, Max: 256 << 10},
		Open:    repo.OpenOptions{NoCache: true},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// writer stores blobs, each once.
type writer struct {
	s    *repo.Session
	r    *repo.Repository
	outs map[pack.Kind]*repo.FrameWriter
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
	for piece := range slices.Chunk(data, chunkSize) {
		id, err := w.put(pack.Data, piece)
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, tree.Chunk{ID: id, Len: uint64(len(piece))})
	}
	var err error
	n.Content, err = tree.PackContent(chunks, w.page)
	return n, err
}

func (w *writer) dir(d dir) (format.ID, error) {
	b := tree.NewBuilder(w.page)
	for _, name := range slices.Sorted(maps.Keys(d)) {
		n := &tree.Node{Name: name, Type: tree.Dir, Mode: 0o755, Links: 2}
		var err error
		switch v := d[name].(type) {
		case dir:
			n.Subtree, err = w.dir(v)
		case []byte:
			n, err = w.file(name, v)
		case *tree.Node:
			n = v
			n.Name = name
		case mount:
			n.Mount = true
			n.Subtree, err = w.dir(dir(v))
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

// save stores a snapshot of d in packs so small that there are many, and returns the root page of its tree.
func save(t *testing.T, r *repo.Repository, d dir) (root format.ID) {
	t.Helper()
	opt := repo.SessionOptions{Holder: repo.Holder{Host: "host"}, Tuning: session.Tuning{
		Frame: 2 << 10, DataPack: 8 << 10, TreePack: 2 << 10, Segment: 3,
	}}
	err := r.WithSession(t.Context(), opt, func(ctx context.Context, s *repo.Session) error {
		w := &writer{s: s, r: r, outs: map[pack.Kind]*repo.FrameWriter{}}
		var err error
		root, err = w.dir(d)
		if err != nil {
			return err
		}
		for _, out := range w.outs {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		_, err = s.Save(ctx, &snapshot.Snapshot{Tree: root, Host: "host"})
		return err
	})
	require.NoError(t, err)
	return root
}

// noise is content that does not compress; the same seed gives the same.
func noise(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 3))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}
