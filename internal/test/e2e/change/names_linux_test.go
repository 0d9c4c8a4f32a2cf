package change

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// requireSeen requires that a backup with cached names finds the same entries as one without.
func requireSeen(t *testing.T, e *kit.Engine, src, when string) {
	t.Helper()
	out, totals, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Zero(t, totals.Failures, when)
	full := e.Job(src)
	full.Source.Comparing.Force, full.NoDirCache = true, true
	all, _, err := e.Backup(full)
	require.NoError(t, err)
	require.Equal(t, e.Subtree(all, src), e.Subtree(out, src), when)
}

// mess changes names and contents at random.
type mess struct {
	r     *rand.Rand
	src   string
	dirs  []string
	files []string
	next  int
}

func (m *mess) look(t *testing.T) {
	m.dirs, m.files = nil, nil
	require.NoError(t, filepath.WalkDir(m.src, func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() {
			m.dirs = append(m.dirs, path)
		} else {
			m.files = append(m.files, path)
		}
		return err
	}))
}

func (m *mess) dir() string { return m.dirs[m.r.IntN(len(m.dirs))] }

func (m *mess) file() string { return m.files[m.r.IntN(len(m.files))] }

func (m *mess) fresh() string {
	m.next++
	name := fmt.Sprint(m.next)
	switch m.r.IntN(4) {
	case 0:
		name += strings.Repeat("long", 1+m.r.IntN(60))
	case 1:
		name += string([]byte{byte(1 + m.r.IntN(46)), 0xff, '\n'})
	}
	return filepath.Join(m.dir(), name)
}

// change makes one change, which may fail: a directory cannot be moved below itself.
func (m *mess) change(t *testing.T) {
	m.look(t)
	dir := m.dir()
	before, err := os.Stat(dir)
	require.NoError(t, err)
	switch m.r.IntN(12) {
	case 0, 1:
		_ = os.WriteFile(m.fresh(), []byte(fmt.Sprint(m.next)), 0o644)
	case 2:
		_ = os.Mkdir(m.fresh(), 0o755)
	case 3:
		_ = os.Remove(m.file())
	case 4:
		_ = os.Rename(m.file(), m.fresh())
	case 5:
		_ = os.Rename(m.file(), m.file())
	case 6:
		_ = os.Link(m.file(), m.fresh())
	case 7:
		if dir != m.src {
			_ = os.Rename(dir, m.fresh())
		}
	case 8:
		_ = os.WriteFile(m.file(), []byte(fmt.Sprint("new ", m.next)), 0o644)
	case 9:
		_ = os.Symlink("somewhere", m.fresh())
	case 10: // in place of a file, a directory
		if name := m.file(); os.Remove(name) == nil {
			_ = os.Mkdir(name, 0o755)
		}
	case 11: // as if nothing had happened
		_ = os.WriteFile(filepath.Join(dir, fmt.Sprint("hidden", m.next)), nil, 0o644)
		_ = os.Chtimes(dir, before.ModTime(), before.ModTime())
	}
}

// TestChangesBesideRememberedNames: names change between runs, just before the next or long before. The next run finds
// each change.
func TestChangesBesideRememberedNames(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	rounds := testkit.Rounds(4, 6, 12)
	for seed := range uint64(testkit.Rounds(1, 2, 3)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			src := filepath.Join(testkit.RamDir(t), "src")
			m := &mess{r: rand.New(rand.NewPCG(seed, 1)), src: src}
			require.NoError(t, os.MkdirAll(src, 0o755))
			kit.Written(t, src, map[string]string{"a/b/c": "c", "a/d": "d", "e": "e"})
			for range 150 {
				m.change(t)
				if m.look(t); len(m.files) < 3 {
					kit.Written(t, src, map[string]string{"more": "m", "than/one": "t", "a/third": "a"})
				}
			}
			e := kit.NewEngine(t, nil)
			for round := range rounds {
				if m.r.IntN(3) > 0 {
					kit.Settle()
				}
				requireSeen(t, e, src, fmt.Sprintf("round %d", round))
				for range m.r.IntN(6) {
					m.change(t)
				}
			}
			kit.Settle()
			requireSeen(t, e, src, "at the end")
			e.RequireRestored(src)
		})
	}
}

// TestMoreNamesThanAreRemembered: a directory of more names than are remembered, and one of nearly as many.
func TestMoreNamesThanAreRemembered(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := filepath.Join(testkit.RamDir(t), "src")
	for dir, n := range map[string]int{"many": 100_000, "some": 3000} {
		require.NoError(t, os.MkdirAll(filepath.Join(src, dir), 0o755))
		for i := range n {
			require.NoError(t, os.Symlink("x", filepath.Join(src, dir, fmt.Sprintf("name %d", i))))
		}
	}
	kit.Settle()
	e := kit.NewEngine(t, nil)
	requireSeen(t, e, src, "first")
	for _, dir := range []string{"many", "some"} {
		require.NoError(t, os.Remove(filepath.Join(src, dir, "name 7")))
		require.NoError(t, os.Symlink("x", filepath.Join(src, dir, "name 70x")))
	}
	kit.Settle()
	requireSeen(t, e, src, "changed")
	requireSeen(t, e, src, "unchanged")
}

// TestMountsOverRememberedNames: another file system is mounted and unmounted in a directory whose names are cached.
func TestMountsOverRememberedNames(t *testing.T) {
	t.Parallel()
	testkit.RequireRoot(t)
	src := filepath.Join(testkit.RamDir(t), "src")
	kit.Written(t, src, map[string]string{"sub/f": "f", "sub/g": "g", "other/f": "f"})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	requireSeen(t, e, src, "before")
	requireSeen(t, e, src, "again")
	t.Run("mounted", func(t *testing.T) {
		testkit.MountMemory(t, filepath.Join(src, "sub"), "1m")
		kit.Written(t, src, map[string]string{"sub/h": "h"})
		kit.Settle()
		requireSeen(t, e, src, "mounted")
		requireSeen(t, e, src, "mounted, again")
	})
	requireSeen(t, e, src, "unmounted")
}

// TestDamagedMemoryOfNames flips bits in everything that is remembered of directories.
func TestDamagedMemoryOfNames(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := filepath.Join(testkit.RamDir(t), "src")
	testkit.Write(t, src, testkit.Random(11, 400, true))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	_, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(5, 5))
	for range 8 {
		matches, err := filepath.Glob(filepath.Join(e.Open.Cache.Dir, "*", "dirs", "0*"))
		require.NoError(t, err)
		require.NotEmpty(t, matches)
		for _, path := range matches {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			for range 1 + len(data)/1000 {
				data[r.IntN(len(data))] ^= 1 << r.IntN(8)
			}
			require.NoError(t, os.WriteFile(path, data, 0o600))
		}
		requireSeen(t, e, src, "damaged")
	}
}
