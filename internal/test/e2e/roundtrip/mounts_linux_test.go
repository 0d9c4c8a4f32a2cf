package roundtrip

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestMounts: other file systems inside a source, of every sort, with and without the rules about them.
func TestMounts(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	testkit.RequireRoot(t)
	dir := testkit.RamDir(t)
	src := filepath.Join(dir, "src")
	at := func(name string) string { return filepath.Join(src, name) }
	kit.Written(t, src, map[string]string{"f": "f", "d/f": "df"})
	testkit.MountMemory(t, at("other"), "1m")
	testkit.Mount(t, "proc", "proc", at("proc"), 0, "")
	testkit.Mount(t, at("d"), "", at("bound"), unix.MS_BIND, "")
	kit.Written(t, src, map[string]string{"other/f": "of"})
	require.NoError(t, os.Link(at("other/f"), at("other/second name")))
	kit.Settle()

	for _, c := range []struct {
		name   string
		kinds  []rules.Kind
		has    []string
		hasNot []string
	}{
		{"pseudo file systems skipped", []rules.Kind{rules.Pseudo},
			[]string{"f", "d/f", "other", "other/f", "other/second name", "proc", "bound/f"},
			[]string{"proc/self", "proc/1", "proc/version"}},
		{"one file system", []rules.Kind{rules.Pseudo, rules.OneSystem},
			[]string{"f", "d/f", "other", "proc", "bound/f"}, []string{"other/f", "proc/version"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := rules.NewBuilder()
			for _, kind := range c.kinds {
				b.Flag(kind, "test")
			}
			e := kit.NewEngine(t, nil)
			job := e.Job(src)
			job.Source.Rules = b.Compile()
			made, _, err := e.Backup(job)
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			got := e.Objects(made.Snapshot.Tree, src)
			for _, name := range c.has {
				require.Contains(t, got, name)
			}
			for _, name := range c.hasNot {
				require.NotContains(t, got, name)
			}
			require.True(t, got["other"].Mount, "a mount point is marked")
			e.RequireSound()

			_, totals, err := e.Backup(job)
			require.NoError(t, err)
			require.Zero(t, totals.Bytes.Read)
			dst := filepath.Join(testkit.RamDir(t), "out")
			_, err = e.Restore(src, kit.Target(dst))
			require.NoError(t, err)
			require.Empty(t, e.Failures())
			require.DirExists(t, filepath.Join(dst, "proc"), "the place to mount it is restored")
		})
	}

	t.Run("a pseudo file system that was named", func(t *testing.T) {
		b := rules.NewBuilder()
		b.Flag(rules.Pseudo, "test")
		e := kit.NewEngine(t, nil)
		job := e.Job(at("proc/sys/kernel/random"))
		job.Source.Rules = b.Compile()
		made, _, err := e.Backup(job)
		require.NoError(t, err)
		got := e.Objects(made.Snapshot.Tree, at("proc/sys/kernel/random"))
		require.Contains(t, got, "boot_id")
		require.Len(t, strings.TrimSpace(got["boot_id"].Data), 36, "a file of size 0 with content is read")
		require.Equal(t, tree.Static, got["boot_id"].Outcome)
	})
}

// TestMountThatAppearsWhenItIsEntered: a mount that appears on a directory between stat and open, as with automounts,
// is treated like any other file system.
func TestMountThatAppearsWhenItIsEntered(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	testkit.RequireRoot(t)
	for name, one := range map[string]bool{"entered": false, "one file system": true} {
		t.Run(name, func(t *testing.T) {
			src := filepath.Join(testkit.RamDir(t), "src")
			sub := filepath.Join(src, "sub")
			kit.Written(t, src, map[string]string{"f": "f", "sub/hidden": "hidden", "z/f": "zf"})
			kit.Settle()
			b := rules.NewBuilder()
			if one {
				b.Flag(rules.OneSystem, "test")
			}
			e := kit.NewEngine(t, nil)
			job := e.Job(src)
			job.Source.Rules = b.Compile()
			ino, mounted := kit.Inode(t, sub), false
			job.Parallel = kit.Parallel(1, 1, 1)
			job.Source.Skip = func(_, at uint64) bool {
				if at == ino && !mounted {
					mounted = true
					testkit.MountMemory(t, sub, "1m")
					kit.Written(t, sub, map[string]string{"f": "in sub", "deeper/f": "deeper"})
				}
				return false
			}
			for range 3 { // the last two find it there
				made, _, err := e.Backup(job)
				require.NoError(t, err)
				require.Empty(t, e.Failures())
				got := e.Objects(made.Snapshot.Tree, src)
				require.Equal(t, "zf", got["z/f"].Data)
				require.Contains(t, got, "sub")
				require.NotContains(t, got, "sub/hidden")
				if one {
					require.NotContains(t, got, "sub/f")
					require.NotContains(t, got, "sub/deeper")
					continue
				}
				require.Equal(t, "in sub", got["sub/f"].Data)
				require.Equal(t, "deeper", got["sub/deeper/f"].Data)
				require.False(t, got["sub/f"].Mount)
			}
		})
	}
}
