// Package local is a store in a folder: of a disk, or of a share that the system has mounted. It knows paths and how to
// make a file durable, and refuses to know what is inside.
//
// # How a file comes to be
//
// Put writes into a temporary file in the folder of the destination (one file system, so that the rename is atomic;
// O_EXCL, a random name), flushes it, renames it, and flushes the folder. A crash at any moment leaves under the final
// name the old file, the new one or none, never a part of one.
//
// # Temporary files
//
// Their names begin with TempPrefix, which no stored file's name can, so they are never listed. A writer that was killed
// leaves one behind. The first Put of a Store removes those whose last write is more than a day old by the clock of the
// target. A writer that was suspended for a day and then goes on finds its temporary file gone: its rename fails, with a
// temporary error, and nothing is harmed. A Store that only reads removes nothing.
//
// # Leases
//
// A lease is written and renamed like any other file, but not flushed where the file system is that of a disk of this
// machine. It is there for others to see, and they see it at once. A flush would keep it for after a crash, which on such
// a file system ends every writer: the next one would find the lease of somebody dead, and wait for it to expire. Elsewhere
// it is flushed: what comes back after a server has failed must still have the lease of a writer that goes on. So after
// a power cut a lease may be missing, older or empty.
//
// # A target that goes away
//
// Nothing is kept open between operations, so a disk can be unmounted at any time. The folder that is left where it was
// mounted must not be mistaken for the repository: once the config file has been seen, its absence turns every "no such
// file" into store.ErrGone, and no folder is ever made on the wrong disk. Before every Put the mounts by which the config
// and the folder of packs are reached are compared with those of the beginning, and again before it says that the file is
// stored (see guard and confirm), so that a pack is not written
// to another disk either, though that may hold a repository as well. So they are before and after a listing: files of a disk
// that is unmounted meanwhile are not found, which is no sign that they were removed. A target that was mounted anew in between and is
// the same, by its config and its file system, goes on being used.
//
// # The gate
//
// Every call that can make the device work is an operation of the gate of the device (package iopolicy). Reads and
// writes are cut to what it allows. What is written is sent to the device at once and not left to the system, which would
// write it seconds later, when nobody can tell any more whose it is, and without regard to anybody. Flushing a file,
// and giving it its name and flushing the folder, are one operation each. Removing the temporary file of a Put that
// failed waits for nothing.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	// step is how much one operation reads or writes where the gate sets no bound: a few milliseconds on a disk.
	step = 4 << 20
	// small is the largest file that is written and flushed as one operation.
	small = 64 << 10
	// large is the shortest read that leaves nothing in the page cache.
	large = 1 << 20
)

// Store is a folder. It holds no descriptor between operations and needs no closing.
type Store struct {
	root  string
	pass  *iopolicy.Pass
	known atomic.Bool          // the config file was there: it is the proof that the target is mounted
	swept atomic.Bool          // this Store looked for stale temporary files
	seen  atomic.Pointer[seen] // the target as it was when the config file was there; nil: not looked at yet
	met   acquaintance
}

var _ store.Store = (*Store)(nil)

// Create makes the folder path, with any missing parents, and the folders of the layout in it. What exists already is
// kept, so creating twice does no harm; whether a repository is there already is for the caller to ask. pass is the way
// to the device that path lies on; nil: everything is admitted at once.
func Create(path string, pass *iopolicy.Pass) (*Store, error) {
	s, err := newStore(path, pass)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := s.makeDirs(ctx, s.root); err != nil {
		return nil, fmt.Errorf("create repository folder: %w", s.explain(ctx, err))
	}
	for kind := range store.Kinds() {
		if kind.Folder() == "" {
			continue
		}
		if err := s.makeDir(ctx, filepath.Join(s.root, kind.Folder())); err != nil {
			return nil, fmt.Errorf("create repository folder: %w", s.explain(ctx, err))
		}
	}
	s.lookForConfig(ctx)
	return s, nil
}

