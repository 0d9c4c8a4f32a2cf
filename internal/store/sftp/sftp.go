package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Options configures a Store.
type Options struct {
	Ask      bool // ssh may ask for a password or about an unknown host, on the terminal of this process
	Channels int  // at most; below 4: 4
	Pass     *iopolicy.Pass
	// Silent is called when the server has left requests without an answer for some seconds; nil: not.
	Silent func(why string, since time.Time)
	Back   func() // called when it answers again; nil: not
	direct dialer // in place of ssh, for tests
}

// minChannels is how many channels there are at least: while one flushes, others go on.
const minChannels = 4

// Store is a folder on a server. Close it.
type Store struct {
	*server
	target Target

	witness atomic.Pointer[fs.FileInfo] // the config file when it was seen first; nil: not seen yet
	fans    store.Fans
	swept   atomic.Bool    // the removal of stale temporary files has begun
	group   sync.WaitGroup // what runs in the background

	mu      sync.Mutex
	orphans []string // temporary files that could not be removed yet
}

// server is what the stores on a server share.
type server struct {
	pass *iopolicy.Pass
	pool *pool
	own  bool // there is no ssh program
	// reached: the server has answered, so that a failure to connect is temporary.
	reached atomic.Bool
	// What it turned out to lack.
	noFlush, noFolderFlush, noLinks atomic.Bool
}

var _ store.Remote = (*Store)(nil)

// Open opens the folder of t. A missing folder is store.ErrNotExist. A folder without a config file is opened; reading
// its config is store.ErrNotExist.
func Open(ctx context.Context, t Target, o Options) (*Store, error) {
	return begin(ctx, t, o, "open repository folder", (*Store).find)
}

// Create makes the folder of t with missing parents, and the folders of the layout in it. Existing ones are kept.
func Create(ctx context.Context, t Target, o Options) (*Store, error) {
	return begin(ctx, t, o, "create repository folder", (*Store).build)
}

