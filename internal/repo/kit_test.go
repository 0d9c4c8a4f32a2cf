package repo_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Argon2id as cheap as it gets: the tests are not about the cost of a passphrase.
var quick = keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1}

func machineKey() repo.Secret {
	return repo.Secret{Method: keyfile.KeyFile, Value: bytes.Repeat([]byte{7}, 32)}
}

func passphrase(text string) repo.Secret {
	return repo.Secret{Method: keyfile.Passphrase, Value: []byte(text)}
}

func initialise(t *testing.T, st store.Store) *repo.Repository {
	t.Helper()
	r, _, err := repo.Init(t.Context(), st, repo.InitOptions{Secrets: []repo.Secret{machineKey()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// fresh opens the repository with an empty cache, as on another machine.
func fresh(t *testing.T, st store.Store) *repo.Repository {
	t.Helper()
	return openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey())})
}

func openWith(t *testing.T, st store.Store, opt repo.OpenOptions) *repo.Repository {
	t.Helper()
	r, err := repo.Open(t.Context(), st, opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// small makes packs and segments of a few blobs, so that little data makes many files.
func small() repo.SessionOptions {
	return repo.SessionOptions{
		Holder: session.Holder{Host: "host"},
		Tuning: session.Tuning{Frame: 2 << 10, DataPack: 8 << 10, TreePack: 1 << 10, Segment: 2},
	}
}

// blobs makes n blobs of up to 1 KiB, half of them compressible. The same seed makes the same blobs.
func blobs(seed uint64, n int) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([][]byte, n)
	for i := range out {
		b := make([]byte, 1+rng.IntN(1<<10))
		if i%2 == 0 {
			for j := range b {
				b[j] = byte(rng.Uint32())
			}
		} else {
			copy(b, bytes.Repeat(fmt.Appendf(nil, "%d.%d ", seed, i), len(b)))
		}
		out[i] = b
	}
	return out
}

// write stores the blobs with several workers, and a blob of trees that lists them.
func write(s *repo.Session, r *repo.Repository, data [][]byte) (root format.ID, err error) {
	const workers = 3
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		wg.Go(func() {
			part := data[i*len(data)/workers : (i+1)*len(data)/workers]
			errs[i] = put(s, r, pack.Data, part)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return root, err
		}
	}
	list := []byte("list\n")
	for _, b := range data {
		id := r.Keys().Hasher().ID(b)
		list = append(list, id[:]...)
	}
	return r.Keys().Hasher().ID(list), put(s, r, pack.Trees, [][]byte{list})
}

func put(s *repo.Session, r *repo.Repository, kind pack.Kind, data [][]byte) error {
	h, w := r.Keys().Hasher(), s.Writer(kind)
	ids, fresh := make([]format.ID, len(data)), make([]bool, len(data))
	for i, b := range data {
		ids[i] = h.ID(b)
	}
	if err := s.Claim(ids, fresh); err != nil {
		return err
	}
	for i, b := range data {
		if fresh[i] {
			if err := w.Add(ids[i], b); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// backUp stores the blobs and a snapshot of them.
func backUp(ctx context.Context, r *repo.Repository, opt repo.SessionOptions, data [][]byte) (id format.ID, err error) {
	err = r.WithSession(ctx, opt, func(ctx context.Context, s *repo.Session) error {
		root, err := write(s, r, data)
		if err != nil {
			return err
		}
		id, err = s.Save(ctx, snap(root, opt.Host, 1))
		return err
	})
	return id, err
}

func mustBackUp(t *testing.T, r *repo.Repository, data [][]byte) format.ID {
	t.Helper()
	id, err := backUp(t.Context(), r, small(), data)
	require.NoError(t, err)
	return id
}

func snap(root format.ID, host string, sec int64) *snapshot.Snapshot {
	return &snapshot.Snapshot{
		Time: tree.Time{Sec: sec}, Start: tree.Time{Sec: sec}, End: tree.Time{Sec: sec + 1}, Tree: root, Host: host,
		Sources: []string{"/data"}, Program: "test",
	}
}

// readBack loads everything a snapshot names.
func readBack(ctx context.Context, r *repo.Repository, id format.ID) ([][]byte, error) {
	l, err := r.FindSnapshot(ctx, id.String(), repo.Filter{})
	if err != nil {
		return nil, err
	}
	list, err := r.LoadBlob(ctx, l.Snapshot.Tree)
	if err != nil {
		return nil, err
	}
	list = list[len("list\n"):]
	var out [][]byte
	for ; len(list) > 0; list = list[format.IDSize:] {
		b, err := r.LoadBlob(ctx, format.ID(list[:format.IDSize]))
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func requireComplete(t *testing.T, r *repo.Repository, id format.ID, want [][]byte) {
	t.Helper()
	got, err := readBack(t.Context(), r, id)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// names lists the files of a kind.
func names(t *testing.T, st store.Store, kind store.Kind) []store.Name {
	t.Helper()
	var out []store.Name
	for info, err := range st.List(t.Context(), kind) {
		require.NoError(t, err)
		out = append(out, info.Name)
	}
	return out
}

func bytesOf(t *testing.T, st store.Store, name store.Name) []byte {
	t.Helper()
	info, err := st.Stat(t.Context(), name)
	require.NoError(t, err)
	p := make([]byte, info.Size)
	require.NoError(t, st.Get(t.Context(), name, 0, p))
	return p
}

// copyStore puts every file of one store into another.
func copyStore(t *testing.T, from, to store.Store) {
	t.Helper()
	for kind := range store.Kinds() {
		for _, name := range names(t, from, kind) {
			require.NoError(t, to.Put(t.Context(), name, bytesOf(t, from, name)))
		}
	}
}

// recorder notes every change of a store once it is done.
type recorder struct {
	store.Store
	mu   sync.Mutex
	puts []store.Name
	gone []store.Name
}

func (r *recorder) Put(ctx context.Context, name store.Name, data []byte) error {
	if err := r.Store.Put(ctx, name, data); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.puts = append(r.puts, name)
	return nil
}

func (r *recorder) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	info, err := r.Store.PutNew(ctx, name, data)
	if err != nil {
		return info, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.puts = append(r.puts, name)
	return info, nil
}

func (r *recorder) Delete(ctx context.Context, name store.Name) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = append(r.gone, name)
	return r.Store.Delete(ctx, name)
}
