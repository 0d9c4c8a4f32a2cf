package device

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// open opens a directory for a test.
func open(t *testing.T, path string) *localfs.Dir {
	t.Helper()
	dir, err := localfs.OpenDir(path)
	require.NoError(t, err)
	t.Cleanup(dir.Release)
	return dir
}

// fill makes files of 1 MiB in folders, on the device when it returns.
func fill(t *testing.T, top string, files int) {
	t.Helper()
	for i := range files {
		dir := filepath.Join(top, "packs", strconv.Itoa(i%4))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		file, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		require.NoError(t, err)
		content := make([]byte, 1<<20)
		_, _ = rand.Read(content)
		_, err = file.Write(content)
		require.NoError(t, err)
		require.NoError(t, file.Sync())
		require.NoError(t, file.Close())
	}
}

// How long reads take is nothing to test by; that they reached the device, each one, and were heard, is.
func TestProbe(t *testing.T) {
	for kind, size := range map[string]int64{"ext4": 64 << 20, "xfs": 320 << 20, "btrfs": 256 << 20} {
		t.Run(kind, func(t *testing.T) {
			_, point := loopDevice(t, memoryDir(t), kind, size)
			fill(t, point, 32)
			require.NoError(t, os.WriteFile(filepath.Join(point, "small"), []byte("x"), 0o600))
			info := of(t, point)
			before, _ := completed(t, info.Node)
			j := weak(Unknown)
			require.NoError(t, probe(t.Context(), nil, open(t, point), j, 16<<20))
			after, _ := completed(t, info.Node)
			require.GreaterOrEqual(t, after-before, uint64(probeReads))
			require.Zero(t, j.heard, "panels are full")
			m, decided, why := j.Medium()
			t.Log(m, decided, why)
		})
	}
}

func TestProbeWithoutEnough(t *testing.T) {
	_, point := loopDevice(t, memoryDir(t), "ext4", 64<<20)
	fill(t, point, 8)
	sparse, err := os.Create(filepath.Join(point, "sparse"))
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(4<<30))
	require.NoError(t, sparse.Close())
	j := weak(HDD)
	err = Probe(t.Context(), nil, open(t, point), j)
	require.ErrorIs(t, err, ErrNoSample)
	require.ErrorContains(t, err, "8 MiB of files found, 1024 needed")
	m, decided, _ := j.Medium()
	require.False(t, decided)
	require.Equal(t, HDD, m)
}

// Files in memory reach no device, whatever the probe is told of them.
func TestProbeOfMemory(t *testing.T) {
	dir := memoryDir(t)
	fill(t, dir, 8)
	j := weak(Unknown)
	require.ErrorIs(t, probe(t.Context(), nil, open(t, dir), j, 4<<20), ErrNoSample)
	require.Zero(t, j.heard)
	_, decided, _ := j.Medium()
	require.False(t, decided)
}

func TestProbeStops(t *testing.T) {
	_, point := loopDevice(t, memoryDir(t), "ext4", 64<<20)
	fill(t, point, 8)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := weak(Unknown)
	require.ErrorIs(t, probe(ctx, nil, open(t, point), j, 4<<20), context.Canceled)
	require.NoError(t, Probe(ctx, nil, open(t, point), NewJudge(Info{Medium: SSD})), "nothing to ask")
}

func TestProbeStaysOnItsDevice(t *testing.T) {
	_, point := loopDevice(t, memoryDir(t), "ext4", 64<<20)
	fill(t, point, 4)
	inner := filepath.Join(point, "inner")
	require.NoError(t, os.Mkdir(inner, 0o755))
	if out, ok := command("mount", "-t", "tmpfs", "none", inner); !ok {
		t.Skip("needs to mount: ", out)
	}
	t.Cleanup(func() {
		out, ok := command("umount", inner)
		require.True(t, ok, out)
	})
	fill(t, inner, 4)
	var s sample
	defer s.release()
	require.NoError(t, s.gather(t.Context(), open(t, point), 1<<30))
	require.Equal(t, 4, s.found)
}

func TestSampleIsFair(t *testing.T) {
	dir := open(t, t.TempDir())
	var s sample
	for i := range 10 * probeFiles {
		s.take(sampled{dir, strconv.Itoa(i), uint64(i + 1)})
	}
	require.Len(t, s.files, probeFiles)
	require.Equal(t, 10*probeFiles, s.found)
	late := 0
	for _, f := range s.files {
		if f.size > 5*probeFiles {
			late++
		}
	}
	require.Positive(t, late, "not only the first ones")
	for range 1000 {
		require.Positive(t, s.pick().size)
	}
	s.release()
	_, err := dir.Fstat()
	require.NoError(t, err, "only what was retained was released")
}
