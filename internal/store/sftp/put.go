package sftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// file is an open file on a server.
type file = sftp.File

// Put stores a file and replaces that of the name.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) (err error) {
	defer store.Wrap(&err, "put", name)
	_, err = s.put(ctx, name, data, false)
	return err
}

// PutNew stores a file under a name that nothing has. That exactly one of several callers succeeds rests on hard links
// of the server's file system.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	at, err := s.put(ctx, name, data, true)
	if err != nil {
		return store.Info{}, fmt.Errorf("put new %s: %w", name, err)
	}
	return store.Info{Name: name, Size: int64(len(data)), Modified: at}, nil
}

// put returns the time of the file by the clock of the server.
func (s *Store) put(ctx context.Context, name store.Name, data []byte, fresh bool) (at time.Time, err error) {
	if err := store.Admit(ctx, name); err != nil {
		return at, err
	}
	err = s.with(ctx, func(c *channel) error {
		folder := s.prepare(ctx, c, name)
		temp, now, err := s.upload(ctx, c, name, data)
		dir := folder()
		if dir != nil {
			defer s.inBackground(dir.Close)
		}
		if err == nil {
			at, err = now, s.publish(ctx, c, temp, name, fresh)
		}
		if err != nil {
			s.discard(c, temp)
			return err
		}
		if name.Kind == store.Config {
			s.witness.Store(nil) // the next look at it remembers the new one
		}
		s.tidy(ctx, name, now)
		if passing(ctx, name) {
			return nil
		}
		return s.flush(ctx, dir)
	})
	return at, err
}

// passing reports whether a file is removed next, so that only who gets its name matters.
func passing(ctx context.Context, name store.Name) bool {
	return name.Kind == store.Lease && store.IsPassing(ctx)
}

// prepare makes the folder of a pack and opens it, while the pack is uploaded. opened waits for that and returns the
// folder; nil: it cannot be opened, and so not be flushed.
func (s *Store) prepare(ctx context.Context, c *channel, name store.Name) (opened func() *file) {
	if passing(ctx, name) {
		return func() *file { return nil }
	}
	var dir *file
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.makeFan(ctx, c, name); err == nil {
			dir = s.openFolder(ctx, c, path.Dir(s.at(name.Path())))
		}
	})
	return func() *file {
		group.Wait()
		return dir
	}
}

// makeFan creates the folder of a pack, once.
func (s *Store) makeFan(ctx context.Context, c *channel, name store.Name) error {
	if !s.fans.Lacks(name) {
		return nil
	}
	if err := s.makeDir(ctx, c, path.Dir(s.at(name.Path()))); err != nil {
		return err
	}
	s.fans.Made(name)
	return nil
}

// upload leaves a complete temporary file, verified and flushed unless it is passing. It lies in the folder of the
// kind, so that a sweep reads few folders.
func (s *Store) upload(ctx context.Context, c *channel, name store.Name, data []byte) (
	temp string, now time.Time, err error,
) {
	dir := s.at(name.Folder())
	temp = path.Join(dir, store.TempName(store.TempPrefix))
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := s.open(ctx, c, temp, flags)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.remake(ctx, c, name.Kind); err != nil {
			return temp, now, err
		}
		f, err = s.open(ctx, c, temp, flags)
	}
	if err != nil {
		return temp, now, s.orFull(c, len(data), err)
	}
	defer s.inBackground(f.Close) // a flush has reported all errors
	if passing(ctx, name) {
		now, err = s.written(ctx, c, f, data)
		return temp, now, err
	}
	// A second handle reads back while the first one flushes: the library lets one wait for the other on the same.
	back := f
	var opening sync.WaitGroup
	opening.Go(func() {
		if second, err := s.open(ctx, c, temp, os.O_RDONLY); err == nil {
			back = second
		}
	})
	defer func() {
		if opening.Wait(); back != f {
			s.inBackground(back.Close)
		}
	}()
	if err := s.write(ctx, c, f, data); err != nil {
		return temp, now, err
	}
	var flushed error
	var flushing sync.WaitGroup
	flushing.Go(func() { flushed = s.flush(ctx, f) })
	opening.Wait()
	now, err = s.verify(ctx, back, data)
	if flushing.Wait(); err == nil {
		err = s.orFull(c, len(data), flushed)
	}
	return temp, now, err
}

