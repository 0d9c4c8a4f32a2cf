package ring

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// open makes a ring for n reads, or skips the test where there can be none.
func open(t *testing.T, n int) *Ring {
	t.Helper()
	r, err := New(n)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if r.fd >= 0 {
			require.NoError(t, r.Close())
		}
	})
	return r
}

func file(t *testing.T, content []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Whatever is asked for comes to what pread says of it, also when it is more than fits the ring at once.
func TestReadsAreThoseOfPread(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var files []*os.File
	for range 30 {
		content := make([]byte, rnd.IntN(3)*rnd.IntN(20_000))
		for i := range content {
			content[i] = byte(rnd.Uint32())
		}
		files = append(files, file(t, content))
	}
	for _, size := range []int{1, 3, 64} {
		r := open(t, size)
		for range 20 {
			var reads []Read
			from := 0
			for range rnd.IntN(200) {
				rd := Read{FD: int(files[rnd.IntN(len(files))].Fd()), From: from, Len: rnd.IntN(25_000)}
				from += rd.Len
				reads = append(reads, rd)
			}
			rnd.Shuffle(len(reads), func(i, k int) { reads[i], reads[k] = reads[k], reads[i] })
			got, want := make([]byte, from+1), make([]byte, from+1)
			r.Read(got, reads)
			for i, rd := range reads {
				require.NoError(t, rd.Err)
				n, err := unix.Pread(rd.FD, want[rd.From:rd.From+rd.Len], 0)
				require.NoError(t, err)
				require.Equal(t, n, rd.N, "read %d", i)
			}
			require.Equal(t, want, got, "and nothing beside")
		}
	}
}

func TestOneFailureAffectsNoOtherEntry(t *testing.T) {
	r := open(t, 8)
	f := file(t, []byte("content"))
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	closed, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	require.NoError(t, unix.Close(closed))
	reads := []Read{
		{FD: int(f.Fd()), Len: 7},
		{FD: int(dir.Fd()), From: 7, Len: 7},
		{FD: closed, From: 14, Len: 7},
		{FD: int(f.Fd()), From: 21, Len: 7, Flags: 1 << 30},
		{FD: int(f.Fd()), From: 28, Len: 7},
	}
	buf := make([]byte, 35)
	r.Read(buf, reads)
	require.NoError(t, reads[0].Err)
	require.Equal(t, unix.EISDIR, reads[1].Err)
	require.Equal(t, unix.EBADF, reads[2].Err)
	require.Error(t, reads[3].Err, "unknown flags")
	require.NoError(t, reads[4].Err)
	require.Equal(t, "content", string(buf[:7]))
	require.Equal(t, make([]byte, 21), buf[7:28])
	require.Equal(t, "content", string(buf[28:]))
	r.Read(buf, nil)
	r.Read(nil, nil)
}

// Read waits for what takes long, whatever signals come meanwhile.
func TestReadWaits(t *testing.T) {
	r := open(t, 4)
	in, out, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer out.Close()
	f := file(t, []byte("quick"))
	tid := make(chan int)
	done := make(chan []Read)
	buf := make([]byte, 16)
	go func() {
		reads := []Read{{FD: int(in.Fd()), Len: 8}, {FD: int(f.Fd()), From: 8, Len: 8}}
		tid <- unix.Gettid()
		r.Read(buf, reads)
		done <- reads
	}()
	thread := <-tid
	for range 200 {
		require.NoError(t, unix.Tgkill(unix.Getpid(), thread, unix.SIGURG))
	}
	select {
	case <-done:
		require.Fail(t, "a read ended before there was anything to be read")
	default:
	}
	_, err = out.WriteString("slow")
	require.NoError(t, err)
	reads := <-done
	require.Equal(t, []int{4, 5}, []int{reads[0].N, reads[1].N})
	require.Equal(t, "slow\x00\x00\x00\x00quick", string(buf[:13]))
}

func TestTakenBackReadsAreNotMade(t *testing.T) {
	r := open(t, 4)
	f := file(t, []byte("content"))
	buf := make([]byte, 8)
	lost := []Read{{FD: int(f.Fd()), Len: 8}, {FD: int(f.Fd()), Len: 8}}
	r.submit(buf, lost)
	require.Equal(t, 2, r.takeBack(2))
	require.Zero(t, r.reap(lost))
	require.ErrorIs(t, lost[0].Err, ErrUnread)
	for range 10 {
		reads := []Read{{FD: int(f.Fd()), Len: 8}}
		r.Read(buf, reads)
		require.NoError(t, reads[0].Err)
		require.Equal(t, 7, reads[0].N)
	}
}

func TestRingsAreOfOneGoroutineEach(t *testing.T) {
	open(t, 1)
	f := file(t, []byte(strings.Repeat("0123456789", 1000)))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			r, err := New(16)
			if err != nil {
				t.Error(err)
				return
			}
			buf := make([]byte, 100*1000)
			for range 20 {
				var reads []Read
				for i := range 100 {
					reads = append(reads, Read{FD: int(f.Fd()), From: 1000 * i, Len: 1000})
				}
				clear(buf)
				r.Read(buf, reads)
				if string(buf) != strings.Repeat("0123456789", 10_000) {
					t.Error("other bytes")
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestCloseGivesEverythingBack(t *testing.T) {
	held := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		files, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		n := strings.Count(string(maps), "io_uring")
		for _, f := range files {
			if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.Contains(to, "io_uring") {
				n++
			}
		}
		return n
	}
	before := held()
	r := open(t, 64)
	require.Greater(t, held(), before)
	require.NoError(t, r.Close())
	require.Equal(t, before, held())
}

func TestNoRing(t *testing.T) {
	for _, n := range []int{0, 1 << 24} {
		_, err := New(n)
		require.ErrorIs(t, err, ErrMissing)
		var errno unix.Errno
		require.ErrorAs(t, err, &errno)
	}
}

func TestReadsCostNoMemory(t *testing.T) {
	r := open(t, 64)
	f := file(t, []byte("content"))
	buf, reads := make([]byte, 64*8), make([]Read, 64)
	for i := range reads {
		reads[i] = Read{FD: int(f.Fd()), From: 8 * i, Len: 8}
	}
	// Two at most for all of them: what keeps the memory where it is.
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { r.Read(buf, reads) }), 2.0)
}
