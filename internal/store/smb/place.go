package smb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/cloudsoda/go-smb2"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

// PutNew creates the file under its name, which the server does once only (FILE_CREATE), writes and flushes it. It does
// not read it back.
func (s *Store) PutNew(ctx context.Context, name store.Name, data []byte) (info store.Info, err error) {
	if err = name.Check(); err == nil {
		info, err = s.putNew(ctx, name, data)
	}
	if err != nil {
		return store.Info{}, fmt.Errorf("put new %s: %w", name, err)
	}
	s.sawConfig(name)
	s.sweepOnce(ctx, name)
	return info, nil
}

func (s *Store) putNew(ctx context.Context, name store.Name, data []byte) (info store.Info, err error) {
	open, release, err := s.lock(ctx, name, exclusive)
	if err != nil {
		return info, err
	}
	defer release()
	err = s.repeat(ctx, func(h *session.Session) error {
		f, err := s.createNew(ctx, h, name)
		if err != nil {
			return err
		}
		if info, err = f.fill(ctx, name, data); err != nil {
			_ = f.close(ctx)
			if h.Dead() == nil { // else a file of this name is the next attempt's
				_ = s.metadata(ctx, h, func(share *smb2.Share) error { return share.Remove(s.path(name)) })
			}
			return err
		}
		f.done(ctx, open)
		if !h.Protected() {
			s.unprotected.Store(true)
		}
		return nil
	})
	return info, err
}

// createNew creates the file of a name that nothing has. A missing folder is created if the target is there.
func (s *Store) createNew(ctx context.Context, h *session.Session, name store.Name) (*file, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := s.open(ctx, h, s.path(name), flags)
	if dir := path.Dir(s.path(name)); errors.Is(err, fs.ErrNotExist) && dir != s.target.Path {
		if err := s.remake(ctx, h, path.Dir(s.kindPath(name)), err); err != nil {
			return nil, err
		}
		s.fans.Of(name).Store(false)
		if err := s.makeFan(ctx, h, name); err != nil {
			return nil, err
		}
		f, err = s.open(ctx, h, s.path(name), flags)
	}
	if errors.Is(err, fs.ErrExist) {
		err = s.taken(ctx, h, name)
	}
	return f, err
}

// taken says what has a name.
func (s *Store) taken(ctx context.Context, h *session.Session, name store.Name) error {
	switch info, err := s.stat(ctx, h, s.path(name)); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the name was taken and is free now", store.ErrTemporary)
	case err != nil:
		return err
	case info.IsDir():
		return store.ErrFenced
	}
	return store.ErrExists
}

// fill writes and flushes a new file, and asks for its time meanwhile. Servers may count a later second as that of the
// last write.
func (f *file) fill(ctx context.Context, name store.Name, data []byte) (store.Info, error) {
	if err := f.write(ctx, data); err != nil {
		return store.Info{}, err
	}
	var info fs.FileInfo
	var both errgroup.Group // without a context: requests in flight finish
	both.Go(func() error { return f.sync(ctx) })
	both.Go(func() (err error) {
		info, err = f.stat(ctx)
		return err
	})
	if err := both.Wait(); err != nil {
		return store.Info{}, err
	}
	return store.Info{Name: name, Size: int64(len(data)), Modified: info.ModTime()}, nil
}

// Fence makes an empty folder of the name: see store.IsFence.
func (s *Store) Fence(ctx context.Context, name store.Name) (err error) {
	defer store.Wrap(&err, "fence", name)
	if err := name.CheckFence(); err != nil {
		return err
	}
	return s.repeat(ctx, func(h *session.Session) error { return s.fence(ctx, h, s.path(name)) })
}

func (s *Store) fence(ctx context.Context, h *session.Session, at string) error {
	create := func() error {
		return s.flush(ctx, h, func(share *smb2.Share) error { return share.Mkdir(at, fs.ModePerm) })
	}
	err := create()
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.remake(ctx, h, path.Dir(at), err); err != nil {
			return err
		}
		err = create()
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := s.stat(ctx, h, at)
	if err == nil && !info.IsDir() {
		return store.ErrExists
	}
	return err
}
