package roundtrip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// add makes TestGoldenRepositories write another golden repository. Those that are there never change: see SUMS.
var add = flag.String("add", "", "write the golden repository of that name, with the program as it is now (as root)")

// goldenDir holds the repositories, each beside NAME.txt, which lists what its snapshots restore.
const goldenDir = "../../../../testdata/repos/v1"

// goldenPassphrase opens all of them but keyfile.
const goldenPassphrase = "correct horse"

// goldenSource is where the trees lay when they were backed up. Each snapshot records this path.
const goldenSource = "/tmp/tidemark-golden"

// golden is one repository in a temporary folder, and the environment of the program that uses it.
type golden struct {
	t    *testing.T
	name string
	repo string
	env  map[string]string
}

// makers returns what fills a golden repository that is not there yet. Those that are there never change: what made
// them is in the history of this file. Keys, salts and IDs are random.
func makers() map[string]func(g *golden) { return nil }

// goldens returns the names of the golden repositories.
func goldens(t *testing.T) (names []string) {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join(goldenDir, "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, lists)
	for _, list := range lists {
		names = append(names, strings.TrimSuffix(filepath.Base(list), ".txt"))
	}
	return names
}

// TestGoldenRepositories opens, checks and restores each repository that an earlier build wrote to testdata/repos/v1.
// What it restores is compared with a list that was written together with the repository.
func TestGoldenRepositories(t *testing.T) {
	testkit.Slow(t)
	if *add != "" {
		addGolden(t, *add)
		return
	}
	for _, name := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(filepath.Join(goldenDir, name+".txt"))
			require.NoError(t, err)
			g := openGolden(t, name)
			require.NoError(t, os.CopyFS(g.repo, os.DirFS(filepath.Join(goldenDir, name))))
			g.run(nil, "check", "--read-data")
			g.addKeyFile()
			require.Equal(t, strings.Split(portable(string(want)), "\n"), strings.Split(portable(g.manifest()), "\n"))
		})
	}
}

// TestGoldenTreeIsWhatComesBack compares what the repository passphrase restores with the tree beside it: the list,
// which the same build wrote, is not the only witness.
func TestGoldenTreeIsWhatComesBack(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if *add != "" {
		t.Skip("a repository is being written")
	}
	g := openGolden(t, "passphrase")
	require.NoError(t, os.CopyFS(g.repo, os.DirFS(filepath.Join(goldenDir, "passphrase"))))
	out := filepath.Join(testkit.RamDir(t), "out")
	g.run(nil, "restore", "latest:"+goldenSource+"/tree", "--target", out)
	// differ in every clone
	clone := testkit.AspectMode | testkit.AspectOwner | testkit.AspectMtime | testkit.AspectDirMtime
	tree := filepath.Join(testkit.RamDir(t), "tree")
	require.NoError(t, os.CopyFS(tree, os.DirFS(filepath.Join(goldenDir, "tree"))))
	testkit.Write(t, tree, plainLinks())
	require.Empty(t, testkit.Compare(t.Context(), tree, out, testkit.CompareOptions{Ignore: clone}))
}

// TestGoldensAreFrozen: no later build writes a golden repository again. SUMS has the SHA-256 of each file, in the form
// of sha256sum.
func TestGoldensAreFrozen(t *testing.T) {
	if *add != "" {
		t.Skip("a repository is being written")
	}
	sums, err := os.ReadFile(filepath.Join(goldenDir, "SUMS"))
	require.NoError(t, err)
	require.Equal(t, strings.Split(string(sums), "\n"), strings.Split(goldenSums(t), "\n"))
}

// goldenSums lists all files of the golden repositories but for those that describe them.
func goldenSums(t *testing.T) string {
	t.Helper()
	var sums strings.Builder
	require.NoError(t, filepath.WalkDir(goldenDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(goldenDir, path)
		require.NoError(t, err)
		if rel == "SUMS" || rel == "README.md" {
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(rel))
		return err
	}))
	return sums.String()
}

// TestGoldenSlots opens the repository slots with each of its keys.
func TestGoldenSlots(t *testing.T) {
	t.Parallel()
	if *add != "" {
		t.Skip("a repository is being written")
	}
	recovery, err := os.ReadFile(filepath.Join(goldenDir, "slots.recovery"))
	require.NoError(t, err)
	for what, env := range map[string][2]string{
		"passphrase":   {"TIDEMARK_PASSWORD", goldenPassphrase},
		"key file":     {"TIDEMARK_KEY_FILE", filepath.Join(goldenDir, "slots.key")},
		"recovery key": {"TIDEMARK_PASSWORD", strings.TrimSpace(string(recovery))},
	} {
		g := openGolden(t, "slots")
		delete(g.env, "TIDEMARK_PASSWORD")
		g.env[env[0]] = env[1]
		require.NoError(t, os.CopyFS(g.repo, os.DirFS(filepath.Join(goldenDir, "slots"))))
		require.Contains(t, g.run(nil, "snapshots"), "golden", what)
	}
}

