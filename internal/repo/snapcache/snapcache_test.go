package snapcache

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

func TestCopies(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "none")
	c := Open(folder, localfs.IOContext{})
	one, two := []byte("one"), []byte("two")
	a, b := seal.FileID(one), seal.FileID(two)
	require.Nil(t, c.Get(a))
	c.Retain(nil)
	require.NoDirExists(t, folder, "reading makes no folder")
	c.Put(a, one)
	c.Put(b, two)
	require.Equal(t, one, c.Get(a))

	// A copy whose file on the target is damaged is only for putting that back.
	c.Damaged(a)
	require.Nil(t, c.Get(a))
	require.Equal(t, one, c.Copy(a))
	c.Put(a, one)
	require.Equal(t, one, c.Get(a))
	c.Damaged(a)
	c.Retain(map[format.ID]bool{b: true})
	require.Nil(t, c.Copy(a), "removed with its mark")
	require.Equal(t, two, c.Get(b))

	path := filepath.Join(folder, "snapshots", b.String())
	for name, spoil := range map[string]func() error{
		"torn":    func() error { return os.Truncate(path, 1) },
		"changed": func() error { return os.WriteFile(path, []byte("owt"), 0o600) },
		"a link": func() error {
			return os.Symlink("/etc/hostname", path)
		},
		"a pipe": func() error { return unix.Mkfifo(path, 0o600) },
	} {
		if name[0] == 'a' {
			require.NoError(t, os.Remove(path))
		}
		require.NoError(t, spoil(), name)
		require.Nil(t, c.Copy(b), name)
		_ = os.Remove(path)
		c.Put(b, two)
		require.Equal(t, two, c.Get(b), name)
	}
	Cache{}.Put(a, one)
	require.Nil(t, Cache{}.Get(a))
}

// TestARecordOfPublishedSnapshotsIsBelievedWhole: whatever bit of the record is flipped, and wherever it is cut off,
// each snapshot in it is one that was recorded, at its time. Another ID would be reported as a missing snapshot.
func TestARecordOfPublishedSnapshotsIsBelievedWhole(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, recordName)
	for i := range 3 {
		require.NoError(t, AddPublished(folder, format.ID{byte(i), 0xab, 31: 7}, time.Unix(1_700_000_000+int64(i), 0)))
	}
	require.NoError(t, SetMissing(folder, []format.ID{{1, 0xab, 31: 7}}, true))
	all, err := Published(folder)
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.True(t, all[format.ID{1, 0xab, 31: 7}].Missing)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	believed := func(text []byte) int {
		require.NoError(t, os.WriteFile(path, text, 0o600))
		some, err := Published(folder)
		require.NoError(t, err)
		for id, p := range some {
			require.Equal(t, all[id], p)
		}
		return len(some)
	}
	require.Equal(t, 3, believed(whole))
	for bit := range 8 * len(whole) {
		text := bytes.Clone(whole)
		text[bit/8] ^= 1 << (bit % 8)
		require.GreaterOrEqual(t, believed(text), 1)
		require.Less(t, believed(text), 3, "bit %d", bit)
	}
	for n := range whole {
		require.Less(t, believed(whole[:n]), 3)
	}
}
