package smb

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/cloudsoda/go-smb2"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const (
	// ownTemp begins the names of temporary files of this package. They are open until they are complete, in a way in
	// which a server removes no open file.
	ownTemp = store.TempPrefix + "smb-"
	// closedAfter is far beyond the time between the last byte of a file and its name. A file that is removed in between
	// is sent again.
	closedAfter = 10 * time.Minute
	// maxSends is how often a file is sent if the server stores something else.
	maxSends = 3
	// trailer is how many bytes at the end of a file are compared.
	trailer = store.ProvenEnd
	// busy is how long to wait for other programs that have open the file to be replaced.
	busy = 10 * time.Second
)

// Put writes a temporary file, flushes it, renames it, flushes it under its name, and verifies it.
func (s *Store) Put(ctx context.Context, name store.Name, data []byte) error {
	if err := s.put(ctx, name, data); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	s.sawConfig(name)
	s.sweepOnce(ctx, name)
	return nil
}

// VerifiesPut reports whether every Put verifies what it stored.
func (s *Store) VerifiesPut() bool { return s.verify != VerifyOff }

func (s *Store) put(ctx context.Context, name store.Name, data []byte) error {
	if err := name.Check(); err != nil {
		return err
	}
	if name.Kind == store.Config {
		s.config.Store(nil)
	}
	for n := 1; ; n++ {
		err := s.send(ctx, name, data)
		if !errors.Is(err, ErrTorn) {
			return err
		}
		if n == maxSends {
			return fmt.Errorf("%w after it was sent %d times: check the disk and the memory of the server of %s, and its "+
				"log; nothing relies on this file yet", err, n, s.Location())
		}
	}
}

// send stores the file once. If the server stored something else, the error wraps ErrTorn.
func (s *Store) send(ctx context.Context, name store.Name, data []byte) error {
	ready := s.prepareFan(ctx, name)
	temp, writer, err := s.upload(ctx, name, data)
	ready()
	if err != nil {
		return err
	}
	open, release, err := s.lock(ctx, name, exclusive)
	if err != nil {
		s.discard(ctx, nil, temp)
		return err
	}
	defer release()
	if err := s.publish(ctx, temp, name, data, open); err != nil {
		s.discard(ctx, nil, temp)
		return err
	}
	return s.verifyStored(ctx, writer, name, data, open)
}

// upload leaves a complete, flushed and closed temporary file, and returns the session that wrote it.
func (s *Store) upload(ctx context.Context, name store.Name, data []byte) (temp string, writer *session.Session,
	err error) {
	err = s.repeat(ctx, func(h *session.Session) error {
		f, at, err := s.createTemp(ctx, h, path.Dir(s.kindPath(name)))
		if err != nil {
			return err
		}
		temp, writer = at, h
		if err = f.write(ctx, data); err == nil {
			err = f.sync(ctx)
		}
		if closed := f.close(ctx); err == nil {
			err = closed
		}
		if err != nil {
			s.discard(ctx, h, temp)
			return err
		}
		if !h.Protected() {
			s.unprotected.Store(true)
		}
		s.clearOrphans(ctx, h)
		return nil
	})
	return temp, writer, err
}

// kindPath returns the path of the file without the fan-out of packs. Temporary files lie there, so that a sweep reads
// few folders.
func (s *Store) kindPath(name store.Name) string {
	return path.Join(s.target.Path, name.Folder(), name.ID)
}

// createTemp opens a new temporary file in a folder. A missing folder is created if the target is there.
func (s *Store) createTemp(ctx context.Context, h *session.Session, dir string) (*file, string, error) {
	if dir == "." {
		dir = ""
	}
	at := path.Join(dir, store.TempName(ownTemp))
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := s.open(ctx, h, at, flags)
	if errors.Is(err, fs.ErrNotExist) && dir != s.target.Path {
		if err := s.remake(ctx, h, dir, err); err != nil {
			return nil, at, err
		}
		f, err = s.open(ctx, h, at, flags)
	}
	if errors.Is(err, session.ErrDropped) {
		s.orphan(at) // it may have been created
	}
	return f, at, err
}

// remake creates a folder that was not found, if the target is there.
func (s *Store) remake(ctx context.Context, h *session.Session, dir string, missing error) error {
	if err := cmp.Or(s.checkPresent(ctx, h, missing), s.needed(dir)); err != nil {
		return err
	}
	return s.makeDir(ctx, h, dir)
}

