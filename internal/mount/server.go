package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// server answers the kernel.
type server struct {
	fuse.RawFileSystem // refuses what is not here

	load   tree.Load
	notify func(string)

	mu       sync.Mutex
	dirs     map[uint64]*directory // by number
	lastDir  uint64
	files    map[uint64]*opened
	lastFile uint64
	failed   map[string]bool // what was reported
}

// opened is a file that is open.
type opened struct {
	*view.File
	name string
}

// directory is one that the kernel remembers, or that is above one.
type directory struct {
	number uint64
	entry  view.Entry
	above  *directory
	below  map[uint64]*directory // by the number of their entries
	held   uint64                // look-ups of it, and of entries in it that are no directories, less those forgotten
}

const (
	shift     = 32
	itself    = 1
	firstLeaf = 2
	dots      = 2 // entries of a listing before those of the folder: "." and ".."

	mostReported = 1000 // lines about what cannot be read
)

func newServer(root view.Entry, load tree.Load, notify func(string)) *server {
	top := &directory{entry: root, below: make(map[uint64]*directory)}
	top.above = top
	return &server{RawFileSystem: fuse.NewDefaultRawFileSystem(), load: view.Recent(load), notify: notify,
		dirs: map[uint64]*directory{0: top}, files: make(map[uint64]*opened), failed: make(map[string]bool)}
}

func (s *server) String() string { return "tidemark" }

// request is the context of a request. It ends when the program that waits gets a signal.
type request struct {
	context.Context
	cancel <-chan struct{}
}

func (r request) Done() <-chan struct{} { return r.cancel }

func (r request) Err() error {
	select {
	case <-r.cancel:
		return context.Canceled
	default:
		return nil
	}
}

// answer does f for a request. The kernel reports any signal for the program that waits, also one that interrupts no
// call on a disk, such as that by which Go's runtime stops a thread. So f is then tried once more, for a moment: only a
// program that waits for long is interrupted.
func answer[T any](cancel <-chan struct{}, f func(ctx context.Context) (T, error)) (T, error) {
	result, err := f(request{context.Background(), cancel})
	if !errors.Is(err, context.Canceled) {
		return result, err
	}
	ctx, stop := context.WithTimeout(context.Background(), moment)
	defer stop()
	return f(ctx)
}

// status translates an error, and reports one that is a failure to read. what is the object, for people.
func (s *server) status(err error, what string) fuse.Status {
	switch {
	case err == nil:
		return fuse.OK
	case errors.Is(err, view.ErrAbsent):
		return fuse.ENOENT
	case view.Interrupted(err):
		return fuse.EINTR
	}
	text := fmt.Sprintf("%s: %v", what, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed[text] || len(s.failed) > mostReported:
		return fuse.EIO
	case len(s.failed) == mostReported:
		s.notify("more objects cannot be read: run 'tidemark check'")
	default:
		s.notify(text)
	}
	s.failed[text] = true
	return fuse.EIO
}

// at returns the object with that node number. dir is its directory, or itself.
func (s *server) at(cancel <-chan struct{}, node uint64) (e view.Entry, dir *directory, err error) {
	s.mu.Lock()
	dir = s.dirs[node>>shift]
	s.mu.Unlock()
	switch low := node & (1<<shift - 1); {
	case dir == nil || low == 0:
		return e, nil, syscall.ESTALE
	case low == itself:
		return dir.entry, dir, nil
	default:
		e, err = answer(cancel, func(ctx context.Context) (view.Entry, error) {
			return dir.entry.Folder.Entry(ctx, low-firstLeaf)
		})
		return e, dir, err
	}
}

// hold notes that the kernel remembers an entry of a directory, and returns its node number.
func (s *server) hold(dir *directory, e view.Entry) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Folder == nil {
		dir.held++
		return dir.number<<shift | (e.Number + firstLeaf)
	}
	d := dir.below[e.Number]
	if d == nil || d.entry.Inode != e.Inode { // a rewritten snapshot has the name of the one it replaces
		s.lastDir++
		d = &directory{number: s.lastDir, entry: e, above: dir, below: make(map[uint64]*directory)}
		dir.below[e.Number] = d
		s.dirs[d.number] = d
	}
	d.held++
	return d.number<<shift | itself
}

// Forget releases a directory when the kernel remembers neither it nor anything below.
func (s *server) Forget(node, lookups uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.dirs[node>>shift]
	if d == nil {
		return
	}
	d.held -= min(lookups, d.held)
	for d.held == 0 && len(d.below) == 0 && d != d.above {
		delete(s.dirs, d.number)
		if d.above.below[d.entry.Number] == d {
			delete(d.above.below, d.entry.Number)
		}
		d = d.above
	}
}

func (s *server) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	_, dir, err := s.at(cancel, header.NodeId)
	if err != nil {
		return s.status(err, name)
	}
	e, err := answer(cancel, func(ctx context.Context) (view.Entry, error) { return dir.entry.Folder.Find(ctx, name) })
	if errors.Is(err, view.ErrAbsent) && !dir.entry.Moves {
		out.SetEntryTimeout(forever) // node number 0: there is none
		return fuse.OK
	}
	if err != nil {
		return s.status(err, name)
	}
	s.fill(dir, e, out)
	return fuse.OK
}

