package localfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs/ring"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// directly returns a batch that reads files below path directly, and skips the test where none does.
func directly(t *testing.T, d *Dir, path string) *Batch {
	t.Helper()
	b := NewBatch(true)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	cold(t, path+"/probe", []byte("content"))
	f, err := b.Open(d, "probe", Known{})
	require.NoError(t, err)
	defer b.Done(f)
	if b.MaxFiles() == 1 || !f.canWait() || !mayDirect(f) {
		t.Skip("nothing is read directly here: there is no io_uring, or the file system is not one of those meant")
	}
	chill(t, path+"/probe") // to find this out may have begun to fetch it
	if n, ok := f.cached(0, 7); !ok || n > 0 {
		t.Skip("the system does not report what is in memory, or does not evict it")
	}
	return b
}

func mayDirect(f *File) bool { return f.host.directSupport.supports(f.opened.Dev, f.fd, f.Confirm) }

// cold writes a file and lets nothing of it stay in memory.
func cold(t *testing.T, path string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, content, 0o600))
	chill(t, path)
}

func chill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Sync())
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// directs counts the direct reads of the last operation.
func (b *Batch) directs() (n int) {
	for i := range b.reads {
		if b.reads[i].Into != nil {
			n++
		}
	}
	return n
}

var directSizes = []int{
	1, 60, 511, 512, 513, directUnit - 1, directUnit, directUnit + 1, 2*directUnit - 1, 2 * directUnit,
	maxDirectRead - 1, maxDirectRead, maxDirectRead + 1, 3 * maxDirectRead,
}

func TestDirectReadsAreThoseOfTheCache(t *testing.T) {
	d, path := openTemp(t)
	b := directly(t, d, path)
	for _, size := range directSizes {
		name, content := fmt.Sprint(size), testkit.Noise(uint64(size), size)
		full := filepath.Join(path, name)
		cold(t, full, content)
		want := outcome{n: size, content: string(content)}
		// Two, since a single file is not read as a batch.
		cold(t, full+" too", content)
		got := readNamed(t, b, d, []string{name, name + " too"}, asOpened, nil)
		require.Equal(t, map[string]outcome{name: want, name + " too": want}, got)
		direct := 0
		if size < maxDirectRead {
			direct = 2
		}
		require.Equal(t, direct, b.directs(), name)

		f, err := d.OpenFile(name)
		require.NoError(t, err)
		pages, ok := f.cached(0, int64(size))
		require.True(t, ok)
		require.Zero(t, pages, "%s: nothing stays", name)
		require.NoError(t, f.Close())
	}
}

// What is in memory is read from there, whether it has reached the disk or not.
func TestWhatIsInMemoryIsNotReadDirectly(t *testing.T) {
	d, path := openTemp(t)
	b := directly(t, d, path)
	for i := range 4 {
		write(t, filepath.Join(path, fmt.Sprint(i)), strings.Repeat("dirty", 100))
	}
	chill(t, path+"/2")
	cold(t, path+"/empty", nil)
	got := readNamed(t, b, d, []string{"0", "1", "2", "3"}, asOpened, nil)
	require.Equal(t, 1, b.directs())
	for name, o := range got {
		require.Equal(t, outcome{n: 500, content: strings.Repeat("dirty", 100)}, o, name)
	}
	require.Equal(t, outcome{}, readNamed(t, b, d, []string{"empty", "0"}, asOpened, nil)["empty"])
	require.Zero(t, b.directs())
}

func TestNothingIsReadDirectlyThatMustNotBe(t *testing.T) {
	d, path := openTemp(t)
	b := directly(t, d, path)
	names := []string{"a", "b"}
	read := func() {
		for _, name := range names {
			cold(t, filepath.Join(path, name), []byte(name))
		}
		for name, o := range readNamed(t, b, d, names, asOpened, nil) {
			require.Equal(t, outcome{n: 1, content: name}, o)
		}
	}
	read()
	require.Equal(t, 2, b.directs())
	b.NoDirectReads()
	read()
	require.Zero(t, b.directs())
	b.noDirect = false

	for _, name := range names {
		chill(t, filepath.Join(path, name))
	}
	var files []BatchFile
	for i, name := range names {
		f, err := b.Open(d, name, Known{})
		require.NoError(t, err)
		defer b.Done(f)
		files = append(files, BatchFile{File: f, Size: 1, At: 2 * i})
	}
	require.Len(t, b.prepare(files, 128<<10), 2)
	require.Zero(t, b.directs(), "inside a window every byte is counted")
	b.prepare(files, 0)
	require.Equal(t, 2, b.directs())
}

// More files than there is memory for are read, too.
func TestDirectReadsKeepToTheirMemory(t *testing.T) {
	d, path := openTemp(t)
	b := directly(t, d, path)
	names, want := []string(nil), map[string]outcome{}
	for i := range 2*batchFiles + 10 {
		name, content := fmt.Sprint(i), testkit.Noise(uint64(i), 3*directUnit+100)
		cold(t, filepath.Join(path, name), content)
		names = append(names, name)
		want[name] = outcome{n: len(content), content: string(content)}
	}
	require.Equal(t, want, readNamed(t, b, d, names, asOpened, nil))
	require.Len(t, b.reads, 10)
	require.Equal(t, 10, b.directs(), "of those that were read last")
	for _, name := range names {
		chill(t, filepath.Join(path, name))
	}
	got := readNamed(t, b, d, names[:batchFiles], asOpened, nil)
	require.Equal(t, directBufferSize/(4*directUnit), b.directs())
	for name, o := range got {
		require.Equal(t, want[name], o)
	}
}

