package localfs

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// busy is a meter by which every operation has reached the device.
type busy struct{ n uint64 }

func (b *busy) Submitted() iopolicy.Bytes {
	b.n++
	return iopolicy.Bytes{Read: b.n, Written: b.n}
}

// gated opens the directory at path behind a new gate of an SSD, for a client of policy p.
func gated(t *testing.T, ctx context.Context, path string, p iopolicy.Policy) (*Dir, *iopolicy.Gate) {
	t.Helper()
	gate := iopolicy.New(iopolicy.Config{
		Name: "test", Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings(), Metering: iopolicy.Metering{Meter: &busy{}},
	})
	d, err := IOContext{Ctx: ctx, Pass: gate.Pass(iopolicy.NewClient(p))}.OpenDir(path)
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d, gate
}

// foreground keeps the device of gate in use by I/O of tier 0 until the function it returns is called.
func foreground(t *testing.T, gate *iopolicy.Gate) (stop func()) {
	t.Helper()
	grant, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{Kind: iopolicy.Read})
	require.NoError(t, err)
	return func() { grant.End(1) }
}

// method is one call on an open directory with a file "f" in it, and how many operations it is.
type method struct {
	ops  uint64
	call func(d *Dir) error
}

func failing(ps []Problem) error {
	if len(ps) > 0 {
		return ps[0].Err
	}
	return nil
}

// onFile and onWriter open what a method is called on without the context and the gate of the directory.
func onFile(act func(f *File) error) func(d *Dir) error {
	return func(d *Dir) error {
		free, err := d.Ungated()
		if err != nil {
			return err
		}
		defer free.Release()
		f, err := free.OpenFile("f")
		if err != nil {
			return err
		}
		f.ioctx = d.ioctx
		return errors.Join(act(f), f.Close())
	}
}

func onWriter(act func(w *Writer) error) func(d *Dir) error {
	return func(d *Dir) error {
		free, err := d.Ungated()
		if err != nil {
			return err
		}
		defer free.Release()
		w, err := openWriter(free, "f")
		if err != nil {
			return err
		}
		w.ioctx = d.ioctx
		return errors.Join(act(w), w.Close())
	}
}

