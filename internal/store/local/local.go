// Package local is a store in a folder: of a disk, or of a share that the system has mounted.
//
// # Writing a file
//
// Put writes a temporary file in the folder of the destination (the same file system, so that the rename is atomic),
// flushes it, renames it, and flushes the folder. A crash at any moment leaves the old file, the new one or none under
// the final name, never a part of one.
//
// # Temporary files
//
// Their names begin with store.TempPrefix, which no stored file's name can, so they are never listed. A killed writer
// leaves one behind. The first Put of a Store removes those whose last write is more than a day old by the clock of the
// target. A writer that was suspended for longer finds its temporary file gone: its rename fails with a temporary
// error. A Store that only reads removes nothing.
//
// # Leases
//
// A lease is not flushed on a disk of this machine. Others see it at once. A crash of the kernel ends every writer of
// such a file system, and a lease that survived would keep the next one waiting until it expires. On other file systems
// a lease is flushed: when a server comes back after a failure, the leases of its running clients must still be there.
// After a power cut a lease may therefore be missing, old or empty.
//
// # A target that goes away
//
// Nothing is kept open between operations, so a disk can be unmounted at any time. The empty mount point must not be
// mistaken for the repository. Once the config file was seen, its absence turns every "no such file" into
// store.ErrGone, and no folder is created. Put opens the folder of the repository, compares the config file with the
// one of the beginning, and reaches every file through that open folder (see guard.go). So nothing is written to the
// disk beneath, or to another disk that is mounted there, even if it holds a copy. A listing makes the same comparison
// before and after: files of a disk that is unmounted meanwhile are missing, but were not removed.
//
// # The gate
//
// Every call that can use the device is an operation of its gate (package iopolicy). Reads and writes are cut to what
// the gate allows. Written data is sent to the device at once: the kernel would write it seconds later, outside every
// gate. Flushing a file is one operation, renaming it and flushing its folder another. The removal of a temporary file
// after a failed Put does not wait at the gate.
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
	// step is how much one operation reads or writes without a bound of the gate: a few milliseconds on a disk.
	step = 4 << 20
	// small is the size up to which a file is written and flushed in one operation.
	small = 64 << 10
	// large is the size from which a read leaves nothing in the page cache.
	large = 1 << 20
)

// Store is a folder. It keeps no descriptor between operations and needs no Close.
type Store struct {
	root  string
	pass  *iopolicy.Pass
	known atomic.Bool             // the config file was seen: its absence means that the target is gone
	swept atomic.Bool             // stale temporary files were removed
	seen  atomic.Pointer[witness] // nil: not observed yet
	cold  coldPacks
}

var _ store.Store = (*Store)(nil)

// Create makes the folder path, with missing parents, and the folders of the layout in it. Existing ones are kept; the
// caller checks whether a repository is there already. pass leads to the device of path; nil: no gate.
func Create(path string, pass *iopolicy.Pass) (*Store, error) {
	s, err := newStore(path, pass)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := s.makeDirs(ctx, s.root); err != nil {
		return nil, fmt.Errorf("create repository folder: %w", s.explain(ctx, err))
	}
	for folder := range store.Folders() {
		if err := s.makeDir(ctx, filepath.Join(s.root, folder)); err != nil {
			return nil, fmt.Errorf("create repository folder: %w", s.explain(ctx, err))
		}
	}
	s.lookForConfig(ctx)
	return s, nil
}

