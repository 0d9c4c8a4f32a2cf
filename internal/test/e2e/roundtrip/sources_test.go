package roundtrip

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestSourcesAsWritten: what lies where in the snapshot, for each way to write a path. DIR stands for the directory of
// the test.
func TestSourcesAsWritten(t *testing.T) {
	testkit.Slow(t)
	dir := testkit.RamDir(t)
	testkit.Write(t, dir, testkit.Dir{
		"w": testkit.Dir{
			"a": testkit.Dir{"b": testkit.Dir{"f": testkit.File{Data: []byte("abf")}},
				"g": testkit.File{Data: []byte("ag")}},
			"link":  testkit.Symlink{Target: "a"},
			"plain": testkit.File{Data: []byte("plain")},
		},
		"beside":    testkit.Dir{"f": testkit.File{Data: []byte("beside")}},
		"n\nl \xff": testkit.Dir{"\xfe\n": testkit.File{Data: []byte("odd")}},
	})
	kit.Settle()
	t.Chdir(filepath.Join(dir, "w"))
	const everything = "a a/b a/b/f a/g link plain"
	for _, c := range []struct {
		name    string
		sources []string
		under   string // where in the snapshot
		want    string // everything there
	}{
		{"absolute", []string{"DIR/w/a"}, "DIR/w", "a a/b a/b/f a/g"},
		{"trailing slashes", []string{"DIR/w/a//"}, "DIR/w", "a a/b a/b/f a/g"},
		{"dots inside", []string{"DIR/beside/../w/./a/b"}, "DIR/w", "a a/b a/b/f"},
		{"dot", []string{"."}, "DIR/w", everything},
		{"dot dot", []string{"a/.."}, "DIR/w", everything},
		{"relative", []string{"a"}, "DIR/w", "a a/b a/b/f a/g"},
		{"relative from above", []string{"../beside"}, "DIR", "beside beside/f"},
		{"through the directory above", []string{"../w/a/g"}, "DIR", "w w/a w/a/g"},
		{"a file", []string{"plain"}, "DIR/w", "plain"},
		{"twice", []string{"a", "a/", "./a"}, "DIR/w", "a a/b a/b/f a/g"},
		{"nested, inner first", []string{"a/b", "a"}, "DIR/w", "a a/b a/b/f a/g"},
		{"nested, outer first", []string{"a", "a/b/f"}, "DIR/w", "a a/b a/b/f a/g"},
		{"neighbours", []string{"a/g", "plain", "a/b"}, "DIR/w", "a a/b a/b/f a/g plain"},
		{"from two places", []string{"../beside", "plain"}, "DIR", "beside beside/f w w/plain"},
		{"dot and others", []string{".", "a", "../w/plain"}, "DIR/w", everything},
		{"same by two names", []string{"DIR/w/a/b", "DIR/w/../w/a"}, "DIR/w", "a a/b a/b/f a/g"},
		{"a link is kept as one", []string{"link"}, "DIR/w", "link"},
		{"a link on the way is followed", []string{"link/b"}, "DIR/w", "link link/b link/b/f"},
		{"odd names", []string{"../n\nl \xff"}, "DIR/n\nl \xff", "\xfe\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := kit.NewEngine(t, nil)
			for i := range c.sources {
				c.sources[i] = strings.ReplaceAll(c.sources[i], "DIR", dir)
			}
			made, _, err := e.Backup(e.JobOf(c.sources...))
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			got := e.Objects(made.Snapshot.Tree, strings.ReplaceAll(c.under, "DIR", dir))
			want := strings.Fields(c.want)
			if c.name == "odd names" {
				want = []string{c.want}
			}
			for _, path := range want {
				require.Contains(t, got, path)
			}
			require.Len(t, got, len(want), "%q", keys(got))
			e.RequireSound()

			_, again, err := e.Backup(e.JobOf(c.sources...))
			require.NoError(t, err)
			require.Zero(t, again.Bytes.Read, "an unchanged source was read")
		})
	}
	e := kit.NewEngine(t, nil)
	made, _, err := e.Backup(e.JobOf("link"))
	require.NoError(t, err)
	require.Equal(t, tree.Symlink, e.Objects(made.Snapshot.Tree, filepath.Join(dir, "w"))["link"].Type)
}

