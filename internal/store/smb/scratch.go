package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/cloudsoda/go-smb2"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

const (
	// removeTimeout bounds the removal of a scratch folder, including retries.
	removeTimeout = 5 * time.Second
	// scratchPatience is how long the stores of a scratch folder retry: files are open elsewhere for a moment.
	scratchPatience = 5 * time.Second
	// removeDepth is how deep folders are nested in a scratch folder: packs, and those in it.
	removeDepth = 3
	// removeWorkers is how many files are removed at the same time.
	removeWorkers = 16
)

// Scratch makes a temporary folder in the folder of the Store, calls use with its name, and removes it with its
// contents, also after ctx has ended. open returns an empty store in a folder next to it, on the same sessions and the
// same gate. Scratch folders of programs that were killed are removed after a day by the clock of the server.
func (s *Store) Scratch(ctx context.Context,
	use func(name string, open func(name string) store.Store) error) (err error) {
	name := store.TempName(store.ScratchPrefix)
	at := path.Join(s.target.Path, name)
	var opened []*Store
	err = s.permitted(ctx, func(h *session.Session) error { return s.makeDir(ctx, h, at) })
	if err != nil && session.Status(err) != 0 {
		return err // the server's answer: the folder was not made
	}
	defer func() {
		for _, one := range opened {
			one.background.Wait() // it closes files, which could not be removed otherwise
		}
		if failed := s.removeAll(ctx, at); failed != nil {
			err = errors.Join(err, fmt.Errorf("remove temporary folder %s: %w", name, failed))
		}
	}()
	if err != nil {
		return err
	}
	_ = s.once(ctx, func(h *session.Session) error {
		fresh, err := s.stat(ctx, h, at)
		if err == nil {
			s.sweepFolder(ctx, h, "", fresh.ModTime())
		}
		return err
	})
	return use(name, func(name string) store.Store {
		one := s.below(name)
		opened = append(opened, one)
		return one
	})
}

// below returns a store in a folder below that of s, which shares the sessions of s.
func (s *Store) below(name string) *Store {
	one := &Store{
		target: s.target, inflight: s.inflight, verify: s.verify, pass: s.pass, patience: s.patience, pool: s.pool,
	}
	one.target.Path = path.Join(s.target.Path, name)
	one.patience.Outage, one.patience.Notify, one.patience.Back = scratchPatience, nil, nil
	one.swept.Store(true) // no other program writes there
	return one
}

// removeAll removes a folder with its contents, even if ctx has ended or the gate is shut. It retries for a while: a
// request of this program may still be in flight, or the connection was lost.
func (s *Store) removeAll(ctx context.Context, at string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for pause := firstPause; ; pause *= 2 {
		err := s.once(ctx, func(h *session.Session) error { return s.removeTree(ctx, h, at, removeDepth) })
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if errors.Is(err, session.ErrClosed) || errors.Is(err, ErrLogon) || store.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

func (s *Store) removeTree(ctx context.Context, h *session.Session, at string, depth int) error {
	var entries []fs.FileInfo
	err := h.Do(ctx, func(share *smb2.Share) (err error) {
		entries, err = share.ReadDir(at)
		return err
	})
	if err != nil {
		return err
	}
	var group errgroup.Group // a file that cannot be removed does not keep the others
	group.SetLimit(removeWorkers)
	for _, e := range entries {
		name := path.Join(at, e.Name())
		switch {
		case strings.ContainsAny(e.Name(), `/\`) || (e.IsDir() && depth == 0):
			return fmt.Errorf("%s: the server lists %q, which tidemark did not create", at, e.Name())
		case e.IsDir():
			if err := s.removeTree(ctx, h, name, depth-1); err != nil {
				return err
			}
		default:
			group.Go(func() error { return remove(ctx, h, name) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return remove(ctx, h, at)
}

// remove removes a file or an empty folder without waiting at the gate.
func remove(ctx context.Context, h *session.Session, at string) error {
	err := h.Do(ctx, func(share *smb2.Share) error { return share.Remove(at) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Describe describes the connection to the server.
func (s *Store) Describe(ctx context.Context) (store.Link, error) {
	l := store.Link{Protocol: "smb", Server: s.target.Host, Source: "//" + s.target.Host + "/" + s.target.Share,
		Durable: "The server acknowledges flushes.", Advice: flushes}
	err := s.permitted(ctx, func(h *session.Session) error {
		_, err := s.stat(ctx, h, s.target.Path)
		l.What, l.Remedy = h.Describe(s.target.Host)
		return err
	})
	if err != nil {
		return store.Link{}, err
	}
	return l, nil
}

// flushes is what to know about flushes on a server.
const flushes = "whether the server's disk flushes cannot be seen from here: set 'strict sync = yes' on Samba"
