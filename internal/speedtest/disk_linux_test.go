package speedtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// mountTmpfs mounts a file system in memory of a size.
func mountTmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	testkit.MountMemory(t, dir, size)
	return dir
}

func TestFullDiskIsReportedBefore(t *testing.T) {
	c := onlyDisk(mountTmpfs(t, "18m"))
	_, err := Run(t.Context(), c)
	require.ErrorIs(t, err, ErrSpace)
	require.Contains(t, err.Error(), "18 MiB free, and 20 are needed")
	empty(t, c.Dir)
}

// The error comes before the processor is measured.
func TestDiskThatCannotBeWrittenToIsReportedBefore(t *testing.T) {
	dir := mountTmpfs(t, "64m")
	require.NoError(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err := Run(t.Context(), small(dir))
	require.ErrorIs(t, err, unix.EROFS)
	require.ErrorContains(t, err, "name a directory in which files can be made")
}

func TestDiskThatFillsUpMeanwhileIsCleanedUp(t *testing.T) {
	c := onlyDisk(mountTmpfs(t, "40m"))
	c.Pass = func(iopolicy.Policy) (*iopolicy.Pass, func()) { // when the room was looked at already
		require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "other"), make([]byte, 39<<20), 0o600))
		return nil, nil
	}
	_, err := collect(t, t.Context(), c)
	require.ErrorIs(t, err, ErrSpace)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, os.Remove(filepath.Join(c.Dir, "other")))
	empty(t, c.Dir)
}

func TestMemoryIsNotTakenForADisk(t *testing.T) {
	c := onlyDisk(mountTmpfs(t, "64m"))
	c.Policies = []iopolicy.Policy{iopolicy.Utility}
	all, err := collect(t, t.Context(), c)
	require.NoError(t, err)
	for _, r := range all {
		require.Equal(t, r.What == ReadInOrder || r.What == ReadAtRandom, r.OffDevice, "%s", r.What)
	}
}

// onDisk is a directory on a file system that lies on a disk of this machine.
func onDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	switch uint32(fs.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
	default:
		t.Skipf("the temporary directory lies on a file system of type %#x", fs.Type)
	}
	return dir
}

// TestReadingLeavesNothingForTheNextRun: what was read ahead when a run ended would come from memory in the next one.
func TestReadingLeavesNothingForTheNextRun(t *testing.T) {
	d, err := openDisk(onDisk(t), 16<<20)
	require.NoError(t, err)
	defer d.close()
	_, err = d.measure(t.Context(), nil, Write, 1, time.Millisecond)
	require.NoError(t, err)
	for _, what := range []What{ReadInOrder, ReadAtRandom} {
		for range 20 {
			_, err := d.measure(t.Context(), nil, what, 1, 100*time.Microsecond)
			require.NoError(t, err)
			f, err := d.tidy.OpenFile(d.names[0])
			require.NoError(t, err)
			pages, known := f.CachedPages()
			f.Close()
			if !known {
				t.Skip("this kernel has no cachestat")
			}
			require.Zero(t, pages, what)
		}
	}
}

func TestReadsComeFromTheDevice(t *testing.T) {
	c := onlyDisk(onDisk(t))
	c.Time = 20 * time.Millisecond
	c.Policies = []iopolicy.Policy{iopolicy.Utility}
	all, err := collect(t, t.Context(), c)
	require.NoError(t, err)
	for _, r := range all {
		require.False(t, r.OffDevice, "%s", r.What)
	}
}

func TestFilesAreNamedSoThatTheyAreKnown(t *testing.T) {
	d, err := openDisk(t.TempDir(), leastBytes)
	require.NoError(t, err)
	defer d.close()
	require.NotEqual(t, d.names[0], d.names[1])
	for _, name := range d.names {
		require.True(t, strings.HasPrefix(name, ".tidemark-bench-"), name)
	}
}
