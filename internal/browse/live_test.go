package browse_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// live compares the tree of a snapshot with a folder, and returns what differs.
func live(t *testing.T, r *repo.Repository, root format.ID, at string, opt browse.DiffOptions, l browse.Live) ([]string,
	browse.DiffStats,
) {
	t.Helper()
	l.Problem = func(path string, err error) { t.Errorf("%s: %v", path, err) }
	old, err := browse.Resolve(t.Context(), r.LoadBlob, root, "/")
	require.NoError(t, err)
	var got []string
	pair := browse.Pair{Old: old, Source: at, Path: at, At: "/"}
	s, err := browse.DiffLive(t.Context(), r, []browse.Pair{pair}, opt, l, func(c browse.Change) error {
		got = append(got, c.Status.String()+" "+c.Exact())
		return nil
	})
	require.NoError(t, err)
	return got, s
}

// fill writes files and folders, the values of d, below at.
func fill(t *testing.T, at string, d dir) {
	t.Helper()
	require.NoError(t, os.MkdirAll(at, 0o755))
	for name, v := range d {
		switch v := v.(type) {
		case dir:
			fill(t, filepath.Join(at, name), v)
		case []byte:
			require.NoError(t, os.WriteFile(filepath.Join(at, name), v, 0o600))
		case *tree.Node:
			require.NoError(t, os.Symlink(v.Target, filepath.Join(at, name)))
		}
	}
}

// A comparison with live files shows what that of two snapshots does. Times of the files differ, so that all are read.
func TestDiffLiveIsDiff(t *testing.T) {
	r := initialise(t)
	a, b := sample(), sample()
	ann := b["home"].(dir)["ann"].(dir)
	ann["notes.txt"] = stored.Noise(7, 3000)
	ann["Photo.JPG"] = dir{"inside": stored.Noise(8, 300)}
	delete(ann, "empty")
	b["big"] = stored.Noise(4, 41*stored.ChunkSize)
	b["new"] = dir{"deep": dir{"file": stored.Noise(9, 500)}}
	b["home"].(dir)["bob"] = &tree.Node{Type: tree.Symlink, Links: 1, Target: "ann"}
	rootA, rootB := save(t, r, a), save(t, r, b)
	var want []string
	stats, err := browse.Diff(t.Context(), r.LoadBlob, rootA, rootB, browse.DiffOptions{}, func(c browse.Change) error {
		want = append(want, (c.Status&^browse.Silent).String()+" "+c.Exact())
		return nil
	})
	require.NoError(t, err)

	at := filepath.Join(t.TempDir(), "live")
	fill(t, at, b)
	got, s := live(t, r, rootA, at, browse.DiffOptions{}, browse.Live{})
	require.Equal(t, want, got)
	require.Equal(t, stats.Changed, s.Changed)
	require.Equal(t, [3]uint64{2, 2, 0}, [3]uint64{s.Added.Files, s.Added.Dirs, s.Added.Others})
	require.Equal(t, stats.Removed.Files, s.Removed.Files)
	require.EqualValues(t, 3000+300+41*stored.ChunkSize+500, s.Added.Bytes)
	require.EqualValues(t, 3000+5000+200+40*stored.ChunkSize, s.Removed.Bytes)

	none, s := live(t, r, rootB, at, browse.DiffOptions{}, browse.Live{ReadData: true})
	require.Empty(t, none)
	require.Zero(t, s)
	got, _ = live(t, r, rootB, at, browse.DiffOptions{Metadata: true}, browse.Live{})
	require.Contains(t, got, "U /big", "its mode and time")
}

// A file whose size and time are equal is read only on demand. With an equal change time too it is damage.
func TestDiffLiveReadsOnDemand(t *testing.T) {
	r := initialise(t)
	at := filepath.Join(t.TempDir(), "live")
	fill(t, at, dir{"f": []byte("hellO"), "long": []byte("hello more"), "short": []byte("hell")})
	when := time.Unix(1000, 7)
	snap := dir{}
	d, err := localfs.IOContext{}.OpenDir(at)
	require.NoError(t, err)
	defer d.Release()
	for _, name := range []string{"f", "long", "short"} {
		require.NoError(t, os.Chtimes(filepath.Join(at, name), when, when))
		var st localfs.Stat
		require.NoError(t, d.Lstat(name, &st))
		snap[name] = &tree.Node{Type: tree.File, Size: 5, ModTime: st.Mtime, Changed: st.Ctime,
			Content: tree.Content{Inline: []byte("hello")}}
	}
	root := save(t, r, snap)
	got, _ := live(t, r, root, at, browse.DiffOptions{}, browse.Live{})
	require.Equal(t, []string{"M /long", "M /short"}, got)
	got, _ = live(t, r, root, at, browse.DiffOptions{}, browse.Live{ReadData: true})
	require.Equal(t, []string{"M? /f", "M /long", "M /short"}, got)
	require.NoError(t, os.Chtimes(filepath.Join(at, "f"), when, when.Add(1)))
	got, _ = live(t, r, root, at, browse.DiffOptions{}, browse.Live{})
	require.Equal(t, []string{"M /f", "M /long", "M /short"}, got)
}