// written writes a file that is neither read back nor flushed, and returns its time.
func (s *Store) written(ctx context.Context, c *channel, f *file, data []byte) (at time.Time, err error) {
	var info fs.FileInfo
	var unknown error
	var looking sync.WaitGroup
	looking.Go(func() {
		unknown = s.metadata(ctx, func() (err error) {
			info, err = f.Stat()
			return err
		})
	})
	err = s.write(ctx, c, f, data)
	if looking.Wait(); err == nil {
		err = unknown
	}
	if err != nil {
		return at, err
	}
	return info.ModTime(), nil
}

// write writes data to an empty file.
func (s *Store) write(ctx context.Context, c *channel, f *file, data []byte) error {
	for off := 0; off < len(data); {
		piece := store.PieceOf(ctx, store.Upload, len(data)-off)
		op := iopolicy.Op{Kind: iopolicy.Write, Bytes: piece, Certain: true}
		n, err := s.pass.Do(ctx, op, func(bound int) (int, error) {
			if bound > 0 {
				piece = min(piece, bound)
			}
			return f.WriteAt(data[off:off+piece], int64(off))
		})
		if err != nil {
			return s.orFull(c, len(data), err)
		}
		off += n
		if err := store.Paced(ctx, store.Upload, n); err != nil {
			return err
		}
	}
	return nil
}

// remake creates the folder of a kind if the repository is there. A missing folder of snapshots is an error.
func (s *Store) remake(ctx context.Context, c *channel, kind store.Kind) error {
	if err := s.present(ctx, c); err != nil {
		return err
	}
	if kind == store.Snapshot && s.witness.Load() != nil {
		return store.NoSnapshots(s.Location())
	}
	folders := []string{kind.Folder()}
	if kind == store.Pack {
		folders = append(folders, store.Trees)
	}
	for _, folder := range folders {
		if err := s.makeDir(ctx, c, s.at(folder)); err != nil {
			return err
		}
	}
	return nil
}

// verify compares the size and the end of a file with what was sent, and returns its time.
func (s *Store) verify(ctx context.Context, f *file, data []byte) (at time.Time, err error) {
	off := max(0, len(data)-store.ProvenEnd)
	end := make([]byte, len(data)-off) // not a byte more: the answer that there is none would take a turn
	var info fs.FileInfo
	var unknown error
	var both sync.WaitGroup
	both.Go(func() {
		unknown = s.metadata(ctx, func() (err error) {
			info, err = f.Stat()
			return err
		})
	})
	n, err := s.pass.Do(ctx, iopolicy.Op{Kind: iopolicy.Read, Bytes: len(end), Certain: true}, func(int) (int, error) {
		return f.ReadAt(end, int64(off))
	})
	both.Wait()
	switch {
	case unknown != nil:
		return at, unknown
	case err != nil && !errors.Is(err, io.EOF):
		return at, err
	case info.Size() != int64(len(data)) || !bytes.Equal(end[:n], data[off:]):
		return at, &store.Problem{What: s.target.Host + " did not store what was sent",
			Do: "check its disk and its memory, " + goOn, Kinds: []error{store.ErrTemporary}}
	}
	return info.ModTime(), nil
}

// publish gives a temporary file its name.
func (s *Store) publish(ctx context.Context, c *channel, temp string, name store.Name, fresh bool) error {
	final := s.at(name.Path())
	place := func() error {
		if fresh {
			return s.link(ctx, c, temp, final)
		}
		return s.metadata(ctx, func() error { return c.PosixRename(temp, final) })
	}
	err := place()
	if errors.Is(err, fs.ErrNotExist) && name.InFan() { // the folder was removed since it was seen
		s.fans.Of(name).Store(false)
		if err := s.makeFan(ctx, c, name); err != nil {
			return err
		}
		err = place()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if gone := s.present(ctx, c); gone != nil {
			return gone
		}
		return fmt.Errorf("%w: the temporary file was removed before it got its name", store.ErrTemporary)
	case !answered(err) || !fresh && name.Kind != store.Lease:
		return err
	}
	if info, missing := s.stat(ctx, c, final); missing == nil {
		switch {
		case store.IsFence(name.Kind, info.Mode()):
			return store.ErrFenced
		case fresh:
			return store.ErrExists
		}
	}
	return err
}

