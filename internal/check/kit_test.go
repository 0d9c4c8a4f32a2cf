package check_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const chunkSize = 1 << 10

// dir is a directory to be stored: each value is a dir or the content of a file.
type dir map[string]any

func secret() repo.Secret {
	return repo.Secret{Method: keyfile.KeyFile, Value: bytes.Repeat([]byte{7}, 32)}
}

func initialise(t *testing.T, st store.Store) *repo.Repository {
	t.Helper()
	r, _, err := repo.Init(t.Context(), st, repo.InitOptions{
		Secrets: []repo.Secret{secret()},
		Chunker: config.Chunker{Algorithm: 1, Min: 16 << 10, Avg: 64 << 10, Max: 256 << 10},
		Open:    repo.OpenOptions{NoCache: true},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// open opens a repository that may be damaged.
func open(t *testing.T, st store.Store) (*repo.Repository, error) {
	t.Helper()
	r, err := repo.Open(t.Context(), st, repo.OpenOptions{Unlock: repo.UnlockWith(secret()), NoCache: true})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, r.Close()) })
	}
	return r, err
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

// save stores a snapshot of d in packs so small that there are many.
func save(t *testing.T, r *repo.Repository, at int64, d dir) (id format.ID) {
	t.Helper()
	opt := repo.SessionOptions{Holder: repo.Holder{Host: "host"}, Tuning: session.Tuning{
		Frame: 2 << 10, DataPack: 8 << 10, TreePack: 2 << 10, Segment: 3,
	}}
	err := r.WithSession(t.Context(), opt, func(ctx context.Context, s *repo.Session) error {
		w := &writer{s: s, r: r, outs: map[pack.Kind]*repo.FrameWriter{}}
		root, err := w.dir(d)
		if err != nil {
			return err
		}
		for _, out := range w.outs {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		id, err = s.Save(ctx, &snapshot.Snapshot{Time: tree.Time{Sec: at}, Tree: root, Host: "host"})
		return err
	})
	require.NoError(t, err)
	return id
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

// sample is a repository with two snapshots that share most of what they hold.
func sample(t *testing.T) (st *mem.Store, old, new format.ID) {
	t.Helper()
	st = mem.New()
	r := initialise(t, st)
	photos := dir{"a.jpg": noise(1, 9000), "b.jpg": noise(2, 5000), "tiny": []byte("x")}
	many := dir{}
	for i := range 40 {
		many[fmt.Sprintf("f%03d", i)] = noise(100+uint64(i), 200)
	}
	home := dir{"photos": photos, "big.img": noise(3, 40*chunkSize), "many": many, "notes": noise(4, 700)}
	old = save(t, r, 1, dir{"home": home})
	home["notes"] = noise(5, 800)
	new = save(t, r, 2, dir{"home": home})
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
	r, err := open(t, st)
	require.NoError(t, err)
	opt.Parallel = 3
	res, err := check.Run(t.Context(), r, opt, ledger())
	require.NoError(t, err)
	return res
}
