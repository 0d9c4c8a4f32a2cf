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

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/address"
	"github.com/tidemark-backup/tidemark/internal/store/smb/latch"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Options say how to use a target.
type Options struct {
	// Credentials is asked once, when the first session begins. Nil: no password.
	Credentials func(ctx context.Context) (Secret, error)
	Sessions    int    // connections at most; 0: 4
	Inflight    int    // requests in flight on one file; 0: 8
	Encrypt     bool   // refuse to send anything in clear; false: as the server asks
	Sign        bool   // refuse what is not signed; false: as the server asks
	Verify      Verify // how a file that was put is looked at
	Pass        *iopolicy.Pass
	Patience    Patience
}

// Patience is how long to wait for what.
type Patience struct {
	Request time.Duration // without any byte moving, for an answer; 0: 30 s. A request may take ten times that at most.
	Outage  time.Duration // until the server is back, trying again; 0: 2 min; below 0: not at all
	Idle    time.Duration // before an Echo; 0: 1 min
	// Notify, if set, is told of an outage: before the first wait of those who wait at the same time, and when the reason
	// is another one or the waits have become longer. Back is told when it is over.
	Notify func(err error, wait time.Duration)
	Back   func()
}

// Verify is how a file is looked at once it has its name.
type Verify uint8

// The ways to verify.
const (
	VerifyTrailer Verify = iota // its size and its last 64 KiB
	VerifyFull                  // every byte
	VerifyOff                   // not at all
)

// Store is a folder on a share. Close it.
type Store struct {
	target   Target
	inflight int // requests on one file
	requests int // on all sessions
	verify   Verify
	pass     *iopolicy.Pass
	patience Patience
	pool     *session.Pool
	outage   *store.Outage
	latches  latch.Set
	known    atomic.Bool                 // the config file was there: it is the proof that the share's disk is
	witness  atomic.Pointer[fs.FileInfo] // that file, as it was; nil: it has not been looked at
	swept    atomic.Bool                 // this Store has begun to look for stale temporary files
	fans     [256]atomic.Bool            // folders of packs that are there
	tidying  sync.WaitGroup              // what nobody but Close waits for: see later

	mu      sync.Mutex
	orphans []string // temporary files of ours that could not be removed yet
	closed  bool     // Close was called: nothing is left for later
}

var _ store.Store = (*Store)(nil)

// Open uses the folder of t. A folder that is not there is store.ErrNotExist; one without a config file is opened, and
// says store.ErrNotExist when the config is asked for. Open connects, and tries once: whoever starts a program wants to
// hear at once that a name or a password is wrong.
func Open(ctx context.Context, t Target, o Options) (*Store, error) {
	return begin(ctx, t, o, "open repository folder", (*Store).find)
}

// Create makes the folder of t below the share, with any missing parents, and the folders of the layout in it. What exists
// already is kept. It connects as Open does.
func Create(ctx context.Context, t Target, o Options) (*Store, error) {
	return begin(ctx, t, o, "create repository folder", (*Store).build)
}

