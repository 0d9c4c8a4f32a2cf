package localfs

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// shutWindow is a directory on disk behind a gate whose window stays open and whose slot is used up for an hour: an
// operation waits until the policy of client changes.
type shutWindow struct {
	*Dir
	gate   *iopolicy.Gate
	client *iopolicy.Client
	batch  *Batch
	files  map[string]string // content by name
	known  map[string]Known
}

// shut makes files of these sizes, keeps those of even index in the page cache, and uses up the slot.
func shut(t *testing.T, sizes ...int) *shutWindow {
	t.Helper()
	_, path := onDisk(t)
	settings := iopolicy.DefaultSettings()
	settings.PeriodSSD = [iopolicy.Tiers]time.Duration{0, time.Hour, time.Hour, time.Hour}
	w := &shutWindow{client: iopolicy.NewClient(iopolicy.Throttle), files: map[string]string{}, known: map[string]Known{}}
	w.gate = iopolicy.New(iopolicy.Config{
		Medium: iopolicy.SSD, Settings: settings, Metering: iopolicy.Metering{Meter: &busy{}},
	})
	var err error
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what waits by mistake fails then
	t.Cleanup(cancel)
	w.Dir, err = IOContext{Ctx: ctx, Pass: w.gate.Pass(w.client)}.OpenDir(path)
	require.NoError(t, err)
	t.Cleanup(w.Release)
	w.batch = NewBatch(true)
	t.Cleanup(func() { require.NoError(t, w.batch.Close()) })
	w.Expect(len(sizes))
	for i, size := range sizes {
		name := fmt.Sprint(i)
		w.files[name] = string(testkit.Noise(uint64(i), size))
		write(t, path+"/"+name, w.files[name])
	}
	unix.Sync()
	readNamed(t, w.batch, w.Dir, []string{"0", "1"}, asOpened, nil) // finds out whether reads block
	if w.host.nonBlocking.Load() == 0 {
		t.Skip("no io_uring here, or a file system whose reads block")
	}
	for i := range sizes {
		name := fmt.Sprint(i)
		w.known[name] = knownOf(t, w.Dir, name)
		f, err := w.OpenFile(name)
		require.NoError(t, err)
		f.drop(0, 1<<30)
		if n, _ := f.CachedPages(); n > 0 {
			t.Skip("the kernel keeps these pages")
		}
		if i%2 == 0 {
			readAll(t, f, int64(sizes[i]))
		}
		require.NoError(t, f.Close())
	}
	require.NoError(t, w.ioctx.do(iopolicy.Sync, func() error { return nil })) // charged in any case
	stop := foreground(t, w.gate)
	t.Cleanup(stop)
	return w
}

// open opens files, each with room in the buffer that is returned.
func (w *shutWindow) open(t *testing.T, names ...string) (room []byte, files []BatchFile) {
	t.Helper()
	for i, name := range names {
		f, err := w.batch.Open(w.Dir, name, w.known[name])
		require.NoError(t, err)
		files = append(files, BatchFile{File: f, Index: i, Size: f.Opened().Size, At: len(room)})
		room = append(room, make([]byte, f.Opened().Size+1)...)
	}
	return room, files
}

// Beside a busy disk, files in the page cache are opened and read without a slot, and those that are not wait.
func TestResidentFilesNeedNoSlot(t *testing.T) {
	w := shut(t, 100, 200, 4096, 9000, 20_000, 30_000)
	names := []string{"1", "0", "2", "3", "5", "4"}
	before := w.gate.Stats()
	for i, name := range slices.Sorted(slices.Values(names)) {
		require.Equal(t, i%2 == 0, w.Resident(name, w.known[name]), name)
	}
	room, files := w.open(t, names...)
	rest := w.batch.ReadResident(room, files)
	require.Equal(t, before, w.gate.Stats(), "nothing was an operation")
	require.Len(t, rest, 3)
	order := make([]int, len(files))
	for i := range files {
		f := &files[i]
		order[i] = f.Index
		if i < 3 {
			require.NoError(t, f.Err)
			require.Equal(t, w.files[names[f.Index]], string(room[f.At:f.At+f.N]))
		}
	}
	require.ElementsMatch(t, []int{1, 2, 5}, order[:3])
	require.ElementsMatch(t, []int{0, 3, 4}, order[3:])

	read := make(chan struct{})
	go func() {
		defer close(read)
		w.batch.ReadWhole(room, rest)
	}()
	require.Eventually(t, func() bool { return w.gate.Stats().Asleep[3] > 0 }, time.Minute, time.Millisecond)
	select {
	case <-read:
		require.Fail(t, "files that are not in the page cache were read without a slot")
	default:
	}
	w.client.SetPolicy(iopolicy.Important)
	<-read
	for i := range rest {
		f := &rest[i]
		require.NoError(t, f.Err)
		require.Equal(t, w.files[names[f.Index]], string(room[f.At:f.At+f.N]))
	}
	for i := range files {
		n, _ := files[i].File.CachedPages()
		require.Equal(t, i < 3, n > 0, "the page cache is left as found")
		w.batch.Done(files[i].File)
	}
}

