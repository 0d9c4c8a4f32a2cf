package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// spoiled is a store with one byte spoiled: in the middle of the first large piece that is read of its largest pack, in
// which there are contents of files.
type spoiled struct {
	store.Store
	fail error // what reading it ends with; nil: it is delivered flipped

	mu   sync.Mutex
	name store.Name
	at   int64 // 0: not chosen yet, negative: none
	all  int   // pieces of packs that were read
	hits int   // of those, with the byte in them
	off  bool
}

func spoil(t *testing.T, inner store.Store, fail error) *spoiled {
	t.Helper()
	s := &spoiled{Store: inner, fail: fail}
	most := int64(0)
	for info, err := range inner.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		if info.Size > most {
			most, s.name = info.Size, info.Name
		}
	}
	return s
}

const largePiece = 64 << 10

func (s *spoiled) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind != store.Pack || s.off {
		return s.Store.Get(ctx, name, off, p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all++
	if s.at == 0 && name == s.name && len(p) > largePiece {
		s.at = off + int64(len(p)/2)
	}
	if s.at <= 0 || name != s.name || s.at < off || s.at >= off+int64(len(p)) {
		return s.Store.Get(ctx, name, off, p)
	}
	s.hits++
	if s.fail != nil {
		return s.fail
	}
	if err := s.Store.Get(ctx, name, off, p); err != nil {
		return err
	}
	p[s.at-off] ^= 1
	return nil
}

// TestDamagedFrameIsReadTwice: a frame that cannot be opened is read once for all files in it, and once more alone, in
// case the read was at fault. It is not read again for each file or window. Each file is reported once, and all others
// are restored.
func TestDamagedFrameIsReadTwice(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for name, fail := range map[string]error{"flipped": nil, "unreadable": errors.New("input/output error"),
		"gone": store.ErrNotExist} {
		t.Run(name, func(t *testing.T) {
			dir := testkit.RamDir(t)
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			files := kit.WithCopies(t, src)
			kit.Settle()
			e := kit.NewEngine(t, nil)
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			st := spoil(t, e.Store, nil)
			st.at = -1
			e.Store = st
			_, err = e.Alone(src, kit.Target(filepath.Join(dir, "whole")))
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			whole := st.all

			st.all, st.at, st.fail = 0, 0, fail
			totals, err := e.Alone(src, kit.Target(dst))
			require.NoError(t, err, "what fails for one file ends no restore")
			var lost []string
			for path, data := range files {
				got, err := os.ReadFile(filepath.Join(dst, path))
				if errors.Is(err, os.ErrNotExist) {
					lost = append(lost, path)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, data, string(got), path)
			}
			require.NotEmpty(t, lost)
			require.Less(t, len(lost), len(files))
			require.Equal(t, uint64(len(lost)), totals.Objects.Failed)
			require.Equal(t, totals.Objects.Inspected, totals.Objects.Restored+totals.Objects.Failed)
			if len(lost) < report.KeptIssues {
				var reported []string
				for _, i := range e.Ledger.Issues() {
					reported = append(reported, strings.TrimPrefix(i.Path, src+"/"))
				}
				slices.Sort(reported)
				slices.Sort(lost)
				require.Equal(t, lost, reported, "each once")
			}
			require.LessOrEqual(t, st.hits, 2, "pieces with the spoiled byte")
			require.LessOrEqual(t, st.all, whole+8, "pieces read in all")

			st.off = true // a disk that was read with effort; the same command then goes on where it was
			totals, err = e.Alone(src, kit.Target(dst))
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			require.GreaterOrEqual(t, totals.Objects.Kept, uint64(len(files)-len(lost)))
			require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))
		})
	}
}

// TestRestoreFromNowhere: a repository that cannot be reached any more ends a restore at once, instead of failing file
// by file after a wait for each.
func TestRestoreFromNowhere(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	kit.WithCopies(t, src)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	inner := e.Store
	st := spoil(t, inner, fmt.Errorf("host is down: %w", store.ErrTemporary))
	e.Store = st
	_, err = e.Alone(src, kit.Target(dst))
	require.ErrorIs(t, err, restore.ErrUnreachable)
	require.LessOrEqual(t, st.hits, 2)
	require.Zero(t, e.Ledger.Snapshot().Objects.Failed)
	require.Empty(t, temporary(t, dst), "nothing half done is left")
	e.Store = inner
	_, err = e.Alone(src, kit.Target(dst))
	require.NoError(t, err)
	require.Empty(t, testkit.Compare(context.Background(), src, dst, testkit.CompareOptions{}))
}

// temporary lists objects with the name of an unfinished file.
func temporary(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".tidemark-") {
			names = append(names, path)
		}
		return err
	}))
	return names
}
