package smb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudsoda/go-smb2"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Options configures a Store.
type Options struct {
	// Credentials is called once, before the first session; nil: no password.
	Credentials func(ctx context.Context) (Secret, error)
	Parallel    Parallel
	Protection  Protection
	Verify      Verify // how stored files are verified
	Pass        *iopolicy.Pass
	Patience    Patience
	TCP         TCP
	Known       string // folder that remembers the newest version of SMB of each server; "": none
}

// Parallel is how much goes on at the same time.
type Parallel struct {
	Sessions int // connections at most; 0: 4
	Inflight int // requests in flight on one file; 0: 8
}

// Patience holds the timeouts.
type Patience struct {
	Request time.Duration // for an answer, without any byte moving; 0: 30 s. A request may take ten times that.
	Outage  time.Duration // for retries until the server is back; 0: 2 min; below 0: no retries
	Silence time.Duration // until a server is given up that accepts connections and sends nothing; 0: 1 min
	Idle    time.Duration // before an Echo; 0: 1 min
	// Notify, if set, is called once for an outage, with the first failure. Back is called at the end.
	Notify func(err error)
	Back   func()
}

// Verify says how a file is verified after its rename.
type Verify uint8

// The ways to verify.
const (
	VerifyTrailer Verify = iota // its size and its last 64 KiB; every byte on a session that neither signs nor encrypts
	VerifyFull                  // every byte
	VerifyOff                   // not at all
)

// Store is a folder on a share. Close it.
type Store struct {
	target      Target
	inflight    int // requests in flight on one file
	verify      Verify
	pass        *iopolicy.Pass
	patience    Patience
	pool        *session.Pool
	outage      store.Outage
	gaveUp      atomic.Pointer[givenUp] // nil: not yet
	unprotected atomic.Bool             // a file was written by a session that neither signs nor encrypts
	// the config file was seen: its absence means that the disk of the share is gone
	known      atomic.Bool
	witness    atomic.Pointer[fs.FileInfo] // the config file at first; nil: not seen yet
	config     atomic.Pointer[[]byte]      // its content when the store was opened, until it is asked for or stored
	swept      atomic.Bool                 // the removal of stale temporary files has begun
	fans       store.Fans
	background sync.WaitGroup // see inBackground

	mu      sync.Mutex
	locks   map[store.Name]*fileLock // of files in use
	orphans []string                 // temporary files that could not be removed yet
	closed  bool                     // Close was called: inBackground runs in the foreground
}

var _ store.Store = (*Store)(nil)

// Open opens the folder of t. A missing folder is store.ErrNotExist. A folder without a config file is opened; reading
// its config is store.ErrNotExist. Open connects without retries, so that a wrong name or password is reported at once.
func Open(ctx context.Context, t Target, o Options) (*Store, error) {
	return begin(ctx, t, o, "open repository folder", (*Store).find)
}

// Create makes the folder of t below the share, with missing parents, and the folders of the layout in it. Existing
// ones are kept. It connects as Open does.
func Create(ctx context.Context, t Target, o Options) (*Store, error) {
	return begin(ctx, t, o, "create repository folder", (*Store).build)
}