func begin(ctx context.Context, t Target, o Options, what string, first func(*Store, context.Context, *session.Hold) error) (
	*Store, error,
) {
	s, err := newStore(ctx, t, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := s.once(ctx, func(h *session.Hold) error { return first(s, ctx, h) }); err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return s, nil
}

func newStore(ctx context.Context, t Target, o Options) (*Store, error) {
	if t.Host == "" || t.Share == "" {
		return nil, fmt.Errorf("%w: host or share is missing", ErrTarget)
	}
	if t.Port == 0 {
		t.Port = address.DefaultPort
	}
	var secret Secret
	if o.Credentials != nil {
		var err error
		if secret, err = o.Credentials(ctx); err != nil {
			return nil, fmt.Errorf("get the password for %s: %w", t.Host, err)
		}
	}
	if t.User == "" && secret.User == "" && secret.Tickets == nil {
		return nil, fmt.Errorf("%w: name the user: smb://user@%s/... (guest, if the share is open to anybody)", ErrTarget, t.Host)
	}
	if o.Sessions <= 0 {
		o.Sessions = 4
	}
	if o.Inflight <= 0 {
		o.Inflight = 8
	}
	if o.Patience.Request <= 0 {
		o.Patience.Request = 30 * time.Second
	}
	if o.Patience.Outage == 0 {
		o.Patience.Outage = 2 * time.Minute
	}
	if o.Patience.Idle <= 0 {
		o.Patience.Idle = time.Minute
	}
	l := session.Login{
		Host: t.Host, Port: t.Port, Share: t.Share, User: t.User, Domain: t.Domain, Password: secret.Password,
		Tickets: secret.Tickets, Encrypt: o.Encrypt, Sign: o.Sign, Inflight: o.Inflight, Patience: o.Patience.Request, Idle: o.Patience.Idle,
	}
	if secret.User != "" {
		l.User = secret.User
	}
	if secret.Domain != "" {
		l.Domain = secret.Domain
	}
	return &Store{
		target: t, inflight: o.Inflight, requests: o.Inflight * o.Sessions, verify: o.Verify, pass: o.Pass, patience: o.Patience,
		outage: &store.Outage{}, pool: session.NewPool(l, o.Sessions),
	}, nil
}

// find looks for the folder. Where there is a config file, there is one.
func (s *Store) find(ctx context.Context, h *session.Hold) error {
	if err := s.lookForConfig(ctx, h); err != nil || s.known.Load() {
		return err
	}
	info, err := s.lookAt(ctx, h, s.target.Path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder; name the one that holds the repository", s.Location())
	}
	return nil
}

// build makes the folders.
func (s *Store) build(ctx context.Context, h *session.Hold) error {
	if err := s.makeDirs(ctx, h, s.target.Path); err != nil {
		return err
	}
	for kind := range store.Kinds() {
		if kind.Folder() == "" {
			continue
		}
		if err := s.makeDir(ctx, h, path.Join(s.target.Path, kind.Folder())); err != nil {
			return err
		}
	}
	return s.lookForConfig(ctx, h)
}

// Close ends the sessions. Operations under way fail.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.tidying.Wait()
	if h := s.pool.Any(); h != nil {
		s.clearOrphans(context.Background(), h)
		h.Release()
	}
	s.pool.Close()
	return nil
}

// Location is the address, which holds no secret.
func (s *Store) Location() string { return s.target.String() }

// Target is the address in its parts.
func (s *Store) Target() Target { return s.target }

// Get opens, reads and closes. A range of several pieces is read by several requests at once.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
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
	release, err := s.latches.Take(ctx, name, false)
	if err != nil {
		return err
	}
	in := newStay(release)
	defer in.leave()
	return s.repeat(ctx, func(h *session.Hold, _ int) error {
		f, err := s.open(ctx, h, s.path(name), os.O_RDONLY)
		if err != nil {
			return err
		}
		defer f.done(ctx, in)
		if off > math.MaxInt64-int64(len(p)) {
			return fmt.Errorf("%w: no file reaches to %d bytes from %d", store.ErrShort, len(p), off)
		}
		return f.read(ctx, off, p)
	})
}

// Stat describes a file.
func (s *Store) Stat(ctx context.Context, name store.Name) (info store.Info, err error) {
	if err = name.Check(); err == nil {
		err = s.repeat(ctx, func(h *session.Hold, _ int) error {
			found, err := s.lookAt(ctx, h, s.path(name))
			if err != nil {
				return err
			}
			if !found.Mode().IsRegular() {
				return fmt.Errorf("what has its name is not a regular file: %w", fs.ErrNotExist)
			}
			info = store.Info{Name: name, Size: found.Size(), Modified: found.ModTime()}
			return nil
		})
	}
	if err != nil {
		return store.Info{}, fmt.Errorf("stat %s: %w", name, err)
	}
	s.sawConfig(name)
	return info, nil
}

