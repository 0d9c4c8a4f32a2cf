package localfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// knownOf returns what a scan records about an entry.
func knownOf(t *testing.T, d *Dir, name string) Known {
	t.Helper()
	var st Stat
	require.NoError(t, d.Lstat(name, &st))
	return Known{Dev: st.Dev, Ino: st.Ino}
}

// An object that takes a file's name after the scan is opened as itself if it is a file, and not at all otherwise.
// Nothing is consumed from it.
func TestKnownFilesThatWereReplaced(t *testing.T) {
	d, path := openTemp(t)
	b := NewBatch(true)
	defer b.Close()
	d.Expect(4)
	at := func(name string) string { return filepath.Join(path, name) }
	names := []string{"same", "fifo", "other", "directory"}
	known := map[string]Known{}
	for _, name := range names {
		write(t, at(name), "content of "+name)
		known[name] = knownOf(t, d, name)
	}
	for _, name := range []string{"fifo", "directory"} {
		require.NoError(t, os.Remove(at(name)))
	}
	require.NoError(t, unix.Mkfifo(at("fifo"), 0o600))
	fifo, err := os.OpenFile(at("fifo"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer fifo.Close()
	_, err = fifo.WriteString("for another reader")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(at("directory"), 0o700))
	write(t, at("tmp"), "content of OTHER")
	require.NoError(t, os.Rename(at("tmp"), at("other")))

	buffer := make([]byte, 64)
	for _, name := range names {
		f, err := b.Open(d, name, known[name])
		if name == "fifo" || name == "directory" {
			require.ErrorIs(t, err, ErrNotRegular, name)
			continue
		}
		require.NoError(t, err, name)
		now := knownOf(t, d, name)
		require.Equal(t, now.Ino, f.Opened().Ino, name)
		require.Equal(t, name == "same", now == known[name])
		n, err := f.ReadWhole(buffer, f.Opened().Size)
		require.NoError(t, err, name)
		want, err := os.ReadFile(at(name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(buffer[:n]))
		b.Done(f)
	}
	rest := make([]byte, 64)
	n, err := fifo.Read(rest)
	require.NoError(t, err)
	require.Equal(t, "for another reader", string(rest[:n]))
}

// A batch returns the same facts as single calls, and requests none of a file that could not be read.
func TestFactsOfMany(t *testing.T) {
	d, path := openTemp(t)
	b := NewBatch(true)
	defer b.Close()
	var files []BatchFile
	for i := range 3 * MaxStatBatch {
		name := string(rune('a' + i))
		write(t, filepath.Join(path, name), name)
		if i%5 == 0 {
			require.NoError(t, unix.Setxattr(filepath.Join(path, name), "user.n", []byte(name), 0))
		}
		f, err := b.Open(d, name, Known{})
		require.NoError(t, err)
		files = append(files, BatchFile{File: f, Size: 1, At: 4 * i})
	}
	b.ReadWhole(make([]byte, 4*len(files)), files)
	files[7].Err = unix.EIO
	b.Facts(files)
	for i := range files {
		w := &files[i]
		want, err := w.File.Facts()
		require.NoError(t, err)
		if i == 7 {
			want = Facts{}
		}
		require.NoError(t, w.FactsErr)
		require.Equal(t, want, w.Facts)
		b.Done(w.File)
	}
}