func begin(ctx context.Context, t Target, o Options, what string,
	first func(*Store, context.Context, *session.Session) error) (
	*Store, error,
) {
	s, err := newStore(ctx, t, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := s.permitted(ctx, func(h *session.Session) error { return first(s, ctx, h) }); err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return s, nil
}

func newStore(ctx context.Context, t Target, o Options) (*Store, error) {
	if t.Host == "" || t.Share == "" {
		return nil, fmt.Errorf("%w: host or share is missing", ErrTarget)
	}
	t.Port = cmp.Or(t.Port, DefaultPort)
	var secret Secret
	if o.Credentials != nil {
		var err error
		if secret, err = o.Credentials(ctx); err != nil {
			return nil, fmt.Errorf("get the password for %s: %w", t.Host, err)
		}
	}
	if t.User == "" && secret.User == "" && secret.Tickets == nil {
		return nil, fmt.Errorf("%w: name the user: smb://user@%s/... (guest, if the share is open to anybody)",
			ErrTarget, t.Host)
	}
	p := o.Patience
	p.Request, p.Outage = cmp.Or(p.Request, 30*time.Second), cmp.Or(p.Outage, 2*time.Minute)
	p.Silence, p.Idle = cmp.Or(p.Silence, time.Minute), cmp.Or(p.Idle, time.Minute)
	l := session.Login{
		Host: t.Host, Port: t.Port, Share: t.Share, User: cmp.Or(secret.User, t.User),
		Domain: cmp.Or(secret.Domain, t.Domain), Password: secret.Password, Tickets: secret.Tickets,
		Protection: o.Protection, Patience: p.Request, Idle: p.Idle, TCP: o.TCP, Known: o.Known,
	}
	return &Store{
		target: t, inflight: cmp.Or(o.Parallel.Inflight, 8), verify: o.Verify, pass: o.Pass, patience: p,
		pool: session.NewPool(l, cmp.Or(o.Parallel.Sessions, 4)),
	}, nil
}

// find checks that the folder exists. A config file proves it.
func (s *Store) find(ctx context.Context, h *session.Session) error {
	if err := s.findConfig(ctx, h); err != nil || s.known.Load() {
		return err
	}
	info, err := s.stat(ctx, h, s.target.Path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder; name the one that holds the repository", s.Location())
	}
	return nil
}

// build makes the folders.
func (s *Store) build(ctx context.Context, h *session.Session) error {
	if err := s.makeDirs(ctx, h, s.target.Path); err != nil {
		return err
	}
	for folder := range store.Folders() {
		if err := s.makeDir(ctx, h, path.Join(s.target.Path, folder)); err != nil {
			return err
		}
	}
	return s.findConfig(ctx, h)
}

// closing bounds the requests that Close waits for. What they leave is removed later by another Store.
const closing = 2 * time.Second

// Close ends the sessions. Operations in progress fail.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	defer time.AfterFunc(closing, s.pool.Abort).Stop()
	s.background.Wait()
	if h := s.pool.Other(nil); h != nil {
		s.clearOrphans(context.Background(), h)
		h.Release()
	}
	s.pool.Close()
	return nil
}

// Location returns the address, without secrets.
func (s *Store) Location() string { return s.target.String() }

// Get opens, reads and closes the file. The pieces of a long range are read concurrently.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if name.Kind == store.Config && store.ConnectedSince(ctx).IsZero() {
		if data := s.config.Swap(nil); data != nil && off == 0 && len(p) == len(*data) {
			copy(p, *data)
			return nil
		}
	}
	if err := s.get(ctx, name, off, p); err != nil {
		return fmt.Errorf("get %s: %w", name, err)
	}
	s.sawConfig(name)
	return nil
}

