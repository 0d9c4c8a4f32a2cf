package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// mostConfig is how much of the config file is compared, in bytes: many times what it holds.
const mostConfig = 64 << 10

// mount is what one mount of a file system differs by from any other, as long as the machine is up.
type mount struct {
	dev uint64 // device number of the file system
	id  uint64 // of the mount, which no later mount gets on new kernels; 0 where the system does not tell
}

// place is what lies at a path.
type place struct {
	mount
	fs string // type and ID of the file system, which it keeps when it is mounted again where that is possible
}

// seen is the target as it was when its config file was first read: the marker, and where marker and packs lie. Packs may
// lie on another file system than the config, by a mount of their own or a symbolic link.
type seen struct {
	config []byte
	marker place
	packs  place // zero: the folder was not there
}

// guard refuses to write where the target no longer is. It looks up two names, which are in memory on a disk of this
// machine; nothing is read. The error wraps store.ErrGone.
func (s *Store) guard(ctx context.Context) error {
	if !s.known.Load() {
		return nil // the repository is being made: there is no marker yet
	}
	was := s.seen.Load()
	if was == nil {
		now, err := s.observe(ctx)
		if err == nil {
			s.seen.Store(now)
		}
		return s.unmarked(err)
	}
	same := false
	err := s.look(ctx, func() (err error) {
		same, err = s.unmoved(was)
		return err
	})
	if err != nil || same {
		return s.unmarked(err)
	}
	return s.recognise(ctx, was)
}

// unmoved reports whether marker and packs are reached by the same mounts as before. It is a part of an operation.
func (s *Store) unmoved(was *seen) (bool, error) {
	marker, err := mountOf(s.marker())
	if err != nil {
		return false, err
	}
	packs, err := mountOf(s.packs())
	if errors.Is(err, fs.ErrNotExist) && was.together() {
		packs, err = was.packs.mount, nil // an empty folder that somebody removed: Put makes it again
	}
	return marker == was.marker.mount && (packs == was.packs.mount || was.packs == place{}), err
}

// confirm looks once more when a file has got its name, as a part of the same operation: a target that went away since
// guard looked has nothing of it, or it was written to what lies there now. Nobody is told then that it was stored.
func (s *Store) confirm() error {
	was := s.seen.Load()
	if was == nil {
		return nil
	}
	same, err := s.unmoved(was)
	if err == nil && !same {
		err = fmt.Errorf("%w: something was mounted while a file was written", store.ErrTemporary) // guard knows what
	}
	return s.unmarked(err)
}

// makeHere makes a folder in the root or in that of the packs, if it is not there, and flushes its parent. That is held
// open meanwhile and must lie where it was seen: what is made by its path alone could be made on the disk beneath, when
// the target goes away at that moment.
func (s *Store) makeHere(ctx context.Context, path string) error {
	was := s.seen.Load()
	if was == nil {
		return s.makeDir(ctx, path) // the repository is being made
	}
	if path == s.packs() && !was.together() {
		return nil // it was there as a mount of its own, and making what is in it looks whether it still is
	}
	return s.flush(ctx, func() error {
		parent, err := os.Open(filepath.Dir(path))
		if err != nil {
			return err
		}
		defer parent.Close()
		witness, want := "", was.packs.mount // of the folder of packs: itself
		if parent.Name() == s.root {
			witness, want = configName, was.marker.mount
		}
		made := false
		err = withFD(parent, func(fd int) error {
			at, err := mountAt(fd, witness)
			if err != nil {
				return err
			}
			if at != want && want != (mount{}) {
				return s.lost(fmt.Errorf("%s is not where it was when this run began", parent.Name()))
			}
			err = again(func() error { return unix.Mkdirat(fd, filepath.Base(path), dirMode) })
			made = err == nil
			if errors.Is(err, unix.EEXIST) {
				return nil
			}
			return os.NewSyscallError("mkdirat", err)
		})
		if err != nil {
			return s.unmarked(err)
		}
		if !made {
			return nil
		}
		return syncOpen(parent)
	})
}

// together reports whether the packs lie on the same mount as the marker.
func (s *seen) together() bool { return s.packs == place{} || s.packs.mount == s.marker.mount }

// recognise decides about a target that was mounted anew while this Store was in use: an automounter does so, and whoever
// plugs the disk in again. It is the same one if the config and the file systems are.
func (s *Store) recognise(ctx context.Context, was *seen) error {
	now, err := s.observe(ctx)
	if err != nil {
		return s.unmarked(err)
	}
	if !bytes.Equal(now.config, was.config) || now.marker.fs != was.marker.fs ||
		(was.packs != place{} && now.packs.fs != was.packs.fs) {
		return s.lost(fmt.Errorf("another file system is mounted where %s was when this run began", s.root))
	}
	s.seen.Store(now)
	return nil
}

// observe looks at the target in full.
func (s *Store) observe(ctx context.Context) (*seen, error) {
	now := &seen{}
	err := s.look(ctx, func() (err error) {
		now.config, err = os.ReadFile(s.marker())
		now.config = now.config[:min(len(now.config), mostConfig)]
		return err
	})
	if err != nil {
		return nil, err
	}
	if now.marker, err = s.placeOf(ctx, s.marker()); err != nil {
		return nil, err
	}
	now.packs, err = s.placeOf(ctx, s.packs())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return now, nil
}

func (s *Store) placeOf(ctx context.Context, path string) (p place, err error) {
	err = s.look(ctx, func() (err error) {
		if p.mount, err = mountOf(path); err == nil {
			p.fs, err = fileSystem(path)
		}
		return err
	})
	if err != nil {
		return place{}, err
	}
	return p, nil
}

// unmarked says of a marker that is not found that the target is not there.
func (s *Store) unmarked(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; nothing was written to what lies beneath", s.lost(err))
	}
	return err
}

func (s *Store) marker() string { return filepath.Join(s.root, configName) }

func (s *Store) packs() string { return filepath.Join(s.root, store.Pack.Folder()) }
