package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// behind makes a store in a new folder behind a gate of an SSD, for a client of policy p.
func behind(t *testing.T, p iopolicy.Policy) (*local.Store, *iopolicy.Gate) {
	t.Helper()
	gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	st, err := local.Create(filepath.Join(t.TempDir(), "repo"), gate.Pass(iopolicy.NewClient(p)))
	require.NoError(t, err)
	return st, gate
}

// foreground keeps the device of gate in use by I/O of tier 0 until the function it returns is called.
func foreground(t *testing.T, gate *iopolicy.Gate) (stop func()) {
	t.Helper()
	grant, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{})
	require.NoError(t, err)
	return func() { grant.End(0) }
}

func packName(digit string) store.Name {
	return store.Name{Kind: store.Pack, ID: strings.Repeat(digit, 63) + "0"}
}

func TestPutInsideAWindow(t *testing.T) {
	for _, c := range []struct {
		what   string
		name   store.Name
		size   int
		pieces uint64
	}{
		{"a pack: four pieces, a flush, a name", packName("a"), 512 << 10, 4 + 1 + 1},
		{"the last piece is shorter", packName("b"), 512<<10 - 1, 4 + 1 + 1},
		{"a larger pack: a flush after each four pieces", packName("c"), 1<<20 + 1, 9 + 2 + 1 + 1},
		{"a small file is written and flushed at once", store.Name{Kind: store.Snapshot, ID: "ab"}, 500, 1 + 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, gate := behind(t, iopolicy.Throttle)
				require.NoError(t, st.Put(t.Context(), c.name, []byte("makes the folders"))) // and looks for old temporary files
				time.Sleep(time.Minute)
				defer foreground(t, gate)()
				before, start := gate.Stats(), time.Now()
				data := make([]byte, c.size)
				data[c.size-1] = 1
				require.NoError(t, st.Put(t.Context(), c.name, data))
				after := gate.Stats()
				require.Equal(t, c.pieces, after.Charged-before.Charged)
				require.EqualValues(t, c.size, after.Moved.Written-before.Moved.Written)
				require.Equal(t, time.Duration(c.pieces-1)*25*time.Millisecond, time.Since(start), "one in each period")
				back := make([]byte, c.size)
				require.NoError(t, st.Get(t.Context(), c.name, 0, back))
				require.Equal(t, data, back)
			})
		})
	}
}

func TestGetInsideAWindow(t *testing.T) {
	st, gate := behind(t, iopolicy.Standard)
	data := make([]byte, 1<<20)
	data[999_999] = 3
	require.NoError(t, st.Put(t.Context(), packName("a"), data))
	for _, c := range []struct {
		stop func()
		want uint64
	}{{foreground(t, gate), 1 + 8}, {func() {}, 1 + 1}} {
		before := gate.Stats()
		back := make([]byte, len(data))
		require.NoError(t, st.Get(t.Context(), packName("a"), 0, back))
		require.Equal(t, data, back)
		require.Equal(t, c.want, gate.Stats().Operations-before.Operations, "opening, and reading")
		require.EqualValues(t, len(data), gate.Stats().Moved.Read-before.Moved.Read)
		c.stop()
		reopened, err := local.Open(st.Location(), gate.Pass(iopolicy.NewClient(iopolicy.Important)))
		require.NoError(t, err)
		st = reopened
	}
}