// Open opens the folder path. A missing folder is store.ErrNotExist. A folder without a config file is opened; reading
// its config is store.ErrNotExist. pass is as for Create.
func Open(path string, pass *iopolicy.Pass) (*Store, error) {
	s, err := newStore(path, pass)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	var info fs.FileInfo
	err = s.metadata(ctx, func() (err error) {
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

// Location returns the absolute path of the folder.
func (s *Store) Location() string { return s.root }

// Get opens, reads and closes the file.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if err := s.confirmMissing(ctx, func() error { return s.get(ctx, name, off, p) }); err != nil {
		return fmt.Errorf("get %s: %w", name, s.explain(ctx, err))
	}
	s.sawConfig(name)
	return nil
}

func (s *Store) get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if err := store.Admit(ctx, name); err != nil {
		return err
	}
	if off < 0 {
		return fmt.Errorf("negative offset %d", off)
	}
	var f *os.File
	err := s.metadata(ctx, func() (err error) {
		// O_NONBLOCK: opening a fifo must not block.
		f, err = open(s.path(name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
		return err
	})
	if err != nil {
		return err
	}
	defer f.Close()
	if off > math.MaxInt64-int64(len(p)) {
		return fmt.Errorf("%w: no file reaches to %d bytes from %d", store.ErrShort, len(p), off)
	}
	if name.Kind == store.Pack && len(p) >= large &&
		s.cold.check(name.ID, func() bool { return !mostlyCached(f, off, len(p)) }) {
		defer drop(f, off, len(p))
	}
	r, piece := &reader{f: f}, store.PieceOf(ctx, store.Download, step)
	for done := 0; done < len(p); {
		n, err := s.pass.Do(ctx, iopolicy.Op{Kind: iopolicy.Read, Bytes: len(p) - done}, func(bound int) (int, error) {
			return r.readAt(p[done:min(done+piece, len(p))], off+int64(done), bound)
		})
		done += n
		if paced := store.Paced(ctx, store.Download, n); err == nil {
			err = paced
		}
		if err != nil && ctx.Err() != nil { // any error: it says nothing about the file
			return context.Cause(ctx)
		}
		if (errors.Is(err, io.EOF) || errors.Is(err, unix.EISDIR)) && done < len(p) { // or a fence
			return tooShort(f, len(p), off)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// tooShort is the error of a read of n bytes from off that met the end of the file.
func tooShort(f *os.File, n int, off int64) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%w: %d bytes from %d are not all there (%w)", store.ErrShort, n, off, err)
	}
	return fmt.Errorf("%w: it has %d bytes, want %d from %d", store.ErrShort, info.Size(), n, off)
}

// Stat describes a regular file. Anything else under the name does not exist.
func (s *Store) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	var info fs.FileInfo
	err := s.confirmMissing(ctx, func() (err error) {
		info, err = s.stat(ctx, name)
		return err
	})
	if err != nil {
		return store.Info{}, fmt.Errorf("stat %s: %w", name, s.explain(ctx, err))
	}
	s.sawConfig(name)
	return store.Describe(name, info), nil
}

func (s *Store) stat(ctx context.Context, name store.Name) (fs.FileInfo, error) {
	if err := store.Admit(ctx, name); err != nil {
		return nil, err
	}
	var info fs.FileInfo
	err := s.metadata(ctx, func() (err error) {
		info, err = os.Lstat(s.path(name))
		return err
	})
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !store.IsFence(name.Kind, info.Mode()) {
		return nil, fmt.Errorf("%w: not a regular file", fs.ErrNotExist)
	}
	return info, nil
}

// Delete removes the file and flushes its folder. The removal of a pack is not flushed, since nothing depends on its
// absence and a prune removes thousands. Nor is that of a lease where a crash ends every writer.
func (s *Store) Delete(ctx context.Context, name store.Name) error {
	if err := s.confirmMissing(ctx, func() error { return s.remove(ctx, name) }); err != nil {
		return fmt.Errorf("delete %s: %w", name, s.explain(ctx, err))
	}
	return nil
}

func (s *Store) remove(ctx context.Context, name store.Name) error {
	if err := store.Admit(ctx, name); err != nil {
		return err
	}
	path, do := s.path(name), s.metadata
	durable := name.Kind != store.Pack && !s.skipsFlush(name.Kind)
	if durable {
		do = s.flush
	}
	return do(ctx, func() error {
		if err := unlink(path, name.Kind); err != nil {
			return err
		}
		if name.Kind == store.Config {
			s.known.Store(false)
			s.seen.Store(nil)
		}
		if !durable {
			return nil
		}
		return syncDir(filepath.Dir(path))
	})
}

func (s *Store) path(name store.Name) string {
	return filepath.Join(s.root, filepath.FromSlash(name.Path()))
}

// lookForConfig enables the check for a target that goes away.
func (s *Store) lookForConfig(ctx context.Context) {
	if s.lstat(ctx, s.configPath()) != nil {
		return
	}
	s.known.Store(true)
	_ = s.guard(ctx) // if this fails, so does the first Put
}

func (s *Store) sawConfig(name store.Name) {
	if name.Kind == store.Config && !s.known.Load() {
		s.known.Store(true)
	}
}

// checkPresent runs after something was not found. It returns nil if the target is there, else store.ErrGone or the
// error that prevented the check.
func (s *Store) checkPresent(ctx context.Context, what error) error {
	at := s.root
	if s.known.Load() {
		at = s.configPath()
	}
	err := s.lstat(ctx, at)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return s.lost(what)
	}
	return err
}

// absent reports whether err says that a file is missing, and not the target.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrGone) }

// confirmMissing repeats an operation that found nothing, after checking that the target is there: it may have been
// away for a moment.
func (s *Store) confirmMissing(ctx context.Context, ask func() error) error {
	err := ask()
	if ctx.Err() != nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if s.known.Load() {
		if lost := s.checkPresent(ctx, err); lost != nil {
			return lost
		}
		return ask()
	}
	return err
}

// lstat returns an error if nothing is at path.
func (s *Store) lstat(ctx context.Context, path string) error {
	return s.metadata(ctx, func() error {
		_, err := os.Lstat(path)
		return err
	})
}

// metadata runs call as a metadata operation of the gate.
func (s *Store) metadata(ctx context.Context, call func() error) error {
	return s.do(ctx, iopolicy.Op{Kind: iopolicy.Metadata}, call)
}

// flush runs call as an operation that makes something durable.
func (s *Store) flush(ctx context.Context, call func() error) error {
	return s.do(ctx, iopolicy.Op{Kind: iopolicy.Sync, Certain: true}, call)
}

func (s *Store) do(ctx context.Context, op iopolicy.Op, call func() error) error {
	_, err := s.pass.Do(ctx, op, func(int) (int, error) { return 0, call() })
	return err
}

// open opens a file or folder by its absolute path.
func open(path string, flags int) (*os.File, error) {
	return openAt(unix.AT_FDCWD, path, flags, 0, path)
}

// openAt opens a file or folder below an open one; full is its absolute path. It saves the six system calls by which
// os.OpenFile learns that the poller cannot be used.
func openAt(dir int, path string, flags int, mode uint32, full string) (*os.File, error) {
	var fd int
	err := retryEINTR(func() (err error) {
		fd, err = unix.Openat(dir, path, flags|unix.O_CLOEXEC, mode)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: full, Err: err}
	}
	return os.NewFile(uintptr(fd), full), nil
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

// reader reads one file in pieces that the gate allows.
type reader struct {
	f     *os.File
	exact bool // read-ahead is off
}

// readAt is part of one operation. It reads up to bound bytes; 0: up to step.
func (r *reader) readAt(p []byte, off int64, bound int) (int, error) {
	if bound > 0 {
		if !r.exact { // read-ahead would exceed the bound; f is not open for long
			r.exact = true
			_ = withFD(r.f, func(fd int) error { pages.ReadAhead(fd, false); return nil })
		}
		p = p[:min(bound, len(p))]
	}
	return r.f.ReadAt(p[:min(step, len(p))], off)
}

// retryEINTR repeats a system call while a signal interrupts it.
func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