// methods are all that come to the device.
func methods() map[string]method {
	node := &tree.Node{Name: "f", Type: tree.File, Mode: 0o644, Links: 1}
	self := &tree.Node{Type: tree.Dir, Mode: 0o755}
	only := ApplyOptions{SkipOwner: true, SkipXattrs: true, SkipTimes: true, SkipFlags: true}
	closing := func(w *Writer, err error) error {
		if err == nil {
			err = w.Close()
		}
		return err
	}
	ignored := func(_ any, err error) error { return err }
	dirs := map[string]method{
		"Open": {1, func(d *Dir) error {
			sub, err := d.Open("sub")
			if err == nil {
				sub.Release()
			}
			return err
		}},
		"OpenFile": {1, func(d *Dir) error {
			f, err := d.OpenFile("f")
			if err == nil {
				err = f.Close()
			}
			return err
		}},
		"CreateFile": {1, func(d *Dir) error { w, err := d.CreateFile("new"); return closing(w, err) }},
		"Readlink":   {1, func(d *Dir) error { return ignored(d.Readlink("link")) }},
		"Lstat":      {1, func(d *Dir) error { return d.Lstat("f", new(Stat)) }},
		"LstatSome": {1, func(d *Dir) error {
			l := &StatBatch{}
			d.LstatBatch("", []string{"f", "link"}, l)
			return l.Errs[0]
		}},
		"Fstat": {1, func(d *Dir) error { return ignored(d.Fstat()) }},
		"FS":    {2, func(d *Dir) error { return ignored(d.FS()) }},
		"Entries": {2, func(d *Dir) error {
			return d.Entries(nil,
				func([]byte, tree.Type, uint64) error { return nil })
		}},
		"Xattrs":        {1, func(d *Dir) error { return ignored(d.Xattrs("f", tree.File)) }},
		"Flags":         {2, func(d *Dir) error { return ignored(d.Flags("f", tree.File)) }},
		"Flags of self": {1, func(d *Dir) error { return ignored(d.Flags(".", tree.Dir)) }},
		"Mkdir":         {1, func(d *Dir) error { return d.Mkdir("dir", 0o700) }},
		"Symlink":       {1, func(d *Dir) error { return d.Symlink("f", "other") }},
		"Mknod":         {1, func(d *Dir) error { return d.Mknod("fifo", tree.Fifo, 0o600, 0) }},
		"Remove":        {1, func(d *Dir) error { return d.Remove("f", false) }},
		"Rename":        {1, func(d *Dir) error { return d.Rename("f", "h") }},
		"MoveNew":       {1, func(d *Dir) error { return d.MoveNew(d, "f", "h") }},
		"Apply":         {1, func(d *Dir) error { return failing(d.Apply("f", node, only)) }},
		"Prepare":       {1, func(d *Dir) error { return failing(d.Prepare(self)) }},
		"Unprotect":     {1, func(d *Dir) error { return d.Unprotect("f") }},
	}
	files := map[string]method{
		"File.Stat":   {1, onFile(func(f *File) error { return ignored(f.Stat()) })},
		"File.Xattrs": {1, onFile(func(f *File) error { return ignored(f.Xattrs()) })},
		"File.Facts":  {1, onFile(func(f *File) error { return ignored(f.Facts()) })},
		"File.Flags":  {1, onFile(func(f *File) error { return ignored(f.Flags()) })},
		"File.ReadAt": {1, onFile(func(f *File) error { return ignored(f.ReadAt(make([]byte, 3), 0)) })},
		"File.Read":   {1, onFile(func(f *File) error { return ignored(f.Read(make([]byte, 3))) })},
		"File.ReadWhole": {1, onFile(func(f *File) error {
			return ignored(f.ReadWhole(make([]byte, 8), f.Opened().Size))
		})},
		"File.Extents": {2, onFile(func(f *File) error {
			return f.Extents(0, f.Opened().Size, func(uint64, uint64, bool) error { return nil })
		})},
		"Writer.WriteAt":  {1, onWriter(func(w *Writer) error { return ignored(w.WriteAt([]byte("abc"), 0)) })},
		"Writer.Stat":     {1, onWriter(func(w *Writer) error { return ignored(w.Stat()) })},
		"Writer.Truncate": {1, onWriter(func(w *Writer) error { return w.Truncate(2) })},
		"Writer.Sync":     {1, onWriter((*Writer).Sync)},
		"Writer.SetMeta":  {1, onWriter(func(w *Writer) error { return failing(w.SetMeta(node, only)) })},
		"Writer.Prepare":  {1, onWriter(func(w *Writer) error { return failing(w.Prepare(node)) })},
	}
	for name, m := range files {
		dirs[name] = m
	}
	for name, call := range map[string]func(e *Entry) error{
		"Open":   func(e *Entry) error { return ignored(e.Open()) },
		"Xattrs": func(e *Entry) error { return ignored(e.Xattrs()) },
		"Apply":  func(e *Entry) error { return failing(e.Apply(node, only)) }, "Unprotect": (*Entry).Unprotect,
		"Link": func(e *Entry) error { return e.Link(e.dir, "g") },
	} {
		dirs["Entry."+name] = method{2, func(d *Dir) error { // one of them is Pin
			e, err := d.Pin("f", tree.File)
			if err != nil {
				return err
			}
			defer e.Close()
			return call(e)
		}}
	}
	maker := NewMaker(only)
	dirs["Maker.File"] = method{1, func(d *Dir) error {
		_, ps, err := maker.File(d, "new", []byte("content"), node)
		return errors.Join(err, failing(ps))
	}}
	dirs["Maker.Entry"] = method{1, func(d *Dir) error { return failing(maker.Entry(d, "f", node, 0o600)) }}
	dirs["Maker.Directory"] = method{1, func(d *Dir) error { return failing(maker.Directory(d, self, 0o700)) }}
	return dirs
}

func populate(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	write(t, path+"/f", "content")
	require.NoError(t, os.Mkdir(path+"/sub", 0o755))
	require.NoError(t, os.Symlink("f", path+"/link"))
	return path
}

// contents is what a directory holds, and what is known of each entry.
func contents(t *testing.T, path string) map[string]Stat {
	t.Helper()
	d := openAt(t, path)
	found := map[string]Stat{}
	require.NoError(t, d.Entries(nil, func(name []byte, _ tree.Type, _ uint64) error {
		var st Stat
		if err := d.Lstat(string(name), &st); err != nil {
			return err
		}
		st.Atime = tree.Time{}
		found[string(name)] = st
		return nil
	}))
	return found
}