func keys(m map[string]kit.Object) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

// TestSourcesBesideEachOther: relative paths are where they are, so that no two directories have the same place in a
// snapshot.
func TestSourcesBesideEachOther(t *testing.T) {
	dir := testkit.RamDir(t)
	kit.Written(t, dir, map[string]string{"a/f": "1", "w/a/f": "2"})
	require.NoError(t, os.Symlink("w", filepath.Join(dir, "link")))
	t.Chdir(filepath.Join(dir, "link"))
	e := kit.NewEngine(t, nil)
	made, _, err := e.Backup(e.JobOf("a", filepath.Join(dir, "a")))
	require.NoError(t, err)
	got := e.Objects(made.Snapshot.Tree, dir)
	require.Equal(t, "1", got["a/f"].Data)
	require.Equal(t, "2", got["link/a/f"].Data, "the working directory as the user sees it")
	for _, paths := range [][]string{{}, {""}, {"a\x00b"}} {
		_, err := scan.Sources(paths)
		require.Error(t, err, "%q", paths)
	}
}

// TestMissingSources: one that is missing is a failure beside a snapshot of the others; with none there is no snapshot.
func TestMissingSources(t *testing.T) {
	dir := testkit.RamDir(t)
	kit.Written(t, dir, map[string]string{"here/f": "here"})
	at := func(name string) string { return filepath.Join(dir, name) }
	e := kit.NewEngine(t, nil)
	made, _, err := e.Backup(e.JobOf(at("here"), at("gone"), at("no/such/place"), at("here/f/below a file")))
	require.NoError(t, err)
	require.True(t, made.Failed)
	require.False(t, made.ID.IsZero())
	require.Len(t, e.Failures(), 2, "the last lies in a source that is taken whole: %q", e.Failures())
	require.Equal(t, "here", e.Objects(made.Snapshot.Tree, dir)["here/f"].Data)
	require.NotContains(t, e.Objects(made.Snapshot.Tree, dir), "no")

	for _, paths := range [][]string{{at("gone")}, {at("gone"), at("no/such")}, {at("here/f/below a file")}} {
		made, _, err := e.Backup(e.JobOf(paths...))
		require.ErrorIs(t, err, backup.ErrNothing)
		require.Nil(t, made)
	}
	require.NoError(t, os.Mkdir(at("dead"), 0o755))
	t.Chdir(at("dead"))
	require.NoError(t, os.Remove(at("dead")))
	_, err = scan.Sources([]string{"x"})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestRepositoryInsideSource: objects protected by rules or identities are not backed up under any name.
func TestRepositoryInsideSource(t *testing.T) {
	dir := testkit.RamDir(t)
	kit.Written(t, dir, map[string]string{"src/f": "f", "src/deep/repo/config": "x", "src/cache/c": "c"})
	at := func(name string) string { return filepath.Join(dir, name) }
	protected := map[uint64]bool{kit.Inode(t, at("src/deep/repo")): true, kit.Inode(t, at("src/cache")): true}
	e := kit.NewEngine(t, nil)
	job := e.Job(at("src"))
	b := rules.NewBuilder()
	b.Protect(at("src/cache"), "the cache")
	job.Source.Rules = b.Compile()
	job.Source.Skip = func(_, ino uint64) bool { return protected[ino] }
	made, _, err := e.Backup(job)
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	got := e.Objects(made.Snapshot.Tree, at("src"))
	require.Contains(t, got, "f")
	require.Contains(t, got, "deep/repo", "the place is kept")
	require.NotContains(t, got, "deep/repo/config")
	require.NotContains(t, got, "cache/c")

	for _, src := range []string{"src/cache", "src/cache/c"} { // protected by path
		inside := e.Job(at(src))
		inside.Source.Rules, inside.Source.Skip = job.Source.Rules, job.Source.Skip
		_, _, err = e.Backup(inside)
		require.ErrorIs(t, err, backup.ErrNothing, src)
	}
	repository := e.Job(at("src/deep/repo"))
	repository.Source.Skip = job.Source.Skip
	made, _, err = e.Backup(repository)
	require.NoError(t, err)
	require.NotContains(t, e.Objects(made.Snapshot.Tree, dir), "src/deep/repo/config")
}
