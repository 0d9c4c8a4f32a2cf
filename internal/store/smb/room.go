package smb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/cloudsoda/go-smb2"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

const (
	// clearing bounds the time in which a room is removed. What fails is tried again for insist: a request of our own may
	// still be under way, or the connection was lost.
	clearing = 30 * time.Second
	insist   = 5 * time.Second
	// deepest is how many folders lie in one another in a room: that of packs, and those in it.
	deepest = 4
	// atOnce is how many files of a room are removed at the same time.
	atOnce = 16
	// largest is what may be read of a file in a room, in bytes.
	largest = 4 << 20
	// blink is the wait before what an open file prevented is tried again.
	blink = time.Millisecond
)

// Room is a folder of its own within that of a Store, in which things can be tried: with the sessions, the gate and the
// errors of the Store, but each request once, so that what a server does is not hidden. It serves many goroutines.
type Room struct {
	store *Store
	at    string
	held  atomic.Uint64

	mu    sync.Mutex
	names map[string]bool // that were given to files, which a server may list under other names
}

// Entry is what a server tells of a file.
type Entry struct {
	Size     int64
	Modified time.Time
	ID       uint64 // by which the server knows it; 0: it has none
}

// Space is how much a server says may be written, in bytes.
type Space struct {
	Free  uint64 // for this user
	Whole uint64 // free for all users together
	Size  uint64
}

// InRoom makes a folder in that of the Store, whose name begins with prefix, lends it to use, and removes it with all that
// is in it, also when ctx has ended. It removes what killed programs have left under that prefix as well, a day later by
// the server's clock. An error in making it is handed to use as refused, and the Room is nil then.
func (s *Store) InRoom(ctx context.Context, prefix string, use func(r *Room, refused error) error) (err error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails
	r := &Room{store: s, at: path.Join(s.target.Path, prefix+hex.EncodeToString(random[:])), names: map[string]bool{}}
	err = s.once(ctx, func(h *session.Hold) error {
		return s.flush(ctx, h, func(share *smb2.Share) error { return share.Mkdir(r.at, fs.ModePerm) })
	})
	if err != nil && session.Status(err) != 0 {
		return use(nil, err) // the server's word: it was not made
	}
	defer func() {
		if failed := s.clear(ctx, r.at, r.names); failed != nil {
			err = errors.Join(err, fmt.Errorf("remove temporary folder %s: %w", path.Base(r.at), failed))
		}
	}()
	if err != nil {
		return use(nil, err)
	}
	s.clearStale(ctx, prefix, r.at)
	return use(r, nil)
}

// clearStale removes the rooms of dead programs. Nothing depends on success.
func (s *Store) clearStale(ctx context.Context, prefix, fresh string) {
	var now fs.FileInfo
	var entries []fs.FileInfo
	err := s.once(ctx, func(h *session.Hold) (err error) {
		if now, err = s.lookAt(ctx, h, fresh); err == nil {
			entries, err = s.readDir(ctx, h, s.target.Path)
		}
		return err
	})
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(folded(e), prefix) && e.ModTime().Before(now.ModTime().Add(-staleAfter)) {
			_ = s.clear(ctx, path.Join(s.target.Path, e.Name()), nil)
		}
	}
}

// clear removes a folder with all that is in it, whether ctx has ended or the gate is shut: what has one of the names, and
// what is listed.
func (s *Store) clear(ctx context.Context, at string, names map[string]bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearing)
	defer cancel()
	var failing time.Time
	for pause := blink; ; pause *= 2 {
		var group errgroup.Group
		group.SetLimit(atOnce)
		for name := range names {
			group.Go(func() error { return s.removeNow(ctx, path.Join(at, name)) })
		}
		err := group.Wait()
		if err == nil {
			err = s.clearOnce(ctx, at, deepest)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		final := errors.Is(err, session.ErrClosed) || errors.Is(err, ErrLogon) || time.Since(failing) > insist
		if final || sleep(ctx, min(pause, time.Second)) != nil {
			return err
		}
	}
}

