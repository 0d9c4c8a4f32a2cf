package share

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// witness stands between the engine and a share. It counts, keeps account of what was acknowledged, has something
// happen at chosen moments, and looks at every index segment before it goes out: the packs that it names must be whole
// on the server's disk.
type witness struct {
	store.Store
	keys *seal.Keys
	disk string // the folder of the repository on the server, as this process reaches it; "": it cannot be looked at

	mu      sync.Mutex
	acked   map[store.Name]int // bytes of files that were reported as stored; leases come and go and are left out
	puts    int                // packs that were given to Put
	moment  int                // the number of the pack at which something happens; 0: none
	happens func()             // called once, by Put, before that pack goes out
	held    chan struct{}      // closed when packs may go out again; nil: they may
}

// hold keeps further packs from going out, until the function it returns is called. Those under way go on.
func (w *witness) hold() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := make(chan struct{})
	w.held = held
	return sync.OnceFunc(func() { close(held) })
}

// when has fn called at the n-th pack from now on.
func (w *witness) when(n int, fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moment, w.happens = w.puts+n, fn
}

func (w *witness) Put(ctx context.Context, name store.Name, data []byte) error {
	switch name.Kind {
	case store.Pack:
		w.mu.Lock()
		w.puts++
		var happens func()
		if w.moment > 0 && w.puts >= w.moment {
			happens, w.moment = w.happens, 0
		}
		w.mu.Unlock()
		if happens != nil {
			happens()
		}
		if err := w.wait(ctx); err != nil {
			return err
		}
	case store.Index:
		if err := w.lookAtSegment(data); err != nil {
			return err
		}
	}
	err := w.Store.Put(ctx, name, data)
	if err == nil && name.Kind != store.Lease && name.Kind != store.Mark {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.acked == nil {
			w.acked = map[store.Name]int{}
		}
		w.acked[name] = len(data)
	}
	return err
}

// VerifiesPut passes on whether the share reads back what it is given, so that the engine does not do it once more.
func (w *witness) VerifiesPut() bool {
	p, ok := w.Store.(interface{ VerifiesPut() bool })
	return ok && p.VerifiesPut()
}

// wait outlasts a hold.
func (w *witness) wait(ctx context.Context) error {
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errTornNamed fails a run that is about to name a torn pack.
var errTornNamed = errors.New("an index segment is about to name a pack that is not whole")

func (w *witness) lookAtSegment(data []byte) error {
	if w.keys == nil || w.disk == "" {
		return nil
	}
	plain, err := w.keys.OpenObject(seal.IndexObject, data)
	if err != nil {
		return err
	}
	seg, err := index.Decode(plain)
	if err != nil {
		return err
	}
	for _, p := range seg.Packs {
		name := object.Named(store.Pack, p.ID)
		there, err := os.ReadFile(filepath.Join(w.disk, filepath.FromSlash(name.Path())))
		if err != nil {
			return fmt.Errorf("%w: %w", errTornNamed, err)
		}
		if pack.ID(there) != p.ID || uint64(len(there)) != p.Size {
			return fmt.Errorf("%w: %s", errTornNamed, name.Path())
		}
	}
	return nil
}

// promises is how many files of a kind were acknowledged, and their bytes.
func (w *witness) promises(kind store.Kind) (files, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, size := range w.acked {
		if name.Kind == kind {
			files, bytes = files+1, bytes+size
		}
	}
	return files, bytes
}

// names are the files of a kind that were acknowledged.
func (w *witness) names(kind store.Kind) map[store.Name]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[store.Name]bool{}
	for name := range w.acked {
		if name.Kind == kind {
			all[name] = true
		}
	}
	return all
}

// requireKept requires that everything which was acknowledged is on the target, every byte.
func (w *witness) requireKept(t testing.TB, st store.Store) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NotEmpty(t, w.acked)
	for name, size := range w.acked {
		data := make([]byte, size)
		require.NoError(t, st.Get(context.Background(), name, 0, data), "acknowledged and lost: %s", name.Path())
		info, err := st.Stat(context.Background(), name)
		require.NoError(t, err)
		require.EqualValues(t, size, info.Size, "acknowledged and longer now: %s", name.Path())
		if name.Kind == store.Pack || name.Kind == store.Index || name.Kind == store.Snapshot {
			require.True(t, object.Names(name, sumOf(data)), "acknowledged and changed: %s", name.Path())
		}
	}
}

// segments reads every index segment.
func segments(t testing.TB, keys *seal.Keys, st store.Store) (all []*index.Segment) {
	t.Helper()
	for info, err := range st.List(context.Background(), store.Index) {
		require.NoError(t, err)
		plain, err := object.Load(context.Background(), st, keys, info.Name, info.Size)
		require.NoError(t, err)
		seg, err := index.Decode(plain)
		require.NoError(t, err)
		all = append(all, seg)
	}
	return all
}

// requireNamedWhole requires that every pack that an index names has the hash that is its name.
func requireNamedWhole(t testing.TB, keys *seal.Keys, st store.Store) {
	t.Helper()
	for _, seg := range segments(t, keys, st) {
		for _, p := range seg.Packs {
			_, err := object.ReadNamed(context.Background(), st, object.Named(store.Pack, p.ID), int64(p.Size))
			require.NoError(t, err)
		}
	}
}

// namedPacks are all packs that the index names.
func namedPacks(t testing.TB, keys *seal.Keys, st store.Store) (all []store.Name) {
	t.Helper()
	for _, seg := range segments(t, keys, st) {
		for _, p := range seg.Packs {
			all = append(all, object.Named(store.Pack, p.ID))
		}
	}
	return all
}

// blobs are all that the index names, and how often.
func blobs(t testing.TB, keys *seal.Keys, st store.Store) map[format.ID]int {
	t.Helper()
	all := map[format.ID]int{}
	packs := map[format.ID]bool{}
	for _, seg := range segments(t, keys, st) {
		for _, p := range seg.Packs {
			if packs[p.ID] {
				continue // named by two segments
			}
			packs[p.ID] = true
			for _, f := range p.Table.Frames {
				for _, b := range f.Blobs {
					all[b.ID]++
				}
			}
		}
	}
	return all
}

func sumOf(data []byte) *pack.Sum {
	s := pack.NewSum()
	_, _ = s.Write(data) // never fails
	return s
}