func TestEveryMethodIsAnOperation(t *testing.T) {
	for name, m := range methods() {
		t.Run(name, func(t *testing.T) {
			d, gate := gated(t, t.Context(), populate(t), iopolicy.Throttle)
			before := gate.Stats().Operations
			require.NoError(t, m.call(d))
			require.Equal(t, m.ops, gate.Stats().Operations-before)
		})
	}
}

func TestNothingIsDoneThatWasCalledOff(t *testing.T) {
	cause := errors.New("enough")
	for name, m := range methods() {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			path := populate(t)
			d, gate := gated(t, ctx, path, iopolicy.Throttle)
			before, were := gate.Stats().Operations, contents(t, path)
			cancel(cause)
			err := m.call(d)
			require.ErrorIs(t, err, ErrStopped)
			require.ErrorIs(t, err, cause)
			require.NotErrorIs(t, err, ErrVanished)
			require.Equal(t, before, gate.Stats().Operations)
			require.Equal(t, were, contents(t, path))
		})
	}
}

// A cause may be anything, also what a file system could have said of an object.
func TestACauseSaysNothingAboutTheObject(t *testing.T) {
	for _, cause := range []error{unix.ENOENT, unix.ESTALE, unix.ENOTSUP, unix.EINVAL, unix.ENOTDIR, io.EOF} {
		for name, m := range methods() {
			ctx, cancel := context.WithCancelCause(t.Context())
			d, _ := gated(t, ctx, populate(t), iopolicy.Important)
			cancel(cause)
			err := m.call(d)
			require.ErrorIs(t, err, ErrStopped, "%s: %v", name, cause)
			for _, said := range []error{ErrVanished, ErrNotDir, ErrNotRegular} {
				require.NotErrorIs(t, err, said, "%s: %v", name, cause)
			}
			require.False(t, Unsupported(err))
		}
	}
}

func TestWhatIsOpenedBelowInheritsTheDoor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d, gate := gated(t, ctx, populate(t), iopolicy.Throttle)
	sub, err := d.Open("sub")
	require.NoError(t, err)
	defer sub.Release()
	other := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings()})
	sub.SetPass(other.Pass(iopolicy.NewClient(iopolicy.Throttle)))
	before := gate.Stats().Operations
	w, err := sub.CreateFile("x")
	require.NoError(t, err)
	require.NoError(t, w.Sync())
	require.NoError(t, w.Close())
	require.Equal(t, before, gate.Stats().Operations)
	require.EqualValues(t, 2, other.Stats().Operations)
	cancel()
	_, err = sub.OpenFile("x")
	require.ErrorIs(t, err, context.Canceled)
	free, err := sub.Ungated()
	require.NoError(t, err)
	defer free.Release()
	require.NoError(t, free.Remove("x", false), "to tidy up, nothing is waited for")
}

func TestReadsAreCutInsideAWindow(t *testing.T) {
	path := t.TempDir()
	const size = 1 << 20
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i >> 8)
	}
	write(t, path+"/f", string(content))
	for name, read := range map[string]func(f *File, p []byte) (int, error){
		"ReadAt":    func(f *File, p []byte) (int, error) { return f.ReadAt(p[:size], 0) },
		"Read":      func(f *File, p []byte) (int, error) { return f.Read(p[:size]) },
		"ReadWhole": func(f *File, p []byte) (int, error) { return f.ReadWhole(p, size-1) },
	} {
		t.Run(name, func(t *testing.T) {
			d, gate := gated(t, t.Context(), path, iopolicy.Standard)
			f, err := d.OpenFile("f")
			require.NoError(t, err)
			defer f.Close()
			p := make([]byte, size+1)
			stop := foreground(t, gate)
			before := gate.Stats()
			require.Equal(t, 128<<10, f.MaxIO())
			n, err := read(f, p)
			require.NoError(t, err)
			require.Equal(t, size, n)
			require.Equal(t, content, p[:n])
			after := gate.Stats()
			require.EqualValues(t, size/(128<<10), after.Operations-before.Operations)
			require.EqualValues(t, size, after.Moved.Read-before.Moved.Read)
			require.True(t, f.bounded.Load())
			stop()
			// The window stays open for a while, unless one never waits.
			f.ioctx.Pass.Client().SetPolicy(iopolicy.Important)
			before = gate.Stats()
			n, err = f.ReadAt(p[:size], 0)
			require.NoError(t, err)
			require.Equal(t, size, n)
			require.EqualValues(t, 1, gate.Stats().Operations-before.Operations)
			require.False(t, f.bounded.Load(), "the kernel may read ahead again")
		})
	}
}

