package roundtrip

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

func TestHostileTreeComesBack(t *testing.T) {
	testkit.Slow(t)
	testkit.NoLeaks(t)
	src := filepath.Join(testkit.TempDir(t), "src")
	opt := testkit.HostileOptions{Entries: testkit.Rounds(300, 800, 5000), Depth: testkit.Rounds(40, 100, 0),
		SparseSize: 1 << 30}
	testkit.Hostile(t, src, opt)
	writeOut(t, src)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	out, totals, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Zero(t, totals.Failures)
	require.Less(t, totals.Bytes.Read, uint64(64<<20), "holes were read")
	e.RequireRestored(src)

	again, totals, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read, "an unchanged tree was read")
	require.Equal(t, e.Subtree(out, src), e.Subtree(again, src))
}

func TestRestoreOfBackupIsTheIdentity(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for seed := range uint64(testkit.Rounds(2, 4, 12)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			src := filepath.Join(testkit.RamDir(t), "src")
			testkit.Write(t, src, testkit.Random(seed, 300, true))
			kit.Settle()
			e := kit.NewEngine(t, nil)
			_, totals, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			require.Zero(t, totals.Failures)
			e.RequireRestored(src)
		})
	}
}

func TestTreeIsIndependentOfParallelismAndCache(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := filepath.Join(testkit.RamDir(t), "src")
	testkit.Write(t, src, testkit.Random(7, 2000, true))
	kit.Settle()
	e := kit.NewEngine(t, nil)
	var want format.ID
	for i, par := range []backup.Parallel{kit.Parallel(1, 1, 1), kit.Parallel(8, 8, 8), kit.Parallel(3, 1, 5)} {
		for _, force := range []bool{true, false} {
			for _, noMemory := range []bool{true, false} {
				e.Parallel = par
				job := e.Job(src)
				job.Source.Comparing.Force, job.NoDirCache = force, noMemory
				out, _, err := e.Backup(job)
				require.NoError(t, err)
				got := e.Subtree(out, src)
				if want.IsZero() {
					want = got
				}
				require.Equal(t, want, got, "run %d force %v no memory %v", i, force, noMemory)
			}
		}
	}
}

// TestEveryChangeIsSeen changes one thing at a time, and compares the tree of an incremental backup with that of one
// that looks at everything.
func TestEveryChangeIsSeen(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := filepath.Join(testkit.RamDir(t), "src")
	testkit.Write(t, src, testkit.Dir{
		"a": testkit.File{Data: []byte("first")}, "big": testkit.File{Data: testkit.Noise(1, 3<<20)},
		"d": testkit.Dir{"x": testkit.File{Data: []byte("x")},
			"e": testkit.Dir{"y": testkit.File{Data: testkit.Text(2, 5000)}}},
		"l": testkit.Symlink{Target: "a"}, "h": testkit.Hardlink{To: "big"},
	})
	kit.Settle()
	e := kit.NewEngine(t, nil)
	at := func(name string) string { return filepath.Join(src, name) }
	changes := map[string]func() error{
		"nothing":              func() error { return nil },
		"content, same size":   func() error { return os.WriteFile(at("a"), []byte("other"), 0o644) },
		"content deep":         func() error { return os.WriteFile(at("d/e/y"), []byte("changed"), 0o644) },
		"append":               func() error { return appendTo(at("big"), "tail") },
		"mode":                 func() error { return os.Chmod(at("d/x"), 0o600) },
		"mode of a directory":  func() error { return os.Chmod(at("d/e"), 0o700) },
		"new file":             func() error { return os.WriteFile(at("d/new"), testkit.Text(5, 100_000), 0o600) },
		"new directory":        func() error { return os.MkdirAll(at("d/n/o/p"), 0o755) },
		"removed":              func() error { return os.Remove(at("l")) },
		"removed directory":    func() error { return os.RemoveAll(at("d/n")) },
		"renamed":              func() error { return os.Rename(at("d/x"), at("d/z")) },
		"directory for a file": func() error { return replace(at("a")) },
		"hard link gone":       func() error { return os.Remove(at("h")) },
	}
	for _, name := range []string{"nothing", "content, same size", "content deep", "append", "mode",
		"mode of a directory", "new file",
		"new directory", "removed", "removed directory", "renamed", "directory for a file", "hard link gone"} {
		t.Run(name, func(t *testing.T) {
			_, _, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			require.NoError(t, changes[name]())
			kit.Settle()
			out, totals, err := e.Backup(e.Job(src))
			require.NoError(t, err)
			require.Zero(t, totals.Failures)
			full := e.Job(src)
			full.Source.Comparing.Force = true
			all, _, err := e.Backup(full)
			require.NoError(t, err)
			require.Equal(t, e.Subtree(all, src), e.Subtree(out, src))
			e.RequireRestored(src)
		})
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func replace(path string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Mkdir(path, 0o755)
}

// TestSameTickChangeIsSeen changes a file in the tick of the kernel's clock in which it was backed up, again and again:
// size and times are equal, only the content differs.
func TestSameTickChangeIsSeen(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := filepath.Join(testkit.RamDir(t), "src")
	require.NoError(t, os.MkdirAll(src, 0o755))
	e := kit.NewEngine(t, nil)
	for i := range 20 {
		text := fmt.Sprintf("version %02d", i)
		require.NoError(t, os.WriteFile(filepath.Join(src, "f"), []byte(text+strings.Repeat("x", 200)), 0o644))
		_, _, err := e.Backup(e.Job(src))
		require.NoError(t, err)
		dst := filepath.Join(t.TempDir(), "out")
		_, err = e.Restore(src, restore.Target{Path: dst})
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dst, "f"))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(got), text), "want %q, got %q", text, got[:10])
	}
}

func TestStandardInput(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	e := kit.NewEngine(t, nil)
	data := append(testkit.Text(3, 5<<20), testkit.Noise(4, 3<<20)...)
	job := backup.Job{Label: backup.Label{Host: "test", Sources: []string{"/dump.sql"}}, Parallel: e.Parallel,
		Stdin: &backup.Stdin{Name: "dir/dump.sql", Reader: strings.NewReader(string(data))}}
	_, _, err := e.Backup(job)
	require.NoError(t, err)
	dst := filepath.Join(t.TempDir(), "out")
	_, err = e.Restore("/dir", restore.Target{Path: dst})
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dst, "dump.sql"))
	require.NoError(t, err)
	require.True(t, string(got) == string(data))

	job.Stdin = &backup.Stdin{Name: "x", Reader: io.MultiReader(strings.NewReader("half"), failing{})}
	_, _, err = e.Backup(job)
	require.ErrorContains(t, err, "the command died")
	require.NoError(t, e.With(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		require.Len(t, listed, 1)
		return err
	}))
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("the command died") }

func TestLocalRepositoryOnDisk(t *testing.T) {
	testkit.Slow(t)
	testkit.NoLeaks(t)
	st, err := local.Create(filepath.Join(t.TempDir(), "repo"), nil)
	require.NoError(t, err)
	e := kit.NewEngine(t, st)
	src := filepath.Join(testkit.RamDir(t), "src")
	testkit.Write(t, src, testkit.Random(99, 500, true))
	kit.Settle()
	_, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(e.Open.Cache.Dir), "the cache is disposable")
	e.RequireRestored(src)
}
