package kit

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Object is one object of a snapshot.
type Object struct {
	*tree.Node
	Data string // of a file
}

// Objects returns everything below dir of a snapshot, by its path below dir.
func (e *Engine) Objects(root format.ID, dir string) map[string]Object {
	e.T.Helper()
	all := map[string]Object{}
	require.NoError(e.T, e.With(func(r *repo.Repository) error {
		return browse.List(context.Background(), r.LoadBlob, root, dir, true, func(path string, n *tree.Node) error {
			kept := *n
			o := Object{Node: &kept}
			if n.Type == tree.File && n.Outcome < tree.Skipped {
				var out strings.Builder
				if err := browse.DumpAs(context.Background(), r.LoadBlob, root, path, browse.Archive{}, &out); err != nil {
					return err
				}
				o.Data = out.String()
				require.Equal(e.T, n.Size, uint64(len(o.Data)), "size and content of %s", path)
			}
			all[strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")] = o
			return nil
		})
	}))
	return all
}

// RequireSound requires that a check which reads everything back finds nothing.
func (e *Engine) RequireSound() {
	e.T.Helper()
	require.Empty(e.T, e.Problems(), "what a check finds")
}

// Problems is what a check that reads everything back finds.
func (e *Engine) Problems() (names []string) {
	e.T.Helper()
	require.NoError(e.T, e.With(func(r *repo.Repository) error {
		l := report.NewJob(report.Check, time.Now)
		found, err := check.Run(context.Background(), r, check.Options{ReadData: true, Scratch: e.T.TempDir()}, l)
		if err != nil {
			return err
		}
		for _, p := range found.Problems {
			names = append(names, fmt.Sprintf("%s: %v", p.Object, p.Err))
		}
		return nil
	}))
	return names
}

// Soak is how long the tests that get better with time go on. Without it they are as short as a test should be.
var Soak = flag.Duration("soak", 0, "run the tests of crashes and moments for this long, those of bounds at full size")

const roleVariable = "TIDEMARK_ENGINE_TEST_ROLE"

// Role is what this process was started for by another process of the same test; empty in the first one.
func Role() string { return os.Getenv(roleVariable) }

// Main runs the tests of a package of this folder. It ends a process that has a role together with its parent, however
// the parent ends. Otherwise a process that makes backups for ever would never stop.
func Main(m *testing.M) {
	testkit.CollectLess()
	testkit.Together(4)
	if Role() != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	os.Exit(testkit.RunWithOwnMounts(m))
}

// Again is a command that runs the same test in another process, in another role, and ends with this one.
func Again(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{"-test.run=^" + t.Name() + "$", "-test.v"},
		args...)...)
	if runtime.GOOS != "linux" {
		cmd.Path = os.Args[0]
	}
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	_, err := cmd.StdinPipe() // open until the command has ended, or this process has
	require.NoError(t, err)
	return cmd
}

// Nobody is the ID of an unprivileged user, for tests of files that belong to another user.
const Nobody = 65534

// AsNobody runs the test once more as a user without rights, and reports whether it did: the caller then has nothing
// left to do. A process that is not root does it itself.
func AsNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	dir := testkit.RamDir(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	cmd := Again(t, "nobody")
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: Nobody, Gid: Nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "as nobody:\n%s", out)
	require.NotContains(t, string(out), "--- SKIP", "the test did not run as nobody")
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return true
}

// Written makes files with these contents below dir.
func Written(t testing.TB, dir string, contents map[string]string) {
	t.Helper()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// Inode returns the inode number of path itself.
func Inode(t testing.TB, path string) uint64 {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	st, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return uint64(st.Ino)
}

// Failures lists what the last job could not do.
func (e *Engine) Failures() []string {
	var lines []string
	for _, i := range e.Ledger.Issues() {
		if !i.Remark {
			lines = append(lines, fmt.Sprintf("%s: %s: %v", i.Path, i.Op, i.Err))
		}
	}
	return lines
}

// Target is a restore into dst without further wishes.
func Target(dst string) restore.Target { return restore.Target{Path: dst} }

const Secret = "SECRET: lies outside the source"

// Outside is a directory beside the source into which nothing may lead.
func Outside(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(dir, "outside")
	Written(t, out, map[string]string{"secret": Secret, "deeper/secret": Secret})
	return out
}

// RequireNoSecret requires that nothing from outside the source is in the snapshot.
func RequireNoSecret(t testing.TB, found map[string]Object) {
	t.Helper()
	for path, o := range found {
		require.NotContains(t, o.Data, "SECRET", path)
	}
}

// Count returns how many files of a kind there are.
func Count(t testing.TB, st store.Store, kind store.Kind) (n int) {
	t.Helper()
	for info, err := range st.List(context.Background(), kind) {
		require.NoError(t, err)
		none := info.Fence || kind == store.Lease && lease.IsProbe(info.Name.ID) // no writer
		if !none && !marks.Tombstone(info.Name) {                                // which stays for a year
			n++
		}
	}
	return n
}

// RequireEverySnapshotReadable restores all of them.
func (e *Engine) RequireEverySnapshotReadable(src string) {
	e.T.Helper()
	var refs []string
	require.NoError(e.T, e.With(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		for _, l := range listed {
			refs = append(refs, l.ID.String())
		}
		return err
	}))
	require.NotEmpty(e.T, refs)
	for _, ref := range refs[max(0, len(refs)-20):] {
		e.RequireReadable(ref, src)
	}
}