// TestGoldenRepositoryGoesOn runs what people do next in each repository: a backup, a forget and a prune.
func TestGoldenRepositoryGoesOn(t *testing.T) {
	testkit.Slow(t)
	if *add != "" {
		t.Skip("a repository is being written")
	}
	for _, name := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := openGolden(t, name)
			require.NoError(t, os.CopyFS(g.repo, os.DirFS(filepath.Join(goldenDir, name))))
			g.run(nil, "backup", filepath.Join(goldenDir, "tree"))
			g.addKeyFile()
			g.run(nil, "forget", "--keep-last", "1", "--group-by", "host", "--prune")
			g.run(nil, "check", "--read-data")
			g.run(nil, "restore", "latest", "--target", filepath.Join(testkit.RamDir(t), "out"))
		})
	}
}

// openGolden returns a repository that is not there yet.
func openGolden(t *testing.T, name string) *golden {
	t.Helper()
	dir := testkit.RamDir(t)
	g := &golden{t: t, name: name, repo: filepath.Join(dir, "repo"), env: map[string]string{
		"HOME": dir, "XDG_RUNTIME_DIR": dir, "PATH": os.Getenv("PATH"), "TZ": "UTC",
		"TIDEMARK_POLICY": "important", // waits for no other program
	}}
	if name == "keyfile" {
		key, err := filepath.Abs(filepath.Join(goldenDir, "keyfile.key"))
		require.NoError(t, err)
		g.env["TIDEMARK_KEY_FILE"] = key
	} else {
		g.env["TIDEMARK_PASSWORD"] = goldenPassphrase
	}
	g.env["TIDEMARK_REPOSITORY"] = g.repo
	return g
}

// addKeyFile makes later commands open the repository with a key file, which takes less time than a passphrase.
func (g *golden) addKeyFile() {
	if g.env["TIDEMARK_KEY_FILE"] != "" {
		return
	}
	key := g.repo + ".key"
	g.run(nil, "key", "add", "--new-key-file", key)
	g.env["TIDEMARK_KEY_FILE"] = key
}

// run executes a command of the program, which must succeed, and returns its output.
func (g *golden) run(in io.Reader, args ...string) string {
	g.t.Helper()
	code, out, report := g.exec(context.Background(), in, args...)
	require.Zero(g.t, code, "%s: tidemark %s\n%s%s", g.name, strings.Join(args, " "), out, report)
	return out
}

func (g *golden) exec(ctx context.Context, in io.Reader, args ...string) (code int, out, report string) {
	var stdout, stderr bytes.Buffer
	code = cli.Run(ctx, cli.Process{
		Args: args, In: in, Out: &stdout, Err: &stderr,
		Env: func(name string) (string, bool) { value, ok := g.env[name]; return value, ok },
	})
	return code, stdout.String(), stderr.String()
}

// snapshots returns what restores the content of each snapshot, the oldest first: ID and source, or the ID alone if it
// has several sources.
func (g *golden) snapshots() (all []string) {
	g.t.Helper()
	for line := range strings.Lines(g.run(nil, "snapshots", "--json")) {
		var s struct {
			ID    string   `json:"id"`
			Paths []string `json:"paths"`
		}
		require.NoError(g.t, json.Unmarshal([]byte(line), &s))
		if s.ID != "" {
			if len(s.Paths) == 1 {
				s.ID += ":" + s.Paths[0]
			}
			all = append(all, s.ID)
		}
	}
	require.NotEmpty(g.t, all)
	return all
}

// manifest restores every snapshot and lists what came back.
func (g *golden) manifest() string {
	g.t.Helper()
	var lines []string
	for _, s := range g.snapshots() {
		out := filepath.Join(testkit.RamDir(g.t), "out")
		code, _, report := g.exec(context.Background(), nil, "restore", s, "--target", out)
		require.True(g.t, code == 0 || code == 1 && g.name == "repaired", report)
		lines = append(lines, "snapshot "+s)
		lines = append(lines, list(g.t, out)...)
	}
	return strings.Join(lines, "\n") + "\n"
}