func TestBoundedReadsBringInNoMore(t *testing.T) {
	d, gate := gated(t, t.Context(), t.TempDir(), iopolicy.Standard)
	if fs, err := d.FS(); err != nil || fs.Type == "tmpfs" {
		t.Skip("temporary files are in memory here")
	}
	w, err := d.CreateFile("f")
	require.NoError(t, err)
	_, err = w.WriteAt(make([]byte, 8<<20), 0)
	require.NoError(t, err)
	require.NoError(t, w.Sync())
	require.NoError(t, w.Close())
	f, err := d.OpenFile("f")
	require.NoError(t, err)
	defer f.Close()
	f.drop(0, 8<<20)
	if n, ok := f.cached(0, 8<<20); !ok || n > 0 {
		t.Skip("no cachestat here, or a file system that keeps pages that it is asked to drop")
	}
	defer foreground(t, gate)()
	_, err = f.ReadAt(make([]byte, 128<<10), 1<<20)
	require.NoError(t, err)
	n, _ := f.cached(0, 8<<20)
	require.Equal(t, 128<<10/unix.Getpagesize(), int(n))
}

func TestWritesAreCutAndSentInsideAWindow(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, gate := gated(t, t.Context(), path, iopolicy.Throttle)
		w, err := d.CreateFile("f")
		require.NoError(t, err)
		stop := foreground(t, gate)
		before, start := gate.Stats(), time.Now()
		content := make([]byte, 300<<10)
		content[299<<10] = 7
		n, err := w.WriteAt(content, 1000)
		require.NoError(t, err)
		require.Equal(t, len(content), n)
		after := gate.Stats()
		require.EqualValues(t, 3, after.Operations-before.Operations)
		require.EqualValues(t, len(content), after.Moved.Written-before.Moved.Written)
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		stop()
		require.NoError(t, w.Close())
	})
	got, err := os.ReadFile(path + "/f")
	require.NoError(t, err)
	require.Len(t, got, 301<<10-24)
	require.EqualValues(t, 7, got[1000+299<<10])
	f, err := openAt(t, path).OpenFile("f")
	require.NoError(t, err)
	defer f.Close()
	var st unix.Cachestat_t
	if unix.Cachestat(uint(f.fd), &unix.CachestatRange{}, &st, 0) == nil {
		var fs unix.Statfs_t
		require.NoError(t, unix.Fstatfs(f.fd, &fs))
		if fs.Type != unix.TMPFS_MAGIC {
			require.Zero(t, st.Dirty+st.Writeback, "nothing is left to be written later")
		}
	}
}

// Under a yielding policy, written data is sent to the device at once, even if no other program is active.
func TestYieldingWritesAreSentAtOnce(t *testing.T) {
	for policy, later := range map[iopolicy.Policy]bool{
		iopolicy.Throttle: false, iopolicy.Standard: false, iopolicy.Important: true, iopolicy.Passive: true,
	} {
		d, _ := gated(t, t.Context(), t.TempDir(), policy)
		w, err := d.CreateFile("f")
		require.NoError(t, err)
		defer w.Close()
		_, err = w.WriteAt(make([]byte, 1<<20), 0)
		require.NoError(t, err)
		var st unix.Cachestat_t
		if fs, err := d.FS(); err != nil || fs.Type == "tmpfs" ||
			unix.Cachestat(uint(w.fd), &unix.CachestatRange{}, &st, 0) != nil {
			t.Skip("temporary files are in memory here, or no cachestat")
		}
		require.Equal(t, later, st.Dirty > 0, policy)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		off            int64
		n, bound, want int
	}{
		{0, 1 << 20, 0, 1 << 20}, {0, 100, 128 << 10, 100}, {0, 1 << 20, 128 << 10, 128 << 10},
		{4096, 1 << 20, 128 << 10, 128 << 10}, {100, 1 << 20, 128 << 10, 128<<10 - 100}, {4095, 1 << 20, 4096, 1 << 12},
		{4094, 1 << 20, 8192, 8192 - 4094}, {100, 10, 5, 5}, {3, 0, 5, 0}, {0, 1 << 20, -1, 1 << 20},
	} {
		require.Equal(t, c.want, cut(c.off, c.n, c.bound), "%+v", c)
	}
}
