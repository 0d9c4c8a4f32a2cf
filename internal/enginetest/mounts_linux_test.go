package enginetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestMounts: other file systems inside a source, of every sort, with and without the rules about them.
func TestMounts(t *testing.T) {
	testkit.RequireRoot(t)
	dir := ramDir(t)
	src := filepath.Join(dir, "src")
	at := func(name string) string { return filepath.Join(src, name) }
	written(t, src, map[string]string{"f": "f", "d/f": "df"})
	mount(t, "tmpfs", "tmpfs", at("other"), 0, "size=1m")
	mount(t, "proc", "proc", at("proc"), 0, "")
	mount(t, at("d"), "", at("bound"), unix.MS_BIND, "")
	written(t, src, map[string]string{"other/f": "of"})
	require.NoError(t, os.Link(at("other/f"), at("other/second name")))
	settle()

	for _, c := range []struct {
		name   string
		kinds  []rules.Kind
		has    []string
		hasNot []string
	}{
		{"pseudo file systems skipped", []rules.Kind{rules.Pseudo},
			[]string{"f", "d/f", "other", "other/f", "other/second name", "proc", "bound/f"}, []string{"proc/self", "proc/1", "proc/version"}},
		{"one file system", []rules.Kind{rules.Pseudo, rules.OneSystem},
			[]string{"f", "d/f", "other", "proc", "bound/f"}, []string{"other/f", "proc/version"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := rules.NewBuilder()
			for _, kind := range c.kinds {
				b.Flag(kind, "test")
			}
			e := newEngine(t, nil)
			job := e.job(src)
			job.Source.Rules = b.Compile()
			made, _, err := e.backup(job)
			require.NoError(t, err)
			require.Empty(t, e.failures())
			got := e.objects(made.Snapshot.Tree, src)
			for _, name := range c.has {
				require.Contains(t, got, name)
			}
			for _, name := range c.hasNot {
				require.NotContains(t, got, name)
			}
			require.True(t, got["other"].Mount, "a mount point is marked")
			e.requireSound()

			_, totals, err := e.backup(job)
			require.NoError(t, err)
			require.Zero(t, totals.Bytes.Read)
			dst := filepath.Join(ramDir(t), "out")
			_, err = e.restore(src, target(dst))
			require.NoError(t, err)
			require.Empty(t, e.failures())
			require.DirExists(t, filepath.Join(dst, "proc"), "the place to mount it is restored")
		})
	}

	t.Run("a pseudo file system that was named", func(t *testing.T) {
		b := rules.NewBuilder()
		b.Flag(rules.Pseudo, "test")
		e := newEngine(t, nil)
		job := e.job(at("proc/sys/kernel/random"))
		job.Source.Rules = b.Compile()
		made, _, err := e.backup(job)
		require.NoError(t, err)
		got := e.objects(made.Snapshot.Tree, at("proc/sys/kernel/random"))
		require.Contains(t, got, "boot_id")
		require.Len(t, strings.TrimSpace(got["boot_id"].data), 36, "a file of size 0 with content is read")
		require.Equal(t, tree.Static, got["boot_id"].Outcome)
	})
}

// TestExcludedNameIsNeverLookedAt: not even stat, which hangs on a mount whose server is away. Whether a directory was
// looked at is told by an automatic mount that would be triggered, or, as here, by a directory nobody may search: each
// look at an entry in it would fail.
func TestExcludedNameIsNeverLookedAt(t *testing.T) {
	if asNobody(t) {
		return
	}
	dir := testkit.TempDir(t)
	src := filepath.Join(dir, "src")
	written(t, src, map[string]string{"seen/hangs": "x", "seen/.hidden": "x", "hangs/below": "x"})
	require.NoError(t, os.Chmod(filepath.Join(src, "seen"), 0o400)) // may be listed, but its entries not be looked at
	require.NoError(t, os.Chmod(filepath.Join(src, "hangs"), 0))
	settle()
	b := rules.NewBuilder()
	require.NoError(t, b.Exclude("hangs", false, "test"))
	require.NoError(t, b.Exclude(".hid*", false, "test"))
	e := newEngine(t, nil)
	job := e.job(src)
	job.Source.Rules = b.Compile()
	made, totals, err := e.backup(job)
	require.NoError(t, err)
	require.Empty(t, e.failures())
	require.EqualValues(t, 3, totals.Objects.Excluded)
	require.NotContains(t, e.objects(made.Snapshot.Tree, src), "hangs")

	bare := e.job(src) // the same without the rules fails, so the test could
	_, _, err = e.backup(bare)
	require.NoError(t, err)
	require.Len(t, e.failures(), 3)
}

// TestMountThatAppearsWhenItIsEntered: what is mounted on a directory between the look at it and its opening, as some file
// systems do by themselves, is another file system like any.
func TestMountThatAppearsWhenItIsEntered(t *testing.T) {
	testkit.RequireRoot(t)
	for name, one := range map[string]bool{"entered": false, "one file system": true} {
		t.Run(name, func(t *testing.T) {
			src := filepath.Join(ramDir(t), "src")
			sub := filepath.Join(src, "sub")
			written(t, src, map[string]string{"f": "f", "sub/hidden": "hidden", "z/f": "zf"})
			settle()
			b := rules.NewBuilder()
			if one {
				b.Flag(rules.OneSystem, "test")
			}
			e := newEngine(t, nil)
			job := e.job(src)
			job.Source.Rules = b.Compile()
			ino, mounted := inode(t, sub), false
			job.Parallel = parallel(1, 1, 1)
			job.Source.Skip = func(_, at uint64) bool {
				if at == ino && !mounted {
					mounted = true
					mount(t, "tmpfs", "tmpfs", sub, 0, "size=1m")
					written(t, sub, map[string]string{"f": "in sub", "deeper/f": "deeper"})
				}
				return false
			}
			for range 3 { // the last two find it there
				made, _, err := e.backup(job)
				require.NoError(t, err)
				require.Empty(t, e.failures())
				got := e.objects(made.Snapshot.Tree, src)
				require.Equal(t, "zf", got["z/f"].data)
				require.Contains(t, got, "sub")
				require.NotContains(t, got, "sub/hidden")
				if one {
					require.NotContains(t, got, "sub/f")
					require.NotContains(t, got, "sub/deeper")
					continue
				}
				require.Equal(t, "in sub", got["sub/f"].data)
				require.Equal(t, "deeper", got["sub/deeper/f"].data)
				require.False(t, got["sub/f"].Mount)
			}
		})
	}
}
