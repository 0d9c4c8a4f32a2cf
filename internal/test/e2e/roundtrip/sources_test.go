package roundtrip

import (
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
		{"dot", []string{"."}, "/", everything},
		{"dot dot", []string{".."}, "/w", everything},
		{"relative", []string{"a"}, "/", "a a/b a/b/f a/g"},
		{"relative from above", []string{"../beside"}, "/", "beside beside/f"},
		{"through the directory above", []string{"../w/a/g"}, "/", "w w/a w/a/g"},
		{"a file", []string{"plain"}, "/", "plain"},
		{"twice", []string{"a", "a/", "./a"}, "/", "a a/b a/b/f a/g"},
		{"nested, inner first", []string{"a/b", "a"}, "/", "a a/b a/b/f a/g"},
		{"nested, outer first", []string{"a", "a/b/f"}, "/", "a a/b a/b/f a/g"},
		{"neighbours", []string{"a/g", "plain", "a/b"}, "/", "a a/b a/b/f a/g plain"},
		{"from two places", []string{"../beside", "plain"}, "/", "beside beside/f plain"},
		{"same by two names", []string{"DIR/w/a/b", "DIR/w/../w/a"}, "DIR/w", "a a/b a/b/f a/g"},
		{"a link is kept as one", []string{"link"}, "/", "link"},
		{"a link on the way is followed", []string{"link/b"}, "/", "link link/b link/b/f"},
		{"odd names", []string{"../n\nl \xff"}, "/n\nl \xff", "\xfe\n"},
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
	require.Equal(t, tree.Symlink, e.Objects(made.Snapshot.Tree, "/")["link"].Type)
}

func keys(m map[string]kit.Object) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

// TestSourcesThatClash: a relative and an absolute path can mean the same place in a snapshot. If they are different
// directories, one of them would be lost.
func TestSourcesThatClash(t *testing.T) {
	dir := testkit.TempDir(t)
	kit.Written(t, dir, map[string]string{"a/f": "1", "w/a/f": "2"})
	t.Chdir(filepath.Join(dir, "w"))
	top := "/" + strings.Split(dir, "/")[1]
	for _, paths := range [][]string{
		{"a", "../a"}, {"../a", "a"}, {"a/f", "../a"}, {"../a", "a/f"}, {"../a/f", "a"}, {top, top[1:]},
		{top + "/x", top[1:]},
	} {
		_, err := scan.Sources(paths)
		require.ErrorIs(t, err, scan.ErrClash, "%q", paths)
	}
	for _, paths := range [][]string{{"a", "../w/a"}, {"a", filepath.Join(dir, "w/a")}, {"a/f", "./a"}} {
		_, err := scan.Sources(paths)
		require.NoError(t, err, "%q", paths)
	}
	for _, paths := range [][]string{{}, {""}, {"a\x00b"}, {".", "a"}, {"..", "a"}} {
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
	t.Chdir(dir)
	require.NoError(t, os.Mkdir(at("dead"), 0o755))
	t.Chdir(at("dead"))
	require.NoError(t, os.Remove(at("dead")))
	_, _, err = e.Backup(e.JobOf("x"))
	require.ErrorIs(t, err, backup.ErrNothing)
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