func begin(ctx context.Context, t Target, o Options, what string, first func(*Store, context.Context, *channel) error) (
	*Store, error,
) {
	if t.Host == "" {
		return nil, fmt.Errorf("%w: the host is missing", ErrTarget)
	}
	d, own := o.direct, false
	if d == nil {
		d = &line{target: t, ask: o.Ask}
		if _, missing := exec.LookPath("ssh"); missing != nil {
			d, own = &native{target: t}, true
		}
	}
	s := &Store{target: t, server: &server{pass: o.Pass, pool: newPool(t.Host, d, o), own: own}}
	err := s.with(ctx, func(c *channel) error {
		if err := s.suits(c); err != nil {
			return err
		}
		return first(s, ctx, c)
	})
	if err != nil {
		s.pool.close()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return s, nil
}

// suits checks what the server offers.
func (s *Store) suits(c *channel) error {
	if _, ok := c.HasExtension("posix-rename@openssh.com"); !ok {
		return &store.Problem{What: s.target.Host + " cannot replace a file in one step (posix-rename@openssh.com)",
			Do: "use a server whose SFTP is that of OpenSSH, or one that has this extension"}
	}
	_, flush := c.HasExtension("fsync@openssh.com")
	_, link := c.HasExtension("hardlink@openssh.com")
	s.noFlush.Store(!flush)
	s.noFolderFlush.Store(!flush)
	s.noLinks.Store(!link)
	return nil
}

// find checks that the folder exists.
func (s *Store) find(ctx context.Context, c *channel) error {
	var root fs.FileInfo
	var missing error
	var both sync.WaitGroup
	both.Go(func() { root, missing = s.stat(ctx, c, s.at("")) })
	info, config := s.stat(ctx, c, s.at("config"))
	both.Wait()
	switch {
	case missing != nil:
		return missing
	case !root.IsDir():
		return fmt.Errorf("%s is not a folder; name the one that holds the repository", s.Location())
	case errors.Is(config, fs.ErrNotExist):
		return nil
	case config == nil:
		s.witness.Store(&info)
	}
	return config
}

// build makes the folders.
func (s *Store) build(ctx context.Context, c *channel) error {
	if err := s.makeDirs(ctx, c, s.at("")); err != nil {
		return err
	}
	for folder := range store.Folders() {
		if err := s.makeDir(ctx, c, s.at(folder)); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the connection. Operations in progress fail.
func (s *Store) Close() error {
	s.group.Wait()
	s.pool.close()
	return nil
}

// Location returns the address, without secrets.
func (s *Store) Location() string { return s.target.String() }

// VerifiesPut returns true: each file is read back before it gets its name.
func (s *Store) VerifiesPut() bool { return true }

// at returns the path of a file of the repository on the server. A relative one begins at the home folder.
func (s *Store) at(below string) string {
	if at := path.Join(s.target.Path, below); at != "" {
		return at
	}
	return "."
}

// with runs what on a channel, and ends the channel if that takes longer than grace after ctx has ended. An error that
// is no answer of the server means that the channel is of no more use.
func (s *Store) with(ctx context.Context, what func(c *channel) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c, err := s.pool.Get(ctx)
	if err != nil {
		return s.explainDial(ctx, err)
	}
	s.reached.Store(true)
	defer c.Release()
	defer c.endWith(ctx)()
	if err := what(c); err != nil {
		return s.explain(ctx, c, err)
	}
	return nil
}

// Get opens and reads the file, with several requests in flight.
func (s *Store) Get(ctx context.Context, name store.Name, off int64, p []byte) (err error) {
	defer store.Wrap(&err, "get", name)
	if err := store.Admit(ctx, name); err != nil {
		return err
	}
	if off < 0 {
		return fmt.Errorf("negative offset %d", off)
	}
	return s.with(ctx, func(c *channel) error { return s.get(ctx, c, name, off, p) })
}

func (s *Store) get(ctx context.Context, c *channel, name store.Name, off int64, p []byte) error {
	f, err := s.open(ctx, c, s.at(name.Path()), os.O_RDONLY)
	if err != nil {
		return s.orGone(ctx, c, name, err)
	}
	defer s.inBackground(f.Close)
	if off > math.MaxInt64-int64(len(p)) {
		return fmt.Errorf("%w: no file reaches to %d bytes from %d", store.ErrShort, len(p), off)
	}
	for done := 0; done < len(p); {
		piece := store.PieceOf(ctx, store.Download, len(p)-done)
		n, err := s.pass.Do(ctx, iopolicy.Op{Kind: iopolicy.Read, Bytes: piece, Certain: true}, func(bound int) (int, error) {
			if bound > 0 {
				piece = min(piece, bound)
			}
			return f.ReadAt(p[done:done+piece], off+int64(done))
		})
		done += n
		if errors.Is(err, io.EOF) && done < len(p) {
			return fmt.Errorf("%w: it ends at byte %d, want %d from %d", store.ErrShort, off+int64(done), len(p), off)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fenced(f, err)
		}
		if err := store.Paced(ctx, store.Download, n); err != nil {
			return err
		}
	}
	return nil
}

// fenced returns store.ErrShort for a failure to read a fence, which opens as a file does.
func fenced(f *file, err error) error {
	if !answered(err) {
		return err
	}
	if info, unknown := f.Stat(); unknown != nil || !info.IsDir() {
		return err
	}
	return fmt.Errorf("%w: the name is fenced", store.ErrShort)
}

// Stat describes a file.
func (s *Store) Stat(ctx context.Context, name store.Name) (info store.Info, err error) {
	defer store.Wrap(&err, "stat", name)
	if err := store.Admit(ctx, name); err != nil {
		return info, err
	}
	err = s.with(ctx, func(c *channel) error {
		found, err := s.stat(ctx, c, s.at(name.Path()))
		if err == nil && !found.Mode().IsRegular() && !store.IsFence(name.Kind, found.Mode()) {
			err = fmt.Errorf("not a regular file: %w", fs.ErrNotExist)
		}
		if err != nil {
			return s.orGone(ctx, c, name, err)
		}
		info = store.Describe(name, found)
		return nil
	})
	return info, err
}

// Delete removes the file or the fence. Except for packs and leases, its folder is flushed.
func (s *Store) Delete(ctx context.Context, name store.Name) (err error) {
	defer store.Wrap(&err, "delete", name)
	if err := store.Admit(ctx, name); err != nil {
		return err
	}
	return s.with(ctx, func(c *channel) error {
		at := s.at(name.Path())
		if err := s.metadata(ctx, func() error { return c.Remove(at) }); err != nil {
			return s.orGone(ctx, c, name, err)
		}
		if name.Kind == store.Config {
			s.witness.Store(nil)
		}
		if name.Kind == store.Pack || name.Kind == store.Lease {
			return nil
		}
		return s.flushFolder(ctx, c, path.Dir(at))
	})
}

// stat describes what has a path.
func (s *Store) stat(ctx context.Context, c *channel, at string) (info fs.FileInfo, err error) {
	err = s.metadata(ctx, func() (err error) {
		info, err = c.Lstat(at)
		return err
	})
	return info, err
}

// orGone returns an error that wraps store.ErrGone instead of err, if err is that something is missing and the
// repository that was there is missing too: a disk of the server is not mounted, or another one is. An empty folder
// could make a prune remove all data.
func (s *Store) orGone(ctx context.Context, c *channel, name store.Name, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil || name.Kind == store.Config || s.witness.Load() == nil {
		return err
	}
	if gone := s.present(ctx, c); gone != nil {
		return gone
	}
	return err
}

// present returns an error unless the repository is where it was.
func (s *Store) present(ctx context.Context, c *channel) error {
	was := s.witness.Load()
	what := s.at("config")
	if was == nil {
		what = s.at("")
	}
	now, err := s.stat(ctx, c, what)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case was == nil:
		return s.remember(ctx, c)
	case (*was).Size() == now.Size() && (*was).ModTime().Equal(now.ModTime()):
		return nil
	}
	return &store.Problem{What: "the repository is no longer at " + s.Location(),
		Do: "see that the disk of the server is mounted, " + goOn, Kinds: []error{store.ErrGone, store.ErrTemporary}}
}

// remember looks for the config file, which shows later that the repository is the same.
func (s *Store) remember(ctx context.Context, c *channel) error {
	info, err := s.stat(ctx, c, s.at("config"))
	if err == nil {
		s.witness.CompareAndSwap(nil, &info)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// open opens a file or, with os.O_RDONLY, a folder.
func (s *Store) open(ctx context.Context, c *channel, at string, flags int) (f *file, err error) {
	err = s.metadata(ctx, func() (err error) {
		f, err = c.OpenFile(at, flags)
		return err
	})
	return f, err
}

// makeDirs creates a folder with all missing parents. Only the user has access to what it creates.
func (s *Store) makeDirs(ctx context.Context, c *channel, at string) error {
	info, err := s.stat(ctx, c, at)
	if err == nil && !info.IsDir() {
		if info, err = c.Stat(at); err != nil || !info.IsDir() { // not a link to a folder either
			return fmt.Errorf("there is a file at %s; choose another path", s.Location())
		}
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.makeDirs(ctx, c, path.Dir(at)); err != nil {
		return err
	}
	if err := s.makeDir(ctx, c, at); err != nil {
		return err
	}
	return s.metadata(ctx, func() error { return c.Chmod(at, 0o700) })
}

// makeDir creates one folder, unless it exists, and flushes its parent.
func (s *Store) makeDir(ctx context.Context, c *channel, at string) error {
	err := s.metadata(ctx, func() error { return c.Mkdir(at) })
	if err != nil {
		if info, missing := s.stat(ctx, c, at); missing == nil && info.IsDir() {
			return nil
		}
		return err
	}
	return s.flushFolder(ctx, c, path.Dir(at))
}

// metadata runs call as an operation of the gate.
func (s *Store) metadata(ctx context.Context, call func() error) error {
	return s.gated(ctx, iopolicy.Metadata, call)
}

func (s *Store) gated(ctx context.Context, kind iopolicy.Kind, call func() error) error {
	_, err := s.pass.Do(ctx, iopolicy.Op{Kind: kind, Certain: true}, func(int) (int, error) { return 0, call() })
	return err
}

// inBackground runs what no caller waits for. Close waits for it.
func (s *Store) inBackground(what func() error) { s.group.Go(func() { _ = what() }) }