// publish renames the temporary file. If the answer to an earlier attempt was lost, the rename may be done: the
// temporary file is gone then, and the file under the final name is compared with data.
func (s *Store) publish(ctx context.Context, temp string, name store.Name, data []byte, open *sync.WaitGroup) error {
	final, asked, made := s.path(name), false, false
	var waited time.Time
	if err := s.repeat(ctx, func(h *session.Session) error { return s.makeFan(ctx, h, name) }); err != nil {
		return err
	}
	err := s.repeat(ctx, func(h *session.Session) error {
		rename := func() error {
			return s.flush(ctx, h, func(share *smb2.Share) error { return share.Rename(temp, final) })
		}
		err := rename()
		if errors.Is(err, fs.ErrNotExist) && asked {
			if err = s.compare(ctx, h, name, data, open); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if errors.Is(err, fs.ErrNotExist) && !made { // the pack folder was removed since it was seen
			made = true
			s.fans.Of(name).Store(false)
			if err := s.makeFan(ctx, h, name); err != nil {
				return err
			}
			err = rename()
		}
		asked = asked || errors.Is(err, session.ErrDropped)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return cmp.Or(s.checkPresent(ctx, h, err),
				fmt.Errorf("%w: the temporary file was removed before it got its name", ErrTorn))
		case errors.Is(err, fs.ErrExist) && name.Kind == store.Lease:
			return s.taken(ctx, h, name)
		case errors.Is(err, fs.ErrPermission):
			// Servers also return this while another program reads the file to be replaced.
			if waited.IsZero() {
				waited = time.Now()
			}
			if _, there := s.stat(ctx, h, final); there == nil && time.Since(waited) < busy {
				return fmt.Errorf("%w: %s refuses to replace a file, which another program may have open", store.ErrTemporary,
					s.target.Host)
			}
		}
		return err
	})
	if err != nil && (asked || ctx.Err() != nil) {
		s.removeUnverified(ctx, name, data, open)
	}
	return err
}

// prepareFan starts to create the folder of a pack while the pack is uploaded; ready waits until that has ended. Errors
// are ignored: publish creates a missing folder.
func (s *Store) prepareFan(ctx context.Context, name store.Name) (ready func()) {
	if !s.fans.Lacks(name) {
		return func() {}
	}
	var group sync.WaitGroup
	group.Go(func() { s.onIdleSession(func(h *session.Session) { _ = s.makeFan(ctx, h, name) }) })
	return group.Wait
}

// onIdleSession runs f on an existing session, if there is one. The session does not count as used, so that f causes no
// other operation to dial.
func (s *Store) onIdleSession(f func(*session.Session)) {
	if h := s.pool.Other(nil); h != nil {
		h.Release()
		f(h)
	}
}

// makeFan creates the folder of a pack, once.
func (s *Store) makeFan(ctx context.Context, h *session.Session, name store.Name) error {
	if !s.fans.Lacks(name) {
		return nil
	}
	if err := s.makeDir(ctx, h, path.Dir(s.path(name))); err != nil {
		return err
	}
	s.fans.Made(name)
	return nil
}

// verifyStored opens the file under its final name and compares it with data. A file that differs is removed.
func (s *Store) verifyStored(ctx context.Context, writer *session.Session, name store.Name, data []byte,
	open *sync.WaitGroup) error {
	if s.verify == VerifyOff {
		return s.flushName(ctx, name)
	}
	err := s.repeat(ctx, func(h *session.Session) error {
		if h == writer {
			if other := s.pool.Other(h); other != nil {
				defer other.Release()
				h = other
			}
		}
		err := s.compare(ctx, h, name, data, open)
		if errors.Is(err, fs.ErrNotExist) {
			return cmp.Or(s.checkPresent(ctx, h, err), fmt.Errorf("%w: there is no file under the name that one got", ErrTorn))
		}
		if errors.Is(err, ErrTorn) {
			_ = s.metadata(ctx, h, func(share *smb2.Share) error { return share.Remove(s.path(name)) })
		}
		return err
	})
	if err != nil {
		s.removeUnverified(ctx, name, data, open)
	}
	return err
}

// flushName makes the name of a file durable that is not verified.
func (s *Store) flushName(ctx context.Context, name store.Name) error {
	return s.repeat(ctx, func(h *session.Session) error {
		f, err := s.open(ctx, h, s.path(name), os.O_RDWR)
		if err != nil {
			return err
		}
		err = f.sync(ctx)
		if closed := f.close(ctx); err == nil {
			err = closed
		}
		return err
	})
}

// removeUnverified removes a file under its final name that was not verified, because ctx ended or the server is away:
// it may be torn. A pack is removed unread, since programs that list packs without an index would find it. An index
// segment or a snapshot may have replaced a good file of the same content; it is removed only if it is torn. Files of
// other kinds stay, since another program may have replaced them. Errors are ignored.
func (s *Store) removeUnverified(ctx context.Context, name store.Name, data []byte, open *sync.WaitGroup) {
	h := s.pool.Other(nil)
	if h == nil {
		return
	}
	defer h.Release()
	ctx, cancel := after(ctx)
	defer cancel()
	switch name.Kind {
	case store.Pack:
	case store.Index, store.Snapshot:
		if err := s.compare(ctx, h, name, data, open); !errors.Is(err, ErrTorn) {
			return
		}
	default:
		return
	}
	_ = h.Do(ctx, func(share *smb2.Share) error { return share.Remove(s.path(name)) })
}

