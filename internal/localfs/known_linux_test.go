package localfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// knownOf returns what a scan records about an entry.
func knownOf(t *testing.T, d *Dir, name string) Known {
	t.Helper()
	var st Stat
	require.NoError(t, d.Lstat(name, &st))
	return Known{Dev: st.Dev, Ino: st.Ino, Times: true, Size: st.Size, Mtime: st.Mtime, Ctime: st.Ctime}
}

// presuming returns a batch that presumes files. It skips the test without io_uring or uncached reads.
func presuming(t *testing.T, d *Dir, path string) *Batch {
	t.Helper()
	b := NewBatch(true)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	if b.MaxFiles() == 1 {
		t.Skip("no io_uring here")
	}
	write(t, filepath.Join(path, "probe"), "probe")
	f, err := d.OpenFile("probe")
	require.NoError(t, err)
	defer f.Close()
	var p [8]byte
	if _, errno := preadFlags(f.fd, p[:], unix.RWF_DONTCACHE); errno != 0 {
		t.Skipf("no reading past the page cache here: %v", errno)
	}
	return b
}

// An object that takes a file's name after the scan is detected after the read, and nothing is consumed from other
// objects than files.
func TestPresumedFilesAreFoundOut(t *testing.T) {
	d, path := openTemp(t)
	b := presuming(t, d, path)
	d.Expect(7)
	at := func(name string) string { return filepath.Join(path, name) }
	names := []string{"same", "fifo", "other", "written", "grown", "directory", "as well"}
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
	write(t, at("written"), "CONTENT of written")
	mtime := known["written"].Mtime
	require.NoError(t, os.Chtimes(at("written"), time.Time{}, time.Unix(mtime.Sec, int64(mtime.Nsec))))
	write(t, at("grown"), "content of grown, and more")

	buffer, files, presumed := make([]byte, 1<<10), []BatchFile(nil), 0
	for i, name := range names {
		f, err := b.Open(d, name, known[name])
		require.NoError(t, err, name)
		if f.Presumed() {
			presumed++
			require.Equal(t, tree.File, f.Opened().Type)
			require.Equal(t, known[name].Ctime, f.Opened().Ctime)
		}
		files = append(files, BatchFile{File: f, Size: known[name].Size, At: 64 * i})
	}
	require.Equal(t, len(names), presumed, "the first too, as more were expected")
	b.ReadWhole(buffer, files)
	b.Facts(files)
	for i, name := range names {
		w := &files[i]
		good := w.Err == nil && w.FactsErr == nil && w.File.Same(&w.Facts.Stat)
		require.Equal(t, name == "same" || name == "as well", good, "%s: %v", name, w.Err)
		if good {
			require.Equal(t, "content of "+name, string(buffer[w.At:w.At+w.N]))
		}
		if w.File.Presumed() && !good {
			require.ErrorIs(t, w.File.Confirm(), ErrReplaced, name)
			_, err := w.File.ReadWhole(buffer[512:], w.Size)
			require.ErrorIs(t, err, ErrReplaced, name)
		}
		b.Done(w.File)
	}
	require.Zero(t, d.host.noUncached.Load(), "the file system is not to blame")
	require.Zero(t, d.host.blocking.Load())
	rest := make([]byte, 64)
	n, err := fifo.Read(rest)
	require.NoError(t, err)
	require.Equal(t, "for another reader", string(rest[:n]))
}

// A file is presumed only if its status afterwards reveals any change. Once confirmed, it is like any other.
func TestWhenFilesArePresumed(t *testing.T) {
	d, path := openTemp(t)
	b := presuming(t, d, path)
	write(t, filepath.Join(path, "f"), "content")
	known := knownOf(t, d, "f")
	open := func(b *Batch, k Known) *File {
		f, err := b.Open(d, "f", k)
		require.NoError(t, err)
		return f
	}
	b.Done(open(b, known)) // it pays from the second one on
	f := open(b, known)
	require.True(t, f.Presumed())
	require.NoError(t, f.Confirm())
	require.False(t, f.Presumed())
	require.Equal(t, uint32(0o600), f.Opened().Mode&0o600, "it was looked at")
	b.Done(f)

	f = open(b, known)
	require.True(t, f.Presumed())
	p := make([]byte, 16)
	n, err := f.ReadWhole(p, known.Size) // by itself
	require.NoError(t, err)
	require.Equal(t, "content", string(p[:n]))
	require.False(t, f.Presumed())
	b.Done(f)

	one := NewBatch(false)
	for _, f := range []*File{
		open(one, known), open(b, Known{}), open(b, Known{Dev: known.Dev, Ino: known.Ino}), open(b, Known{Times: true}),
	} {
		require.False(t, f.Presumed())
		require.NoError(t, f.Close())
	}
	d.host.noUncached.Store(1 + known.Dev)
	f = open(b, known)
	require.False(t, f.Presumed(), "the flag that keeps a fifo from being read is not known here")
	b.Done(f)
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