// Delete removes the file. When it is tried again after an answer was lost, a file that is missing was removed before.
func (s *Store) Delete(ctx context.Context, name store.Name) error {
	err := name.Check()
	if err == nil {
		err = s.remove(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

func (s *Store) remove(ctx context.Context, name store.Name) error {
	release, err := s.latches.Take(ctx, name, true)
	if err != nil {
		return err
	}
	defer release()
	asked := false // a server may have done what it was asked for, whatever it said
	err = s.repeat(ctx, func(h *session.Hold, _ int) error {
		err := s.look(ctx, h, func(share *smb2.Share) error { return share.Remove(s.path(name)) })
		asked = asked || (err != nil && !errors.Is(err, fs.ErrNotExist))
		return err
	})
	if asked && errors.Is(err, store.ErrNotExist) {
		err = nil
	}
	if err == nil && name.Kind == store.Config {
		s.known.Store(false)
		s.witness.Store(nil)
	}
	return err
}

func (s *Store) path(name store.Name) string { return path.Join(s.target.Path, name.Path()) }

// lookForConfig arms the test for a target that went away.
func (s *Store) lookForConfig(ctx context.Context, h *session.Hold) error {
	info, err := s.lookAt(ctx, h, s.path(store.Name{Kind: store.Config}))
	if err == nil {
		s.witness.Store(&info)
		s.known.Store(true)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Store) sawConfig(name store.Name) {
	if name.Kind == store.Config && !s.known.Load() {
		s.known.Store(true)
	}
}

// missed is asked when something was not found, so that it costs nothing on the good path: nil, if the target is where it
// was; else that it is not, or why that could not be found out. The session is the one that did not find it: when the disk
// of a server comes and goes, those who connected at other times may see something else.
func (s *Store) missed(ctx context.Context, h *session.Hold, what error) error {
	known := s.known.Load()
	witness := s.target.Path
	if known {
		witness = s.path(store.Name{Kind: store.Config})
	}
	now, err := s.lookAt(ctx, h, witness)
	if errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
		return s.lost(cmp.Or(what, err))
	}
	if err == nil && known && !s.witness.CompareAndSwap(nil, &now) {
		if was := s.witness.Load(); was != nil && ((*was).Size() != now.Size() || !(*was).ModTime().Equal(now.ModTime())) {
			return s.lost(errReplaced)
		}
	}
	return err
}

func (s *Store) lookAt(ctx context.Context, h *session.Hold, at string) (info fs.FileInfo, err error) {
	err = s.look(ctx, h, func(share *smb2.Share) (err error) {
		info, err = share.Stat(at)
		return err
	})
	return info, err
}

// makeDir makes one folder, unless it is there.
func (s *Store) makeDir(ctx context.Context, h *session.Hold, at string) error {
	err := s.flush(ctx, h, func(share *smb2.Share) error { return share.Mkdir(at, fs.ModePerm) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// makeDirs makes a folder with all its missing parents.
func (s *Store) makeDirs(ctx context.Context, h *session.Hold, at string) error {
	info, err := s.lookAt(ctx, h, at)
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

// look is an operation on names and what they stand for.
func (s *Store) look(ctx context.Context, h *session.Hold, call func(*smb2.Share) error) error {
	return s.gated(ctx, h, iopolicy.Metadata, call)
}

// flush is an operation that ends when something is durable.
func (s *Store) flush(ctx context.Context, h *session.Hold, call func(*smb2.Share) error) error {
	return s.gated(ctx, h, iopolicy.Sync, call)
}

func (s *Store) gated(ctx context.Context, h *session.Hold, kind iopolicy.Kind, call func(*smb2.Share) error) error {
	_, err := s.pass.Do(ctx, iopolicy.Op{Kind: kind, Certain: true}, func(int) (int, error) {
		return 0, h.Do(ctx, call)
	})
	return err
}