// Reading the cached pages of a file that is cached in part would start read-ahead.
func TestOnlyWhollyCachedFilesAreResident(t *testing.T) {
	w := shut(t, 100, 1<<20)
	free, err := w.Ungated()
	require.NoError(t, err)
	defer free.Release()
	f, err := free.OpenFile("1")
	require.NoError(t, err)
	defer f.Close()
	_, err = f.ReadAt(make([]byte, 1), 0)
	require.NoError(t, err)
	held, _ := f.CachedPages()
	require.NotZero(t, held)
	require.False(t, w.Resident("1", w.known["1"]))
	room, files := w.open(t, "1", "0")
	files[1].Size = 50 // reading no more would not show that the file is larger
	require.Len(t, w.batch.ReadResident(room, files), 2)
	now, _ := f.CachedPages()
	require.Equal(t, held, now)
	for i := range files {
		w.batch.Done(files[i].File)
	}
}

// What is not the file that was scanned, or changes after it was opened, is left to the gate.
func TestResidentFilesThatAreOthers(t *testing.T) {
	w := shut(t, 100, 100, 5000)
	path := "/proc/self/fd/" + fmt.Sprint(w.fd) + "/"
	require.False(t, w.Resident("gone", Known{Dev: w.known["0"].Dev, Ino: 1}))
	require.False(t, w.Resident("../0", w.known["0"]))
	require.False(t, w.Resident("0", Known{}))
	require.True(t, w.Resident("2", w.known["2"]))
	require.False(t, w.Resident("0", w.known["2"]))

	require.NoError(t, os.Remove(path+"0"))
	require.NoError(t, unix.Mkfifo(path+"0", 0o600))
	fifo, err := os.OpenFile(path+"0", os.O_RDWR, 0)
	require.NoError(t, err)
	defer fifo.Close()
	_, err = fifo.WriteString(strings.Repeat("x", 200))
	require.NoError(t, err)
	require.False(t, w.Resident("0", w.known["0"]))
	room, files := w.open(t, "2")
	require.NoError(t, os.Truncate(path+"2", 4097))
	require.Len(t, w.batch.ReadResident(room, files), 1)
	n, err := fifo.Read(make([]byte, 300))
	require.NoError(t, err)
	require.Equal(t, 200, n, "nothing was consumed")
	for i := range files {
		w.batch.Done(files[i].File)
	}
}

// A large file that is cached to its end is read in pieces without a slot.
func TestResidentLargeFile(t *testing.T) {
	const size = 3 << 20
	w := shut(t, size, 100)
	_, files := w.open(t, "0")
	f := files[0].File
	defer w.batch.Done(f)
	unpin := pin(t, f, size)
	f.NoteCache()
	before := w.gate.Stats()
	p := make([]byte, 300_000)
	got := ""
	for off := int64(0); off < size; {
		n, err := f.ReadAt(p[:min(len(p), size-int(off))], off)
		require.NoError(t, err)
		got += string(p[:n])
		off += int64(n)
	}
	require.Equal(t, w.files["0"], got)
	f.DropCache(0, size)
	held, _ := f.CachedPages()
	require.EqualValues(t, size/os.Getpagesize(), held)
	require.Equal(t, before, w.gate.Stats())
	require.False(t, f.readResident(p, size-1000), "beyond the end")
	require.True(t, f.readResident(p, 0))
	unpin()
	f.drop(1<<20, 1<<20)
	require.False(t, f.readResident(p, 1<<20), "the cache is queried again before each read")
	held, _ = f.cached(1<<20, 1<<20)
	require.Zero(t, held, "nothing is fetched")
}

// pin has the kernel keep the pages of a file, which it may otherwise reclaim one by one at any time, until unpin is
// called.
func pin(t *testing.T, f *File, size int) (unpin func()) {
	t.Helper()
	memory, err := unix.Mmap(f.fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	if err := unix.Mlock(memory); err != nil {
		t.Skip("needs to lock memory: ", err)
	}
	f.ProbeCache()
	return func() { require.NoError(t, unix.Munmap(memory)) }
}

// At full speed nothing is looked up.
func TestNothingIsResidentAtFullSpeed(t *testing.T) {
	w := shut(t, 100, 200)
	w.client.SetPolicy(iopolicy.Important)
	room, files := w.open(t, "0", "1")
	require.Len(t, w.batch.ReadResident(room, files), 2)
	for i := range files {
		require.False(t, files[i].File.resident, "the page cache was not queried")
		w.batch.Done(files[i].File)
	}
}

func TestPagesOfARange(t *testing.T) {
	page := int64(unix.Getpagesize())
	for _, c := range []struct {
		held   uint64
		off, n int64
		want   bool
	}{
		{0, 0, 0, false}, {0, 0, 1, false}, {1, 0, 1, true}, {1, 0, page, true}, {1, 0, page + 1, false},
		{2, 0, page + 1, true}, {1, page - 1, 2, false}, {2, page - 1, 2, true}, {1, 3 * page, page, true},
	} {
		require.Equal(t, c.want, whole(c.held, c.off, c.n), "%+v", c)
	}
}