func (s *Store) clearOnce(ctx context.Context, at string, deep int) error {
	h, err := s.pool.Get(ctx)
	if err != nil {
		return err
	}
	var entries []fs.FileInfo
	err = h.Do(ctx, func(share *smb2.Share) (err error) {
		entries, err = share.ReadDir(at)
		return err
	})
	h.Release()
	if err != nil {
		return err
	}
	var group errgroup.Group // one file that cannot be removed is no reason to leave the others
	group.SetLimit(atOnce)
	for _, e := range entries {
		name := path.Join(at, e.Name())
		switch {
		case strings.ContainsAny(e.Name(), `/\`) || (e.IsDir() && deep == 0):
			return fmt.Errorf("%s: what the server lists there is not ours", at)
		case e.IsDir():
			group.Go(func() error { return s.clearOnce(ctx, name, deep-1) })
		default:
			group.Go(func() error { return s.removeNow(ctx, name) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.removeNow(ctx, at)
}

// removeNow removes a file or an empty folder without waiting at the gate.
func (s *Store) removeNow(ctx context.Context, at string) error {
	h, err := s.pool.Get(ctx)
	if err != nil {
		return err
	}
	defer h.Release()
	err = h.Do(ctx, func(share *smb2.Share) error { return share.Remove(at) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Store is an empty store in the room, which needs no Close. Its files are removed with the room.
func (r *Room) Store() store.Store {
	s := &Store{
		target: r.store.target, inflight: r.store.inflight, verify: r.store.verify, pass: r.store.pass,
		patience: r.store.patience, outage: r.store.outage, pool: r.store.pool,
	}
	s.target.Path = r.at
	s.swept.Store(true) // nobody else writes here
	return s
}

// Held is how often a request had to wait for somebody who had the file open.
func (r *Room) Held() uint64 { return r.held.Load() }

// Link tells how the connection to the server is protected, after requests were made on it.
func (r *Room) Link(ctx context.Context) (l session.Link, err error) {
	err = r.do(ctx, func(h *session.Hold) error {
		if _, err := r.store.lookAt(ctx, h, r.at); err != nil {
			return err
		}
		l = h.Link()
		return nil
	})
	return l, err
}

// Space asks how much may be written.
func (r *Room) Space(ctx context.Context) (s Space, err error) {
	err = r.do(ctx, func(h *session.Hold) error {
		return r.store.look(ctx, h, func(share *smb2.Share) error {
			info, err := share.Statfs(r.at)
			if err == nil {
				unit := info.BlockSize()
				s = Space{
					times(info.AvailableBlockCount(), unit), times(info.FreeBlockCount(), unit), times(info.TotalBlockCount(), unit),
				}
			}
			return err
		})
	})
	return s, err
}

// times multiplies what a server says, which may be anything.
func times(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return 1<<64 - 1
}

// Write makes a new file; an existing name is an error. It is flushed if flush is set.
func (r *Room) Write(ctx context.Context, name string, data []byte, flush bool) error {
	return r.withNew(ctx, name, func(h *session.Hold, f *file) error {
		err := f.write(ctx, data)
		if err == nil && flush {
			err = r.store.flush(ctx, h, func(*smb2.Share) error { return f.smb.Sync() })
		}
		return err
	})
}

// Flush times how long it takes to make size bytes of data durable, and after that nothing; the way there and back
// included, the wait at the gate not.
func (r *Room) Flush(ctx context.Context, name string, data []byte) (dirty, clean time.Duration, err error) {
	err = r.withNew(ctx, name, func(h *session.Hold, f *file) error {
		if err := f.write(ctx, data); err != nil {
			return err
		}
		for _, took := range []*time.Duration{&dirty, &clean} {
			err := r.store.flush(ctx, h, func(*smb2.Share) error {
				begin := time.Now()
				err := f.smb.Sync()
				*took = time.Since(begin)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return dirty, clean, err
}

// withNew lends a new file to use, and closes it.
func (r *Room) withNew(ctx context.Context, name string, use func(*session.Hold, *file) error) error {
	at, err := r.path(name)
	if err != nil {
		return err
	}
	r.called(name, true)
	made := false
	err = r.with(ctx, at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, func(h *session.Hold, f *file) error {
		made = true
		return use(h, f)
	})
	if !made && session.Status(err) != 0 && !errors.Is(err, fs.ErrExist) {
		r.called(name, false) // the server's word: it was not made
	}
	return err
}

// with lends an open file or folder to use, and closes it. A connection that breaks while it is closed is an error too.
func (r *Room) with(ctx context.Context, at string, flag int, use func(*session.Hold, *file) error) error {
	return r.do(ctx, func(h *session.Hold) error {
		f, err := r.store.open(ctx, h, at, flag)
		if err != nil {
			return err
		}
		err = use(h, f)
		if closed := f.close(ctx); err == nil {
			err = closed
		}
		return err
	})
}

// FlushNames makes the names in the room durable, where the server has such a request.
func (r *Room) FlushNames(ctx context.Context) error {
	return r.with(ctx, r.at, os.O_RDWR, func(h *session.Hold, d *file) error {
		return r.store.flush(ctx, h, func(*smb2.Share) error { return d.smb.Sync() })
	})
}

// Read returns what a file holds, and what the server tells of it.
func (r *Room) Read(ctx context.Context, name string) (data []byte, e Entry, err error) {
	at, err := r.path(name)
	if err != nil {
		return nil, e, err
	}
	err = r.with(ctx, at, os.O_RDONLY, func(h *session.Hold, f *file) error {
		if err := r.store.look(ctx, h, func(*smb2.Share) (err error) { e, err = entryOf(f.smb); return err }); err != nil {
			return err
		}
		if e.Size < 0 || e.Size > largest {
			return fmt.Errorf("the server says that it holds %d bytes", e.Size)
		}
		data = make([]byte, e.Size+1)
		n, err := f.readEnd(ctx, 0, data)
		data = data[:n]
		return err
	})
	return data, e, err
}

func entryOf(f *smb2.File) (Entry, error) {
	info, err := f.Stat()
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Size: info.Size(), Modified: info.ModTime()}
	if stat, ok := info.(*smb2.FileStat); ok {
		e.ID = stat.FileId
	}
	return e, nil
}

// Rename gives a file a name that another one may have. While that one is open, which makes servers refuse it, it is tried
// again.
func (r *Room) Rename(ctx context.Context, old, new string) error {
	from, err := r.path(old)
	if err != nil {
		return err
	}
	to, err := r.path(new)
	if err != nil {
		return err
	}
	r.called(new, true)
	err = r.do(ctx, func(h *session.Hold) error {
		err := r.store.flush(ctx, h, func(share *smb2.Share) error { return share.Rename(from, to) })
		if errors.Is(err, fs.ErrPermission) {
			if _, there := r.store.lookAt(ctx, h, to); there == nil {
				return fmt.Errorf("%w: %w", errHeld, err)
			}
		}
		return err
	})
	if err == nil {
		r.called(old, false)
	}
	return err
}

// called notes whether a file may have a name.
func (r *Room) called(name string, now bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now {
		r.names[name] = true
	} else {
		delete(r.names, name)
	}
}

// Names lists the room.
func (r *Room) Names(ctx context.Context) (names []string, err error) {
	err = r.do(ctx, func(h *session.Hold) error {
		entries, err := r.store.readDir(ctx, h, r.at)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return err
	})
	return names, err
}

// path returns where a file of the room is.
func (r *Room) path(name string) (string, error) {
	switch {
	case !utf8.ValidString(name):
		return "", fmt.Errorf("%w: the protocol has no such name", fs.ErrInvalid)
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`):
		return "", fmt.Errorf("%w: it would be another folder", fs.ErrInvalid)
	}
	return path.Join(r.at, name), nil
}

// do makes requests on a session of the pool, and again while somebody has the file open.
func (r *Room) do(ctx context.Context, op func(h *session.Hold) error) error {
	var limit time.Time
	for {
		err := r.store.once(ctx, op)
		if !errors.Is(err, errHeld) && session.Status(err) != session.StatusSharingViolation {
			return err
		}
		r.held.Add(1)
		now := time.Now()
		if limit.IsZero() {
			limit = now.Add(busy)
		}
		if now.After(limit) {
			return err
		}
		if stopped := sleep(ctx, blink); stopped != nil {
			return stopped
		}
	}
}