// link gives a file a name that nothing has: by a hard link or, where there are none, by the rename that replaces
// nothing.
func (s *Store) link(ctx context.Context, c *channel, temp, final string) error {
	if !s.noLinks.Load() {
		err := s.metadata(ctx, func() error { return c.Link(temp, final) })
		if err == nil {
			s.discard(c, temp)
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) || !answered(err) {
			return err
		}
	}
	if _, err := s.stat(ctx, c, final); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return err
	}
	err := s.metadata(ctx, func() error { return c.Rename(temp, final) })
	if err == nil {
		s.noLinks.Store(true)
	}
	return err
}

// Fence makes an empty folder.
func (s *Store) Fence(ctx context.Context, name store.Name) (err error) {
	defer store.Wrap(&err, "fence", name)
	if err := name.CheckFence(); err != nil {
		return err
	}
	return s.with(ctx, func(c *channel) error { return s.fence(ctx, c, name) })
}

func (s *Store) fence(ctx context.Context, c *channel, name store.Name) error {
	at := s.at(name.Path())
	mkdir := func() error { return s.metadata(ctx, func() error { return c.Mkdir(at) }) }
	err := mkdir()
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.remake(ctx, c, name.Kind); err != nil {
			return err
		}
		err = mkdir()
	}
	if answered(err) {
		switch info, missing := s.stat(ctx, c, at); {
		case missing != nil:
			return err
		case !info.IsDir():
			return store.ErrExists
		}
		err = nil
	}
	if err != nil {
		return err
	}
	return s.flushFolder(ctx, c, path.Dir(at))
}

// flush makes a file or a folder durable, if the server can; nil: nothing.
func (s *Store) flush(ctx context.Context, f *file) error {
	if f == nil || s.noFlush.Load() {
		return nil
	}
	return s.gated(ctx, iopolicy.Sync, f.Sync)
}

// openFolder opens a folder to flush it; nil: the server cannot do that.
func (s *Store) openFolder(ctx context.Context, c *channel, at string) *file {
	if s.noFolderFlush.Load() {
		return nil
	}
	f, err := s.open(ctx, c, at, os.O_RDONLY)
	if err != nil {
		if answered(err) && !errors.Is(err, fs.ErrNotExist) {
			s.noFolderFlush.Store(true)
		}
		return nil
	}
	return f
}

// flushFolder makes the names in a folder durable, if the server can.
func (s *Store) flushFolder(ctx context.Context, c *channel, at string) error {
	f := s.openFolder(ctx, c, at)
	if f == nil {
		return nil
	}
	defer s.inBackground(f.Close)
	return s.flush(ctx, f)
}

// discard removes a temporary file in the background. If that fails, the file is removed later.
func (s *Store) discard(c *channel, temp string) {
	s.inBackground(func() error {
		err := c.Remove(temp)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.orphans = append(s.orphans, temp)
		}
		return err
	})
}

// tidy removes what failed attempts have left and, beside the first pack, the temporary files of dead writers. now is
// the time of the server.
func (s *Store) tidy(ctx context.Context, name store.Name, now time.Time) {
	s.mu.Lock()
	left := s.orphans
	s.orphans = nil
	s.mu.Unlock()
	if len(left) > 0 {
		s.inBackground(func() error {
			return s.with(ctx, func(c *channel) error {
				for _, temp := range left {
					s.discard(c, temp)
				}
				return nil
			})
		})
	}
	if name.Kind == store.Pack && !s.swept.Swap(true) {
		s.inBackground(func() error {
			return s.with(ctx, func(c *channel) error { return s.sweep(ctx, c, now.Add(-store.StaleAfter)) })
		})
	}
}

// sweep removes temporary files and scratch folders from before a time.
func (s *Store) sweep(ctx context.Context, c *channel, before time.Time) error {
	var all errgroup.Group // at once: Close waits for it
	all.Go(func() error { return s.sweepFolder(ctx, c, "", before) })
	for folder := range store.Folders() {
		all.Go(func() error { return s.sweepFolder(ctx, c, folder, before) })
	}
	return all.Wait()
}

func (s *Store) sweepFolder(ctx context.Context, c *channel, folder string, before time.Time) error {
	entries, err := s.readDir(ctx, c, s.at(folder))
	for _, e := range entries {
		at := path.Join(s.at(folder), e.Name())
		switch {
		case !e.ModTime().Before(before):
		case e.IsDir() && strings.HasPrefix(e.Name(), store.ScratchPrefix):
			_ = c.RemoveAll(at)
		case !e.IsDir() && strings.HasPrefix(e.Name(), store.TempPrefix):
			_ = s.metadata(ctx, func() error { return c.Remove(at) })
		}
	}
	return err
}