func (s *server) fill(dir *directory, e view.Entry, out *fuse.EntryOut) {
	out.NodeId = s.hold(dir, e)
	keep := forever
	if e.Moves {
		keep = brief
	}
	out.SetEntryTimeout(keep)
	out.SetAttrTimeout(keep)
	setAttributes(&out.Attr, e)
}

func (s *server) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	e, _, err := s.at(cancel, in.NodeId)
	if err != nil {
		return s.status(err, "attributes")
	}
	setAttributes(&out.Attr, e)
	if out.SetTimeout(forever); e.Moves {
		out.SetTimeout(brief)
	}
	return fuse.OK
}

func (s *server) Readlink(cancel <-chan struct{}, header *fuse.InHeader) ([]byte, fuse.Status) {
	e, _, err := s.at(cancel, header.NodeId)
	if err == nil && e.Node.Type != tree.Symlink {
		return nil, fuse.EINVAL
	}
	if err != nil {
		return nil, s.status(err, "link")
	}
	return []byte(e.Node.Target), fuse.OK
}

func (s *server) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	e, _, err := s.at(cancel, in.NodeId)
	if err == nil && e.Folder == nil {
		return fuse.ENOTDIR
	}
	if err != nil {
		return s.status(err, "folder")
	}
	if !e.Moves {
		out.OpenFlags = fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_CACHE_DIR
	}
	return fuse.OK
}

func (s *server) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return s.list(cancel, in, func(_ *directory, _ view.Entry, as fuse.DirEntry) bool { return out.AddDirEntry(as) })
}

func (s *server) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return s.list(cancel, in, func(dir *directory, e view.Entry, as fuse.DirEntry) bool {
		room := out.AddDirLookupEntry(as)
		if room != nil && dir != nil {
			s.fill(dir, e, room)
		}
		return room != nil
	})
}

// list passes the entries of a directory from an offset on to add, until there is no room. "." and ".." have no dir:
// the kernel does not remember them.
func (s *server) list(cancel <-chan struct{}, in *fuse.ReadIn,
	add func(dir *directory, e view.Entry, as fuse.DirEntry) bool,
) fuse.Status {
	_, dir, err := s.at(cancel, in.NodeId)
	if err != nil {
		return s.status(err, "folder")
	}
	from := in.Offset
	for i, as := range []*directory{dir, dir.above} {
		if uint64(i) >= from {
			e := fuse.DirEntry{Name: "..."[:i+1], Mode: syscall.S_IFDIR, Ino: as.entry.Inode, Off: uint64(i) + 1}
			if !add(nil, view.Entry{}, e) {
				return fuse.OK
			}
			from++
		}
	}
	_, err = answer(cancel, func(ctx context.Context) (some bool, err error) {
		err = dir.entry.Folder.List(ctx, from-dots, func(e view.Entry) bool {
			as := fuse.DirEntry{Name: e.Node.Name, Mode: typeBits(e.Node.Type), Ino: e.Inode, Off: e.Number + dots + 1}
			ok := add(dir, e, as)
			some = some || ok
			return ok
		})
		if some {
			err = nil // the next request gets the error again
		}
		return some, err
	})
	return s.status(err, dir.entry.Node.Name+": list")
}

func (s *server) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	e, _, err := s.at(cancel, in.NodeId)
	if err != nil {
		return s.status(err, "file")
	}
	if e.Node.Type != tree.File {
		return fuse.EACCES
	}
	f, err := view.NewFile(s.load, e.Node)
	if err != nil {
		return s.status(err, e.Node.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastFile++
	s.files[s.lastFile] = &opened{f, e.Node.Name}
	out.Fh = s.lastFile
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

func (s *server) file(handle uint64) *opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[handle]
}

func (s *server) Read(cancel <-chan struct{}, in *fuse.ReadIn, p []byte) (fuse.ReadResult, fuse.Status) {
	f := s.file(in.Fh)
	if f == nil {
		return nil, fuse.EBADF
	}
	n, err := answer(cancel, func(ctx context.Context) (int, error) {
		return f.ReadAt(ctx, p[:min(len(p), int(in.Size))], in.Offset)
	})
	if err == nil || errors.Is(err, io.EOF) {
		return fuse.ReadResultData(p[:n]), fuse.OK
	}
	// Nothing is delivered, for the kernel takes a short answer for the end of the file. It asks again for smaller parts.
	return nil, s.status(err, f.name)
}

// Flush says once that there is nothing to do when a file is closed. The kernel does not ask again.
func (s *server) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

func (s *server) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[in.Fh]; f != nil {
		f.Close()
		delete(s.files, in.Fh)
	}
}

// Lseek finds the next hole, or the next data.
func (s *server) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	f := s.file(in.Fh)
	if f == nil {
		return fuse.EBADF
	}
	at, err := answer(cancel, func(ctx context.Context) (uint64, error) {
		return f.Seek(ctx, in.Offset, in.Whence == seekHole)
	})
	if errors.Is(err, io.EOF) {
		return fuse.Status(syscall.ENXIO)
	}
	out.Offset = at
	return s.status(err, f.name)
}

const seekHole = 4 // SEEK_HOLE of Linux; the other one that is asked for is SEEK_DATA