// A path below a source is compared with the rules that apply there: those of ignore files above it too.
func TestDiffLiveBelowASource(t *testing.T) {
	r := initialise(t)
	source := filepath.Join(t.TempDir(), "live")
	fill(t, source, dir{".ignore": []byte("*.o\n"), "a": dir{"b": dir{"x.o": []byte("1"), "x.c": []byte("1")}}})
	b := rules.NewBuilder()
	require.NoError(t, b.IgnoreFile(".ignore", "test"))
	root := save(t, r, dir{"x.o": []byte("1")})
	old, err := browse.Resolve(t.Context(), r.LoadBlob, root, "/")
	require.NoError(t, err)
	compare := func(old *tree.Node, path string) (got []string, err error) {
		pair := browse.Pair{Old: old, Source: source, Path: filepath.Join(source, path), At: "/"}
		_, err = browse.DiffLive(t.Context(), r, []browse.Pair{pair}, browse.DiffOptions{},
			browse.Live{Rules: b.Compile()}, func(c browse.Change) error {
				got = append(got, c.Status.String()+" "+c.Exact())
				return nil
			})
		return got, err
	}
	got, err := compare(old, "a/b")
	require.NoError(t, err)
	require.Equal(t, []string{"+ /x.c", "- /x.o"}, got)
	got, err = compare(old, "a/none/deep")
	require.NoError(t, err)
	require.Equal(t, []string{"- /", "- /x.o"}, got)
	got, err = compare(nil, "a/b")
	require.NoError(t, err)
	require.Equal(t, []string{"+ /", "+ /x.c"}, got)
	_, err = compare(nil, "a/b/x.o")
	require.ErrorIs(t, err, browse.ErrNotFound, "it is excluded")
	_, err = compare(old, "a/b/x.c")
	require.ErrorIs(t, err, browse.ErrNotDir)
}

// The end of the context ends the comparison with an error, and nothing counts as removed.
func TestDiffLiveEndsWhenStopped(t *testing.T) {
	r := initialise(t)
	old, err := browse.Resolve(t.Context(), r.LoadBlob, save(t, r, sample()), "/")
	require.NoError(t, err)
	at := t.TempDir()
	fill(t, at, sample())
	ctx, cancel := context.WithCancel(t.Context())
	pair := browse.Pair{Old: old, Source: at, Path: at, At: "/"}
	_, err = browse.DiffLive(ctx, r, []browse.Pair{pair}, browse.DiffOptions{}, browse.Live{
		Skip:    func(uint64, uint64) bool { cancel(); return false },
		Problem: func(path string, err error) { t.Errorf("%s: %v", path, err) },
	}, func(c browse.Change) error { t.Errorf("%s %s", c.Status, c.Exact()); return nil })
	require.ErrorIs(t, err, context.Canceled)
}

// File systems below the root of the machine are entered as a backup enters them.
func TestDiffLiveFromTheRoot(t *testing.T) {
	mounts, err := localfs.Mounts()
	require.NoError(t, err)
	mounted := false
	for _, m := range mounts {
		mounted = mounted || m.Path == "/proc"
	}
	if !mounted {
		t.Skip("needs /proc")
	}
	b := rules.NewBuilder()
	b.Flag(rules.Pseudo, "test")
	var found []string
	_, err = browse.DiffLive(t.Context(), initialise(t), []browse.Pair{{Source: "/", Path: "/proc", At: "/proc"}},
		browse.DiffOptions{}, browse.Live{
			Rules:   b.Compile(),
			Problem: func(path string, err error) { t.Errorf("%s: %v", path, err) },
		}, func(c browse.Change) error { found = append(found, c.Status.String()+c.Exact()); return nil })
	require.NoError(t, err)
	require.Equal(t, []string{"+/proc"}, found)
}