// Open uses the folder path. A path that is not there is store.ErrNotExist; a folder without a config file is opened,
// and says store.ErrNotExist when the config is asked for. pass is as for Create.
func Open(path string, pass *iopolicy.Pass) (*Store, error) {
	s, err := newStore(path, pass)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	var info fs.FileInfo
	err = s.look(ctx, func() (err error) {
		info, err = os.Stat(s.root)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open repository folder: %w", s.explain(ctx, err))
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open repository folder: %s is not a folder; name the one that holds the repository",
			s.root)
	}
	s.lookForConfig(ctx)
	return s, nil
}

func newStore(path string, pass *iopolicy.Pass) (*Store, error) {
	if path == "" {
		return nil, errors.New("open repository folder: the path is empty; name the folder of the repository")
	}
	root, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open repository folder: %w", err)
	}
	return &Store{root: root, pass: pass}, nil
}

// Location is the absolute path of the folder.
func (s *Store) Location() string { return s.root }

// Get opens, reads and closes; the folder may be unmounted the moment after.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if err := s.twice(ctx, func() error { return s.get(ctx, name, off, p) }); err != nil {
		return fmt.Errorf("get %s: %w", name, s.explain(ctx, err))
	}
	s.sawConfig(name)
	return nil
}

func (s *Store) get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if err := admit(ctx, name); err != nil {
		return err
	}
	if off < 0 {
		return fmt.Errorf("negative offset %d", off)
	}
	var f *os.File
	err := s.look(ctx, func() (err error) {
		// O_NONBLOCK: a fifo that somebody put there must not hang the program.
		f, err = open(s.path(name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		return err
	})
	if err != nil {
		return err
	}
	defer f.Close()
	if off > math.MaxInt64-int64(len(p)) {
		return fmt.Errorf("%w: no file reaches to %d bytes from %d", store.ErrShort, len(p), off)
	}
	if name.Kind == store.Pack && len(p) >= large && s.met.cold(name.ID, func() bool { return !mostlyCached(f, off, len(p)) }) {
		defer dropRange(f, off, len(p))
	}
	r := &reader{f: f}
	for done := 0; done < len(p); {
		n, err := s.pass.Do(ctx, iopolicy.Op{Kind: iopolicy.Read, Bytes: len(p) - done}, func(bound int) (int, error) {
			return r.readAt(p[done:], off+int64(done), bound)
		})
		done += n
		if err != nil && ctx.Err() != nil { // for whatever reason: it says nothing about the file
			return context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) && done < len(p) {
			return fmt.Errorf("%w: it ends at byte %d, want %d from %d", store.ErrShort, off+int64(done), len(p), off)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// Stat describes a regular file; anything else under the name is not a stored file.
func (s *Store) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	var info fs.FileInfo
	err := s.twice(ctx, func() (err error) {
		info, err = s.stat(ctx, name)
		return err
	})
	if err != nil {
		return store.Info{}, fmt.Errorf("stat %s: %w", name, s.explain(ctx, err))
	}
	s.sawConfig(name)
	return store.Info{Name: name, Size: info.Size(), Modified: info.ModTime()}, nil
}

func (s *Store) stat(ctx context.Context, name store.Name) (fs.FileInfo, error) {
	if err := admit(ctx, name); err != nil {
		return nil, err
	}
	var info fs.FileInfo
	err := s.look(ctx, func() (err error) {
		info, err = os.Lstat(s.path(name))
		return err
	})
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: what has its name is not a regular file", fs.ErrNotExist)
	}
	return info, nil
}

// Delete removes the file and flushes its folder, except for packs: nothing depends on the absence of a pack, and a
// prune that removes ten thousand of them need not wait for ten thousand flushes. Nor of a lease, where no other writer
// outlives a crash: one that comes back is that of a dead writer.
func (s *Store) Delete(ctx context.Context, name store.Name) error {
	if err := s.twice(ctx, func() error { return s.remove(ctx, name) }); err != nil {
		return fmt.Errorf("delete %s: %w", name, s.explain(ctx, err))
	}
	return nil
}

func (s *Store) remove(ctx context.Context, name store.Name) error {
	if err := admit(ctx, name); err != nil {
		return err
	}
	path, do := s.path(name), s.look
	lasting := name.Kind != store.Pack && !s.brief(name.Kind)
	if lasting {
		do = s.flush
	}
	return do(ctx, func() error {
		if err := again(func() error { return unix.Unlink(path) }); err != nil {
			return &fs.PathError{Op: "unlink", Path: path, Err: err}
		}
		if name.Kind == store.Config {
			s.known.Store(false)
			s.seen.Store(nil)
		}
		if !lasting {
			return nil
		}
		return syncDir(filepath.Dir(path))
	})
}

func (s *Store) path(name store.Name) string {
	return filepath.Join(s.root, filepath.FromSlash(name.Path()))
}

// admit turns away what needs no look at the disk.
func admit(ctx context.Context, name store.Name) error {
	if err := name.Check(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// lookForConfig arms the test for a vanished target.
func (s *Store) lookForConfig(ctx context.Context) {
	now, err := s.observe(ctx)
	if err == nil {
		s.seen.Store(now)
	}
	if err == nil || s.lstat(ctx, s.marker()) == nil {
		s.known.Store(true)
	}
}

func (s *Store) sawConfig(name store.Name) {
	if name.Kind == store.Config && !s.known.Load() {
		s.known.Store(true)
	}
}

// missed is asked when something was not found, so that it costs nothing on the good path: nil, if the target is where it
// was; else that it is not, or why that could not be found out.
func (s *Store) missed(ctx context.Context, what error) error {
	witness := s.root
	if s.known.Load() {
		witness = s.marker()
	}
	err := s.lstat(ctx, witness)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return s.lost(what)
	}
	return err
}

// absent reports whether err says that something is not there, and not that the target is not.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrGone) }

// twice asks again for what was not there, once it is seen that the target is: it may have come back in between.
func (s *Store) twice(ctx context.Context, ask func() error) error {
	err := ask()
	if ctx.Err() != nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.known.Load() {
		if lost := s.missed(ctx, err); lost != nil {
			return lost
		}
		return ask()
	}
	return err
}

// lstat asks whether something is there.
func (s *Store) lstat(ctx context.Context, path string) error {
	return s.look(ctx, func() error {
		_, err := os.Lstat(path)
		return err
	})
}

// look is an operation on names and what they stand for.
func (s *Store) look(ctx context.Context, call func() error) error {
	return s.do(ctx, iopolicy.Op{Kind: iopolicy.Metadata}, call)
}

// flush is an operation that ends when something is durable.
func (s *Store) flush(ctx context.Context, call func() error) error {
	return s.do(ctx, iopolicy.Op{Kind: iopolicy.Sync, Certain: true}, call)
}

func (s *Store) do(ctx context.Context, op iopolicy.Op, call func() error) error {
	_, err := s.pass.Do(ctx, op, func(int) (int, error) { return 0, call() })
	return err
}

// open is os.OpenFile, without six more calls of the system by which the runtime's poller learns that it has no use for a
// file or folder.
func open(path string, flags int, mode uint32) (*os.File, error) {
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, mode)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// withFD calls act with the descriptor of f.
func withFD(f *os.File, act func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var actErr error
	if err := raw.Control(func(fd uintptr) { actErr = act(int(fd)) }); err != nil {
		return err
	}
	return actErr
}

// reader reads one file as the gate allows.
type reader struct {
	f     *os.File
	exact bool // the system was told to read no more than it is asked for
}

// readAt is one operation: it reads up to bound bytes, if there is a bound, else a step.
func (r *reader) readAt(p []byte, off int64, bound int) (int, error) {
	if bound > 0 {
		if !r.exact { // or what is read ahead would defeat the bound; f is not open for long
			r.exact = true
			_ = withFD(r.f, func(fd int) error { pages.ReadAhead(fd, false); return nil })
		}
		p = p[:min(bound, len(p))]
	}
	return r.f.ReadAt(p[:min(step, len(p))], off)
}

// again repeats a system call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
