package localfs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// onImage mounts a new ext4 on a loop device, with files kept inside their inodes where they fit.
func onImage(t *testing.T) string {
	t.Helper()
	needRoot(t)
	image, point := filepath.Join(t.TempDir(), "image"), t.TempDir()
	write(t, image, "")
	require.NoError(t, os.Truncate(image, 32<<20))
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-b", "4096", "-I", "256", "-O", "inline_data", image},
		{"mount", "-o", "loop", image, point}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("needs an ext4 image: %v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", point).Run()) })
	return point
}

// opens opens files and returns them as they would be read, with the memory for it.
func opens(t *testing.T, b *Batch, d *Dir, names []string) (files []BatchFile, buffer []byte) {
	t.Helper()
	at := 0
	for i, name := range names {
		f, err := b.Open(d, name, Known{})
		require.NoError(t, err)
		t.Cleanup(func() { b.Done(f) })
		files = append(files, BatchFile{File: f, Index: i, Size: f.Opened().Size, At: at})
		at += int(f.Opened().Size) + 1
	}
	return files, make([]byte, at)
}

// indices are the numbers of files in their present order.
func indices(files []BatchFile) (list []int) {
	for _, w := range files {
		list = append(list, w.Index)
	}
	return list
}

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// scattered makes files with a disk order unlike that of their inodes, each synced in its turn. Those with a hole at
// the beginning have a block there.
func scattered(t *testing.T, path string, n int) (names, contents []string) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(3, 9))
	for i := range n {
		names = append(names, fmt.Sprintf("f%03d", i))
		contents = append(contents, string(testkit.Noise(uint64(i), 5000+i)))
		write(t, filepath.Join(path, names[i]), "")
	}
	for _, i := range rnd.Perm(n) {
		f, err := os.OpenFile(filepath.Join(path, names[i]), os.O_WRONLY, 0)
		require.NoError(t, err)
		switch i % 10 {
		case 3: // stays empty
			contents[i] = ""
		case 5: // inside the inode
			contents[i] = "tiny"
		case 7: // begins with a hole
			contents[i] = strings.Repeat("\x00", 8192) + contents[i]
			require.NoError(t, f.Truncate(8192))
		}
		hole := len(contents[i]) - len(strings.TrimLeft(contents[i], "\x00"))
		_, err = f.WriteAt([]byte(contents[i][hole:]), int64(hole))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
	return names, contents
}

// firstBlock asks another interface of the kernel (FIBMAP) for the place of the first block of a file that has one.
func firstBlock(t *testing.T, path string, content string) uint64 {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	const request, block = 1, 4096
	for at := range len(content)/block + 1 {
		number := [2]uint32{uint32(at)}
		require.NoError(t, ioctl(int(f.Fd()), request, &number))
		if number[0] != 0 {
			return uint64(number[0]) * block
		}
	}
	return 0
}

// Files are read in the order in which they lie on the disk, those without a place before all others, in the order in
// which they were given; and each has its own content.
func TestSortByPositionByPlace(t *testing.T) {
	path := onImage(t)
	names, contents := scattered(t, path, 150)
	d := openAt(t, path)
	for kind, b := range batches(t) {
		t.Run(kind, func(t *testing.T) {
			files, buffer := opens(t, b, d, names)
			b.SortByPosition(files)
			require.ElementsMatch(t, upTo(150), indices(files))
			last, placeless, moved := uint64(0), 0, false
			for k, w := range files {
				place := uint64(0)
				if w.Index%10 != 3 && w.Index%10 != 5 {
					place = firstBlock(t, filepath.Join(path, names[w.Index]), contents[w.Index])
					require.NotZero(t, place)
				} else {
					placeless++
				}
				require.Equal(t, place, w.position, names[w.Index])
				require.GreaterOrEqual(t, place, last, names[w.Index])
				if k > 0 && place == last {
					require.Greater(t, w.Index, files[k-1].Index)
				}
				moved = moved || place > 0 && k > 0 && w.Index < files[k-1].Index
				last = place
			}
			require.Equal(t, 30, placeless)
			require.True(t, moved, "the order of inodes is another")
			b.ReadWhole(buffer, files)
			for _, w := range files {
				require.NoError(t, w.Err)
				require.Equal(t, contents[w.Index], string(buffer[w.At:w.At+w.N]))
			}
		})
	}
}

// A query of positions does not force data to the disk.
func TestSortByPositionWritesNothing(t *testing.T) {
	path := onImage(t)
	names, _ := scattered(t, path, 10)
	write(t, filepath.Join(path, "z dirty"), strings.Repeat("dirty", 2000))
	names = append(names, "z dirty")
	b := NewBatch(false)
	for range 2 {
		files, _ := opens(t, b, openAt(t, path), names)
		b.SortByPosition(files)
		require.Equal(t, []int{3, 5, 10}, indices(files)[:3])
	}
}

// A file system without positions is queried once, and the order is kept.
func TestSortWithoutPositions(t *testing.T) {
	path, err := os.MkdirTemp("/dev/shm", "tidemark-place-")
	if err != nil {
		t.Skip("needs /dev/shm: ", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint(i))
		write(t, filepath.Join(path, names[i]), "content")
	}
	d, gate := gated(t, t.Context(), path, iopolicy.Important)
	b := NewBatch(false)
	files, _ := opens(t, b, d, names)
	before := gate.Stats().Operations
	b.SortByPosition(files)
	require.Equal(t, upTo(100), indices(files))
	asked := gate.Stats().Operations
	require.Positive(t, asked-before)
	require.LessOrEqual(t, asked-before, uint64(MaxStatBatch))
	b.SortByPosition(files)
	require.Equal(t, upTo(100), indices(files))
	require.Equal(t, asked, gate.Stats().Operations)
	require.False(t, files[0].File.hasPositions())
}

// Each query is an operation of the gate. If the gate admits nothing, the order is kept.
func TestSortPassesTheGate(t *testing.T) {
	path := onImage(t)
	names, _ := scattered(t, path, 60)
	ctx, cancel := context.WithCancel(t.Context())
	d, gate := gated(t, ctx, path, iopolicy.Standard)
	b := NewBatch(false)
	files, _ := opens(t, b, d, names)
	before := gate.Stats().Operations
	b.SortByPosition(files)
	require.EqualValues(t, 60, gate.Stats().Operations-before)
	require.NotEqual(t, upTo(60), indices(files))
	files, _ = opens(t, b, d, names)
	cancel()
	before = gate.Stats().Operations
	b.SortByPosition(files)
	require.Equal(t, upTo(60), indices(files))
	require.Equal(t, before, gate.Stats().Operations)
}

func TestPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, make([]byte, 10_000), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync())
	if at, ok := firstExtent(int(f.Fd()), 10_000); ok {
		require.Zero(t, at%512)
	}
	proc, err := os.Open("/proc/self/status")
	require.NoError(t, err)
	defer proc.Close()
	_, ok := firstExtent(int(proc.Fd()), 10)
	require.False(t, ok)
}