func (s *Store) get(ctx context.Context, name store.Name, off int64, p []byte) error {
	if err := name.Check(); err != nil {
		return err
	}
	if off < 0 {
		return fmt.Errorf("negative offset %d", off)
	}
	open, release, err := s.lock(ctx, name, 1)
	if err != nil {
		return err
	}
	defer release()
	return s.repeat(ctx, func(h *session.Session) error {
		f, err := s.open(ctx, h, s.path(name), os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.done(ctx, open)
		if off > math.MaxInt64-int64(len(p)) {
			return fmt.Errorf("%w: no file reaches to %d bytes from %d", store.ErrShort, len(p), off)
		}
		return f.read(ctx, off, p)
	})
}

// Stat describes a file.
func (s *Store) Stat(ctx context.Context, name store.Name) (info store.Info, err error) {
	if name.Kind == store.Config && s.config.Load() != nil {
		if was := s.witness.Load(); was != nil {
			return store.Describe(name, *was), nil
		}
	}
	if err = name.Check(); err == nil {
		err = s.repeat(ctx, func(h *session.Session) error {
			found, err := s.stat(ctx, h, s.path(name))
			if err != nil {
				return err
			}
			if !found.Mode().IsRegular() && !store.IsFence(name.Kind, found.Mode()) {
				return fmt.Errorf("not a regular file: %w", fs.ErrNotExist)
			}
			info = store.Describe(name, found)
			return nil
		})
	}
	if err != nil {
		return store.Info{}, fmt.Errorf("stat %s: %w", name, err)
	}
	s.sawConfig(name)
	return info, nil
}

// Delete removes the file. If a retry after a lost answer finds it missing, the earlier attempt removed it.
func (s *Store) Delete(ctx context.Context, name store.Name) (err error) {
	defer store.Wrap(&err, "delete", name)
	if err := name.Check(); err != nil {
		return err
	}
	_, release, err := s.lock(ctx, name, exclusive)
	if err != nil {
		return err
	}
	defer release()
	asked := false // the server may have executed a request that failed
	err = s.repeat(ctx, func(h *session.Session) error {
		err := s.metadata(ctx, h, func(share *smb2.Share) error { return share.Remove(s.path(name)) })
		asked = asked || (err != nil && !errors.Is(err, fs.ErrNotExist))
		return err
	})
	if asked && errors.Is(err, store.ErrNotExist) {
		err = nil
	}
	if err == nil && name.Kind == store.Config {
		s.known.Store(false)
		s.witness.Store(nil)
		s.config.Store(nil)
	}
	return err
}

func (s *Store) path(name store.Name) string { return path.Join(s.target.Path, name.Path()) }

// findConfig enables the check for a target that goes away. It also reads the config, for the first Stat and the
// first Get: a repository is opened with it at once, and each answer takes its time.
//
// None of its requests takes more than one credit. The library counts some more than it was granted, and a server
// that grants few ends the connection when more are used.
func (s *Store) findConfig(ctx context.Context, h *session.Session) error {
	at := s.path(store.Name{Kind: store.Config})
	var info fs.FileInfo
	data, n := make([]byte, 4<<10), 0 // more than a config has
	var both errgroup.Group           // without a context: requests in flight finish
	both.Go(func() (err error) {
		info, err = s.stat(ctx, h, at)
		return err
	})
	both.Go(func() error {
		f, err := s.open(ctx, h, at, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.done(ctx, nil)
		if n, _, err = f.request(ctx, 0, data); session.Ended(ctx, err) {
			err = nil
		}
		return err
	})
	if err := both.Wait(); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	s.witness.Store(&info)
	s.known.Store(true)
	if data = data[:n]; int64(n) == info.Size() {
		s.config.Store(&data)
	}
	return nil
}

func (s *Store) sawConfig(name store.Name) {
	if name.Kind == store.Config && !s.known.Load() {
		s.known.Store(true)
	}
}

// checkPresent runs after something was not found. It returns nil if the target is there, else store.ErrGone or the
// error that prevented the check. It uses the session that found nothing: if the disk of a server comes and goes,
// sessions that were opened at other times may see something else.
func (s *Store) checkPresent(ctx context.Context, h *session.Session, what error) error {
	known := s.known.Load()
	witness := s.target.Path
	if known {
		witness = s.path(store.Name{Kind: store.Config})
	}
	now, err := s.stat(ctx, h, witness)
	// A file that is being removed counts as missing here: to ask about it again would never end.
	if (errors.Is(err, fs.ErrNotExist) || session.Status(err) == session.StatusDeletePending) && ctx.Err() == nil {
		return s.lost(cmp.Or(what, err))
	}
	if err == nil && known && !s.witness.CompareAndSwap(nil, &now) {
		if was := s.witness.Load(); was != nil && ((*was).Size() != now.Size() || !(*was).ModTime().Equal(now.ModTime())) {
			return s.lost(errReplaced)
		}
	}
	return err
}

func (s *Store) stat(ctx context.Context, h *session.Session, at string) (info fs.FileInfo, err error) {
	err = s.metadata(ctx, h, func(share *smb2.Share) (err error) {
		info, err = share.Stat(at)
		return err
	})
	return info, err
}

// makeDir creates one folder, unless it exists.
func (s *Store) makeDir(ctx context.Context, h *session.Session, at string) error {
	err := s.flush(ctx, h, func(share *smb2.Share) error { return share.Mkdir(at, fs.ModePerm) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// makeDirs creates a folder with all missing parents.
func (s *Store) makeDirs(ctx context.Context, h *session.Session, at string) error {
	info, err := s.stat(ctx, h, at)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("there is a file at %s; choose another path", s.Location())
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) || at == "" {
		return err
	}
	parent := path.Dir(at)
	if parent == "." {
		parent = ""
	}
	if err := s.makeDirs(ctx, h, parent); err != nil {
		return err
	}
	return s.makeDir(ctx, h, at)
}

// metadata runs call as a metadata operation of the gate.
func (s *Store) metadata(ctx context.Context, h *session.Session, call func(*smb2.Share) error) error {
	return s.gated(ctx, h, iopolicy.Metadata, call)
}

// flush runs call as an operation that makes something durable.
func (s *Store) flush(ctx context.Context, h *session.Session, call func(*smb2.Share) error) error {
	return s.gated(ctx, h, iopolicy.Sync, call)
}

func (s *Store) gated(ctx context.Context, h *session.Session, kind iopolicy.Kind, call func(*smb2.Share) error) error {
	_, err := s.pass.Do(ctx, iopolicy.Op{Kind: kind, Certain: true}, func(int) (int, error) {
		return 0, h.Do(ctx, call)
	})
	return err
}
