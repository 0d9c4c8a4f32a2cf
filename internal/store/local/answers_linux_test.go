package local_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func snapshot(i int) store.Name { return store.Name{Kind: store.Snapshot, ID: fmt.Sprintf("%064x", i)} }

// listed counts what a list yields, and calls at after each.
func listed(ctx context.Context, st store.Store, kind store.Kind, at func(n int)) (n int, err error) {
	for _, err := range st.List(ctx, kind) {
		if err != nil {
			return n, err
		}
		n++
		at(n)
	}
	return n, nil
}

// A disk that is taken away in the middle of a listing: what is no longer found was not removed.
func TestUnmountedWhileListing(t *testing.T) {
	const files = 1100 // more than two batches
	for _, kind := range []store.Kind{store.Snapshot, store.Pack} {
		for _, when := range []int{1, 300, 511, 512, 513, files - 1, files} {
			point := t.TempDir()
			testkit.MountMemory(t, point, "1m")
			gone := false
			leave := func() {
				if !gone {
					gone = true
					require.NoError(t, detach(point))
				}
			}
			t.Cleanup(leave)
			st := ready(t, point)
			require.NoError(t, st.Delete(t.Context(), pack(1)))
			for i := range files {
				name := snapshot(i)
				if name.Kind = kind; kind == store.Pack {
					name.ID = fmt.Sprintf("%02x%s", i%7, name.ID[2:])
				}
				path := filepath.Join(point, name.Path())
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, nil, 0o600))
			}
			n, err := listed(t.Context(), st, kind, func(n int) {
				if n == when {
					leave()
				}
			})
			require.ErrorIs(t, err, store.ErrGone, "%s: unmounted after %d, %d were listed", kind, when, n)
			require.NotErrorIs(t, err, store.ErrNotExist)
		}
	}
}

// hooked calls a function at every use of the context, which the store makes between any two system calls.
type hooked struct {
	context.Context
	hook func()
}

func (h *hooked) Err() error        { h.hook(); return h.Context.Err() }
func (h *hooked) Value(key any) any { h.hook(); return h.Context.Value(key) }

// The disk goes away at any moment of an operation, and comes back at any later one: what is not found meanwhile is not
// missing.
func TestTargetAwayForAMoment(t *testing.T) {
	testkit.Slow(t)
	for what, do := range map[string]func(ctx context.Context, st store.Store) (right bool, err error){
		"stat": func(ctx context.Context, st store.Store) (bool, error) {
			info, err := st.Stat(ctx, snapshot(1))
			return info.Size == 1, err
		},
		"get": func(ctx context.Context, st store.Store) (bool, error) {
			p := make([]byte, 1)
			err := st.Get(ctx, snapshot(1), 0, p)
			return p[0] == 'x', err
		},
		"list": func(ctx context.Context, st store.Store) (bool, error) {
			n, err := listed(ctx, st, store.Snapshot, func(int) {})
			return n == 10, err
		},
		"list packs": func(ctx context.Context, st store.Store) (bool, error) {
			n, err := listed(ctx, st, store.Pack, func(int) {})
			return n == 1, err
		},
	} {
		t.Run(what, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "repo")
			st, err := local.Create(root, nil)
			require.NoError(t, err)
			require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("config")))
			require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
			for i := range 10 {
				require.NoError(t, st.Put(t.Context(), snapshot(i), []byte("x")))
			}
			for from, came := 1, true; came; from++ {
				for until := from + 1; until < from+12; until++ {
					n, away := 0, false
					swap := func(now bool) {
						if now != away {
							away = now
							require.NoError(t, exchange(root, root+".else"))
						}
					}
					require.NoError(t, os.Mkdir(root+".else", 0o700))
					right, err := do(&hooked{t.Context(), func() {
						n++
						swap(n >= from && n < until)
					}}, st)
					swap(false)
					require.NoError(t, os.Remove(root+".else"), "something was put into the empty folder")
					if err == nil {
						require.True(t, right, "away from %d to %d of %d", from, until, n)
					}
					require.NotErrorIs(t, err, store.ErrNotExist, "away from %d to %d of %d", from, until, n)
					came = n >= from
				}
			}
		})
	}
}

// A job that is cancelled, while it waits at the gate, for a reason that could be taken for the end of a folder or a
// file.
func TestCalledOffIsNoAnswer(t *testing.T) {
	st, _ := filled(t)
	reason := fmt.Errorf("%w: %w", io.EOF, fs.ErrNotExist)
	for what, do := range map[string]func(ctx context.Context) (right bool, err error){
		"list": func(ctx context.Context) (bool, error) {
			n, err := listed(ctx, st, store.Pack, func(int) {})
			return n == 2, err
		},
		"get":  func(ctx context.Context) (bool, error) { return true, st.Get(ctx, packName("a"), 0, make([]byte, 100)) },
		"stat": func(ctx context.Context) (bool, error) { _, err := st.Stat(ctx, packName("a")); return true, err },
	} {
		for at := 1; at < 40; at++ {
			ctx, end := context.WithCancelCause(t.Context())
			n := 0
			right, err := do(&hooked{ctx, func() {
				if n++; n == at {
					end(reason)
				}
			}})
			end(nil)
			if err != nil {
				require.ErrorIs(t, err, io.EOF, what)
			} else {
				require.True(t, right, "%s: called off at %d", what, at)
			}
			require.NotErrorIs(t, err, store.ErrNotExist, what)
			require.NotErrorIs(t, err, store.ErrShort, what)
		}
	}
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

func detach(point string) error { return unix.Unmount(point, unix.MNT_DETACH) }

// A repository without the folder of its snapshots is not one without snapshots: what they need would be removed. None
// is made when a snapshot is stored, either, or the next listing would have that one alone.
func TestFolderOfSnapshotsIsMissing(t *testing.T) {
	st, _ := filled(t)
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("config")))
	require.NoError(t, st.Put(t.Context(), snapshot(1), []byte("x")))
	folder := filepath.Join(st.Location(), store.Snapshot.Folder())
	require.NoError(t, os.Rename(folder, folder+".away"))
	_, err := listed(t.Context(), st, store.Snapshot, func(int) {})
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorContains(t, err, "folder of the snapshots is missing")
	require.ErrorIs(t, st.Put(t.Context(), snapshot(2), []byte("x")), store.ErrGone)
	require.NoDirExists(t, folder)
	n, err := listed(t.Context(), st, store.Mark, func(int) {})
	require.NoError(t, err, "others may be left out by a copy")
	require.Zero(t, n)
	require.NoError(t, os.Rename(folder+".away", folder))
	n, err = listed(t.Context(), st, store.Snapshot, func(int) {})
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
