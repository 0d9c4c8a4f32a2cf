package change

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// cloud is a folder of a cloud provider, in which objects lose their content and get it back.
type cloud struct {
	t    *testing.T
	e    *kit.Engine
	src  string
	away map[uint64]bool // inode numbers
}

func (c *cloud) write(name, content string) {
	path := filepath.Join(c.src, name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(c.t, os.WriteFile(path, []byte(content), 0o644))
}

// evict has the next backups see a name without its content.
func (c *cloud) evict(name string) {
	dir, err := localfs.OpenDir(filepath.Dir(filepath.Join(c.src, name)))
	require.NoError(c.t, err)
	defer dir.Release()
	var st localfs.Stat
	require.NoError(c.t, dir.Lstat(filepath.Base(name), &st))
	c.away[st.Ino] = true
}

// backup makes a snapshot, and returns its files and the notes about the cloud.
func (c *cloud) backup(force bool) (files map[string]string, notes []string) {
	c.t.Helper()
	kit.Settle()
	job := c.e.Job(c.src)
	job.Source.Comparing.Force = force
	job.Source.Dataless = func(st *localfs.Stat) bool { return c.away[st.Ino] }
	out, totals, err := c.e.Backup(job)
	require.NoError(c.t, err)
	require.Zero(c.t, totals.Failures)
	require.False(c.t, out.Failed)
	for _, i := range c.e.Ledger.Issues() {
		if i.Op == "read" && i.Path == "" {
			notes = append(notes, i.Err.Error())
		}
	}
	at := filepath.Join(testkit.RamDir(c.t), "out")
	restored, err := c.e.Restore(c.src, restore.Target{Path: at, Verify: true})
	require.NoError(c.t, err)
	require.Zero(c.t, restored.Failures)
	files = map[string]string{}
	require.NoError(c.t, filepath.WalkDir(at, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rest, _ := filepath.Rel(at, path) // it is below
		files[rest] = string(content)
		return err
	}))
	return files, notes
}

// An object whose content is in the cloud is not read: it keeps what the snapshot before has. What that does not have
// is left out, and stored as soon as its content is here, whatever its times are.
func TestDatalessObjectsKeepTheirContent(t *testing.T) {
	c := &cloud{t, kit.NewEngine(t, nil), testkit.RamDir(t), map[uint64]bool{}}
	c.write("here", "here")
	c.write("file", "old")
	c.write("folder/a", "a")
	c.write("folder/below/b", "b")
	c.write("never", "never was here")
	c.write("unseen/c", "c")
	c.evict("never")
	c.evict("unseen")
	files, notes := c.backup(false)
	whole := map[string]string{"here": "here", "file": "old", "folder/a": "a", "folder/below/b": "b"}
	require.Equal(t, whole, files)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "only in the cloud: 2;")
	require.Contains(t, notes[0], "0 keep what the snapshot before has; 2 are not in this snapshot")

	// On disk is now what reading would find.
	c.evict("file")
	c.evict("folder")
	c.write("file", "new, and fetched")
	c.write("folder/a", "fetched")
	c.write("folder/more", "fetched")
	for range 2 {
		files, notes = c.backup(false)
		require.Equal(t, whole, files)
		require.Len(t, notes, 1)
		require.Contains(t, notes[0], "2 keep what the snapshot before has; 2 are not in this snapshot")
		c.write("here", "changed") // the folder is made again
		whole["here"] = "changed"
	}

	back := c.away
	c.away = map[uint64]bool{} // no time changes
	files, notes = c.backup(false)
	require.Equal(t, map[string]string{"here": "changed", "file": "new, and fetched", "folder/a": "fetched",
		"folder/more": "fetched", "folder/below/b": "b", "never": "never was here", "unseen/c": "c"}, files)
	require.Empty(t, notes)
	c.e.RequireSound()

	c.away = back // without a parent there is nothing to keep
	files, notes = c.backup(true)
	require.Equal(t, map[string]string{"here": "changed"}, files)
	require.Contains(t, notes[0], "0 keep what the snapshot before has; 4 are not in this snapshot")
}