// compare opens the file under its final name, and flushes and reads it concurrently. The flush makes the rename
// durable: without it a power cut of the server could undo it for some seconds. An error that wraps ErrTorn says where
// the file differs from data. On a session that neither signs nor encrypts every byte is read.
func (s *Store) compare(ctx context.Context, h *session.Session, name store.Name, data []byte,
	open *sync.WaitGroup) error {
	f, err := s.open(ctx, h, s.path(name), os.O_RDWR)
	if err != nil {
		return err
	}
	var both errgroup.Group // without a context: requests in flight finish
	both.Go(func() error { return f.sync(ctx) })
	both.Go(func() error { return f.compare(ctx, data, s.verify == VerifyFull || s.unprotected.Load()) })
	if err := both.Wait(); err != nil {
		_ = f.close(ctx) // servers do not remove an open file
		return err
	}
	f.done(ctx, open)
	return nil
}

// compare compares the end of the file with data, and the rest if full.
func (f *file) compare(ctx context.Context, data []byte, full bool) error {
	off := max(0, len(data)-trailer)
	tail := make([]byte, len(data)-off+1) // one byte more, to notice a longer file
	n, err := f.readEnd(ctx, int64(off), tail)
	if err != nil {
		return err
	}
	if n != len(data)-off {
		return fmt.Errorf("%w: it has not the %d bytes that were sent", ErrTorn, len(data))
	}
	if !bytes.Equal(tail[:n], data[off:]) {
		return fmt.Errorf("%w: its last %d bytes differ", ErrTorn, n)
	}
	if !full {
		return nil
	}
	return f.each(ctx, iopolicy.Read, off, func(from, to int) (int, error) {
		p := make([]byte, to-from)
		for at := 0; at < len(p); {
			n, err := f.smb.ReadAt(p[at:], int64(from+at))
			at += n
			if session.Ended(ctx, err) || (err == nil && n == 0) {
				return at, fmt.Errorf("%w: it ends at byte %d", ErrTorn, from+at)
			}
			if err != nil {
				return at, err
			}
		}
		if !bytes.Equal(p, data[from:to]) {
			return len(p), fmt.Errorf("%w: it differs between bytes %d and %d", ErrTorn, from, to)
		}
		return len(p), nil
	})
}

// discard removes a temporary file, even if ctx has ended or the gate is shut. h may be nil. If it fails, the file is
// removed later.
func (s *Store) discard(ctx context.Context, h *session.Session, temp string) {
	if h == nil || h.Dead() != nil {
		if h = s.pool.Other(nil); h == nil {
			s.orphan(temp)
			return
		}
		defer h.Release()
	}
	ctx, cancel := after(ctx)
	defer cancel()
	err := h.Do(ctx, func(share *smb2.Share) error { return share.Remove(temp) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.orphan(temp)
	}
}

func (s *Store) orphan(temp string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orphans = append(s.orphans, temp)
}

// clearOrphans removes the temporary files of failed attempts.
func (s *Store) clearOrphans(ctx context.Context, h *session.Session) {
	s.mu.Lock()
	left := s.orphans
	s.orphans = nil
	s.mu.Unlock()
	for _, temp := range left {
		s.discard(ctx, h, temp)
	}
}

// sweepOnce starts one sweep in the background, beside the first pack: it takes 36 requests, which a backup that finds
// nothing new does without.
func (s *Store) sweepOnce(ctx context.Context, fresh store.Name) {
	if fresh.Kind != store.Pack || s.swept.Swap(true) {
		return
	}
	s.inBackground(func() { s.onIdleSession(func(h *session.Session) { s.sweep(ctx, h, fresh) }) })
}

// sweep removes temporary files and scratch folders whose writers are dead, and records which pack folders exist. fresh
// was just stored: its time is that of the server's clock. Errors are ignored.
func (s *Store) sweep(ctx context.Context, h *session.Session, fresh store.Name) {
	now, err := s.stat(ctx, h, s.path(fresh))
	if err != nil {
		return
	}
	var folders sync.WaitGroup
	folders.Go(func() { s.sweepFolder(ctx, h, "", now.ModTime()) })
	for folder := range store.Folders() {
		folders.Go(func() { s.sweepFolder(ctx, h, folder, now.ModTime()) })
	}
	folders.Wait()
}

func (s *Store) sweepFolder(ctx context.Context, h *session.Session, folder string, now time.Time) {
	dir := path.Join(s.target.Path, folder)
	entries, err := s.readDir(ctx, h, dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		id, age, at := folded(e), now.Sub(e.ModTime()), path.Join(dir, e.Name())
		closed := age > closedAfter && strings.HasPrefix(id, ownTemp) // the server refuses if the writer is alive
		switch stale := age > store.StaleAfter; {
		case isTemp(e) && (stale || closed):
			_ = s.metadata(ctx, h, func(share *smb2.Share) error { return share.Remove(at) })
		case stale && e.IsDir() && strings.HasPrefix(id, store.ScratchPrefix):
			_ = s.removeAll(ctx, at)
		case folder == store.Pack.Folder() && e.IsDir() && len(id) == 2 && store.ValidID(id):
			s.fans.Made(store.Name{Kind: store.Pack, ID: id})
		}
	}
}