// What happens to a file between opening and reading shows as it does when it is read by way of the cache.
func TestDirectReadsOfWhatChanged(t *testing.T) {
	d, path := openTemp(t)
	b := directly(t, d, path)
	for was, is := range map[int]int{
		100: 5000, 5000: 100, directUnit: directUnit + 1, directUnit - 1: directUnit, 7000: 0, 20: 100_000,
		8192: 4096, 4097: 4096,
		maxDirectRead - 1: 4 * maxDirectRead, 300: 300,
	} {
		t.Run(fmt.Sprintf("%d to %d", was, is), func(t *testing.T) {
			names := []string{"a", "b", "c"}
			for _, name := range names {
				cold(t, filepath.Join(path, name), testkit.Noise(1, was))
			}
			content := testkit.Noise(2, is)
			got := readNamed(t, b, d, names, asOpened, func() {
				for _, name := range names {
					cold(t, filepath.Join(path, name), content)
				}
			})
			require.Equal(t, 3, b.directs())
			n := min(was+1, is)
			for _, name := range names {
				require.Equal(t, outcome{n: n, content: string(content[:n])}, got[name])
			}
		})
	}
}

// A read that came back short, or failed, is made good by way of the cache; the file then reads as any other.
func TestDirectReadsAreMadeGood(t *testing.T) {
	d, path := openTemp(t)
	b := directly(t, d, path)
	content := testkit.Noise(3, 6000)
	for name, came := range map[string]ring.Read{
		"nothing": {}, "an odd part": {N: 100}, "a block": {N: directUnit}, "all but a byte": {N: 5999}, "all": {N: 6000},
		"EINTR": {Err: unix.EINTR}, "EAGAIN": {Err: unix.EAGAIN}, "EINVAL": {Err: unix.EINVAL},
		"not asked": {Err: ring.ErrUnread},
	} {
		t.Run(name, func(t *testing.T) {
			cold(t, path+"/f", content)
			f, err := b.Open(d, "f", Known{})
			require.NoError(t, err)
			defer b.Done(f)
			w, buffer := BatchFile{File: f, Size: 6000, At: 1}, make([]byte, 6003)
			buffer[6002] = 0xA5
			files := b.prepare([]BatchFile{w}, 0)
			require.Equal(t, 1, b.directs())
			require.True(t, f.isDirect)
			copy(b.reads[0].Into, content)
			b.reads[0].N, b.reads[0].Err = came.N, came.Err
			files[0].finish(&b.reads[0], buffer)
			require.NoError(t, files[0].Err)
			require.Equal(t, 6000, files[0].N)
			require.True(t, bytes.Equal(content, buffer[1:6001]))
			require.Equal(t, byte(0xA5), buffer[6002])
			for range 2 { // as a file that has changed is read once more
				n, err := f.ReadWhole(buffer[1:], 6000)
				require.NoError(t, err)
				require.True(t, bytes.Equal(content, buffer[1:1+n]))
				require.False(t, f.isDirect)
			}
			require.Equal(t, came.Err == unix.EINVAL, !mayDirect(f))
			f.host.directSupport = directSupport{}
		})
	}
}

// A file system that wrongly claims direct reads is tried only once.
func TestDirectReadsRefused(t *testing.T) {
	d, path := openTemp(t)
	b := directly(t, d, path)
	var files []BatchFile
	for i, name := range []string{"a", "b", "c"} {
		cold(t, filepath.Join(path, name), []byte(name))
		f, err := b.Open(d, name, Known{})
		require.NoError(t, err)
		defer b.Done(f)
		files = append(files, BatchFile{File: f, Size: 1, At: 2 * i})
	}
	buffer := make([]byte, 6)
	files = b.prepare(files, 0)
	require.Equal(t, 3, b.directs())
	for i := range b.reads {
		r := &b.reads[i]
		r.Into, r.Len = r.Into[1:], r.Len-1 // no disk takes such an address
	}
	b.ring.Read(buffer, b.reads)
	for i := range files {
		require.ErrorIs(t, b.reads[i].Err, unix.EINVAL)
		files[i].finish(&b.reads[i], buffer)
		require.NoError(t, files[i].Err)
		require.Equal(t, 1, files[i].N)
		chill(t, filepath.Join(path, "abc"[i:i+1]))
	}
	require.Equal(t, "a\x00b\x00c\x00", string(buffer))
	b.prepare(files, 0)
	require.Zero(t, b.directs())
}

// Where the descriptor cannot be made direct, the file is read as ever.
func TestDescriptorsThatCannotBeDirect(t *testing.T) {
	const dir, name = "/sys/kernel", "notes"
	d, err := OpenDir(dir)
	if err != nil {
		t.Skip(err)
	}
	defer d.Release()
	f, err := d.OpenFile(name)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	require.False(t, mayDirect(f))
	require.False(t, f.setDirect(true))
	require.False(t, f.isDirect)
	n, err := f.ReadWhole(make([]byte, 5001), 5000)
	require.NoError(t, err)
	require.Positive(t, n)
}

// The properties found at open stay.
func TestDirectKeepsTheAccessTime(t *testing.T) {
	d, path := openTemp(t)
	directly(t, d, path)
	f, err := d.OpenFile("probe")
	require.NoError(t, err)
	defer f.Close()
	for _, on := range []bool{true, false, true} {
		require.True(t, f.setDirect(on))
		flags, err := unix.FcntlInt(uintptr(f.fd), unix.F_GETFL, 0)
		require.NoError(t, err)
		require.NotZero(t, flags&unix.O_NOATIME)
		require.NotZero(t, flags&unix.O_NONBLOCK)
		require.Equal(t, on, flags&unix.O_DIRECT != 0)
	}
}