// operations are all methods of a store.
func operations(ctx context.Context, st *local.Store) map[string]func() error {
	list := func(kind store.Kind) func() error {
		return func() error {
			for _, err := range st.List(ctx, kind) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	return map[string]func() error{
		"put":         func() error { return st.Put(ctx, packName("c"), make([]byte, 100)) },
		"get":         func() error { return st.Get(ctx, packName("a"), 0, make([]byte, 10)) },
		"stat":        func() error { _, err := st.Stat(ctx, packName("a")); return err },
		"delete":      func() error { return st.Delete(ctx, packName("b")) },
		"delete key":  func() error { return st.Delete(ctx, store.Name{Kind: store.Key, ID: "ab"}) },
		"list packs":  list(store.Pack),
		"list keys":   list(store.Key),
		"list leases": list(store.Lease),
		"list config": list(store.Config),
	}
}

func filled(t *testing.T) (*local.Store, *iopolicy.Gate) {
	t.Helper()
	st, gate := behind(t, iopolicy.Throttle)
	for _, name := range []store.Name{
		packName("a"), packName("b"), {Kind: store.Key, ID: "ab"}, {Kind: store.Lease, ID: "ab"}, {Kind: store.Config},
	} {
		require.NoError(t, st.Put(t.Context(), name, make([]byte, 100)))
	}
	return st, gate
}

func TestEveryMethodPassesTheGate(t *testing.T) {
	for name := range operations(t.Context(), nil) {
		t.Run(name, func(t *testing.T) {
			st, gate := filled(t)
			before := gate.Stats().Operations
			require.NoError(t, operations(t.Context(), st)[name]())
			require.Greater(t, gate.Stats().Operations, before)
		})
	}
}

// A shut gate keeps every method waiting until ctx ends, and nothing happens to the files.
func TestAShutGateStopsEveryMethod(t *testing.T) {
	cause := errors.New("enough")
	for name := range operations(t.Context(), nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, gate := filled(t)
				files := tree(t, st.Location())
				gate.Shut()
				ctx, cancel := context.WithCancelCause(t.Context())
				failed := make(chan error, 1)
				go func() { failed <- operations(ctx, st)[name]() }()
				synctest.Wait()
				select {
				case err := <-failed:
					require.Fail(t, "it went through", "%v", err)
				default:
				}
				cancel(cause)
				err := <-failed
				require.ErrorIs(t, err, cause)
				require.NotErrorIs(t, err, store.ErrGone)
				require.NotErrorIs(t, err, store.ErrTemporary)
				require.Equal(t, files, tree(t, st.Location()))
			})
		})
	}
}

// A Put that is cancelled half way leaves no temporary file, though the gate lets nothing through.
func TestCalledOffPutLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, gate := filled(t)
		files := tree(t, st.Location())
		time.Sleep(time.Minute)
		defer foreground(t, gate)()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- st.Put(ctx, packName("d"), make([]byte, 16<<20)) }()
		time.Sleep(time.Second) // 40 pieces
		require.Len(t, tree(t, st.Location()), len(files)+2, "the temporary file and its folder")
		gate.Shut()
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		require.Len(t, tree(t, st.Location()), len(files)+1)
	})
}

// A run that sweeps spares the temporary file of a Put that is under way, however old that is.
func TestSweepSparesAPutUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, gate := filled(t)
		before := tree(t, st.Location())
		time.Sleep(time.Minute)
		end := foreground(t, gate)
		stored := make(chan error, 1)
		go func() { stored <- st.Put(t.Context(), packName("d"), make([]byte, 16<<20)) }()
		time.Sleep(time.Second) // 40 pieces
		swept := 0
		for _, p := range tree(t, st.Location()) {
			if !slices.Contains(before, p) && strings.Contains(p, store.TempPrefix) {
				at := filepath.Join(st.Location(), p)
				info, err := os.Stat(at)
				require.NoError(t, err)
				require.NoError(t, os.Chtimes(at, time.Time{}, info.ModTime().Add(-time.Hour)))
				swept++
			}
		}
		require.Equal(t, 1, swept)
		other, err := local.Open(st.Location(), nil)
		require.NoError(t, err)
		require.NoError(t, other.Put(t.Context(), packName("e"), []byte("x")))
		end()
		require.NoError(t, <-stored)
		require.NoError(t, st.Get(t.Context(), packName("d"), 16<<20-1, make([]byte, 1)))
	})
}
