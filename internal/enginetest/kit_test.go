package enginetest

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
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// memory is where Linux keeps files in memory.
const memory = "/dev/shm"

// ramDir is a directory in memory where the system has one: most tests here make thousands of small files, and a disk's
// journal would be what they wait for. It is open to every user.
func ramDir(t testing.TB) string {
	t.Helper()
	base := memory
	if info, err := os.Stat(base); err != nil || !info.IsDir() {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "tidemark-engine-")
	if err != nil {
		return testkit.TempDir(t)
	}
	t.Cleanup(func() {
		_ = testkit.Unlock(dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// besides is another directory on the kind of file system that dir lies on.
func besides(t testing.TB, dir string) string {
	t.Helper()
	if strings.HasPrefix(dir, memory) {
		return ramDir(t)
	}
	return testkit.TempDir(t)
}

// object is one object of a snapshot.
type object struct {
	*tree.Node
	data string // of a file
}

// objects returns everything below dir of a snapshot, by its path below dir.
func (e *engine) objects(root format.ID, dir string) map[string]object {
	e.t.Helper()
	all := map[string]object{}
	require.NoError(e.t, e.with(func(r *repo.Repository) error {
		return browse.List(context.Background(), r, root, dir, true, func(path string, n *tree.Node) error {
			kept := *n
			o := object{Node: &kept}
			if n.Type == tree.File && n.Outcome < tree.Skipped {
				var out strings.Builder
				if err := browse.Dump(context.Background(), r, root, path, &out); err != nil {
					return err
				}
				o.data = out.String()
				require.Equal(e.t, n.Size, uint64(len(o.data)), "size and content of %s", path)
			}
			all[strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")] = o
			return nil
		})
	}))
	return all
}

// requireSound demands that a check which reads everything back finds nothing.
func (e *engine) requireSound() {
	e.t.Helper()
	require.Empty(e.t, e.problems(), "what a check finds")
}

// problems is what a check that reads everything back finds.
func (e *engine) problems() (names []string) {
	e.t.Helper()
	require.NoError(e.t, e.with(func(r *repo.Repository) error {
		l := report.NewJob(report.Check, time.Now)
		found, err := check.Run(context.Background(), r, check.Options{ReadData: true, Scratch: e.t.TempDir()}, l)
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

// soak is how long the tests that get better with time go on. Without it they are as short as a test should be.
var soak = flag.Duration("soak", 0, "run the crash tests for this long, and the tests of bounds at full size")

const roleVariable = "TIDEMARK_ENGINE_TEST_ROLE"

// role is what this process was started for by another process of the same test; empty in the first one.
func role() string { return os.Getenv(roleVariable) }

// TestMain ends a process that has a role with the one that started it, whatever ends that: nobody else would stop one that
// makes backups for ever.
func TestMain(m *testing.M) {
	flag.Parse()
	if role() != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	os.Exit(testkit.RunWithOwnMounts(m))
}

// again is a command that runs the same test in another process, in another role, and ends with this one.
func again(t testing.TB, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", append([]string{"-test.run=^" + t.Name() + "$", "-test.v"}, args...)...)
	if runtime.GOOS != "linux" {
		cmd.Path = os.Args[0]
	}
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	_, err := cmd.StdinPipe() // open until the command has ended, or this process has
	require.NoError(t, err)
	return cmd
}

// nobody is the user as whom tests look at what is not theirs.
const nobody = 65534

// asNobody runs the test once more as a user without rights, and reports whether it did: the caller then has nothing
// left to do. A process that is not root does it itself.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	dir := ramDir(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	cmd := again(t, "nobody")
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "as nobody:\n%s", out)
	require.NotContains(t, string(out), "--- SKIP", "the test did not run as nobody")
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return true
}

// written makes files with these contents below dir.
func written(t testing.TB, dir string, contents map[string]string) {
	t.Helper()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// inode returns the inode number of path itself.
func inode(t testing.TB, path string) uint64 {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	st, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return uint64(st.Ino)
}

// failures lists what the last job could not do.
func (e *engine) failures() []string {
	var lines []string
	for _, i := range e.ledger.Issues() {
		if i.Severity == report.Failure {
			lines = append(lines, fmt.Sprintf("%s: %s: %v", i.Path, i.Op, i.Err))
		}
	}
	return lines
}

// target is a restore into dst without further wishes.
func target(dst string) restore.Target { return restore.Target{Path: dst} }

const secret = "SECRET: lies outside the source"

// outside is a directory beside the source into which nothing may lead.
func outside(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(dir, "outside")
	written(t, out, map[string]string{"secret": secret, "deeper/secret": secret})
	return out
}

// requireNoSecret demands that nothing from outside the source is in the snapshot.
func requireNoSecret(t testing.TB, found map[string]object) {
	t.Helper()
	for path, o := range found {
		require.NotContains(t, o.data, "SECRET", path)
	}
}

// count returns how many files of a kind there are.
func count(t testing.TB, st store.Store, kind store.Kind) (n int) {
	t.Helper()
	for _, err := range st.List(context.Background(), kind) {
		require.NoError(t, err)
		n++
	}
	return n
}

// requireEverySnapshotReadable restores all of them.
func (e *engine) requireEverySnapshotReadable(src string) {
	e.t.Helper()
	var refs []string
	require.NoError(e.t, e.with(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		for _, l := range listed {
			refs = append(refs, l.ID.String())
		}
		return err
	}))
	require.NotEmpty(e.t, refs)
	for _, ref := range refs[max(0, len(refs)-20):] {
		e.requireReadable(ref, src)
	}
}
