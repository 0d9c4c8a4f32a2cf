package scope_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/scope"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func TestResolveFollowsLinksAsFarAsTheyGo(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "not", "there"), scope.Resolve(filepath.Join(dir, "not", "there")))
	require.Equal(t, dir, scope.Resolve(dir+"/x/.."))
	require.Equal(t, "/", scope.Resolve("/"))
}

// The folders of the backup itself are left out by path, also where they do not exist yet, and under any other name.
func TestABackupLeavesItselfOut(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	repository, link := filepath.Join(dir, "repo"), filepath.Join(dir, "link")
	require.NoError(t, os.Mkdir(repository, 0o700))
	require.NoError(t, os.Symlink(repository, link))
	env := func(string) (string, bool) { return "", false }
	spec, _, err := options.Resolve(nil, env, func(string) ([]byte, error) { return nil, fs.ErrNotExist })
	require.NoError(t, err)
	chosen, err := scope.New(t.Context(), scope.Config{Spec: spec, Env: env, Sources: []string{dir},
		Own:  [][2]string{{link, "the repository"}, {dir + "/later", "the cache"}, {}},
		Note: func(text string) { t.Log(text) }})
	require.NoError(t, err)
	require.Empty(t, chosen.Warnings)
	for path, want := range map[string]rules.Verdict{repository: rules.Exclude, dir + "/later/x": rules.Exclude,
		dir + "/other": rules.Include} {
		require.Equal(t, want, chosen.Rules.Explain(rules.Query{Path: path, Source: dir, Type: tree.Dir}).Verdict, path)
	}
	at := func(path string) bool {
		opened, err := localfs.OpenDir(path)
		require.NoError(t, err)
		defer opened.Release()
		st, err := opened.Fstat()
		require.NoError(t, err)
		return chosen.Skip(st.Dev, st.Ino)
	}
	require.True(t, at(repository))
	require.False(t, at(dir))
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		path, folder string
		want         bool
	}{
		{"/a", "/a", true}, {"/a/b", "/a", true}, {"/a/b", "/a/", true}, {"/ab", "/a", false}, {"/a", "/", true},
		{"/", "/a", false},
	} {
		require.Equal(t, c.want, scope.Within(c.path, c.folder), "%+v", c)
	}
}
