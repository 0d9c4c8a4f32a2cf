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

// spot is where a path leads.
type spot struct {
	mount
	ino uint64 // number of the file or folder on its file system
}

// place is what lies at a path.
type place struct {
	spot        // its ino is 0 where the file system is not known to keep those numbers
	fs   string // type and ID of the file system, which it keeps when it is mounted again where that is possible
}

// holds reports whether a path that leads there now leads to p. Without a number to compare, a copy of the repository on
// the same mount cannot be told from it.
func (p place) holds(now spot) bool { return now.mount == p.mount && (p.ino == 0 || now.ino == p.ino) }

// seen is the target as it was when its config file was first read: the marker, and where marker and packs lie. Packs may
// lie on another file system than the config, by a mount of their own or a symbolic link.
type seen struct {
	config []byte
	marker place
	packs  place // zero: the folder was not there
	// brief: leases lie on a file system of a disk, or of memory, that is this kernel's alone: what crashes it ends all who
	// write there.
	brief bool
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
	marker, err := spotOf(s.marker())
	if err != nil {
		return false, err
	}
	packs, err := spotOf(s.packs())
	if errors.Is(err, fs.ErrNotExist) && was.together() {
		// An empty folder that somebody removed: Put makes it again, and then it is another one.
		anew := *was
		anew.packs.ino = 0
		s.seen.CompareAndSwap(was, &anew)
		packs, err = was.packs.spot, nil
	}
	return was.marker.holds(marker) && (was.packs == place{} || was.packs.holds(packs)), err
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
		err = fmt.Errorf("%w: something took the place of the repository in the meantime", store.ErrTemporary) // guard knows what
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
		parent, err := open(filepath.Dir(path), unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer parent.Close()
		witness, want := "", was.packs // of the folder of packs: itself
		if parent.Name() == s.root {
			witness, want = configName, was.marker
		}
		made := false
		err = withFD(parent, func(fd int) error {
			at, err := spotAt(fd, witness)
			if err != nil {
				return err
			}
			if !want.holds(at) && want != (place{}) {
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
	if now.marker.fs == was.marker.fs && now.packs.fs == was.packs.fs && (!was.marker.holds(spot{was.marker.mount, now.marker.ino}) ||
		now.packs.ino != 0 && !was.packs.holds(spot{was.packs.mount, now.packs.ino})) {
		return s.lost(fmt.Errorf("%s is not the folder that it was when this run began: a copy of it lies there now", s.root))
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
	if now.marker.ino != 0 { // or it is none of the file systems that are known well
		err = s.look(ctx, func() error {
			leases, err := spotOf(filepath.Join(s.root, store.Lease.Folder()))
			now.brief = err == nil && leases.mount == now.marker.mount
			return nil //nolint:nilerr // leases are flushed then
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return now, nil
}

// brief tells whether files of a kind need not outlast a crash: see Leases in the package comment.
func (s *Store) brief(kind store.Kind) bool {
	was := s.seen.Load()
	return kind == store.Lease && was != nil && was.brief
}

func (s *Store) placeOf(ctx context.Context, path string) (p place, err error) {
	err = s.look(ctx, func() (err error) {
		keeps := false
		if p.spot, err = spotOf(path); err == nil {
			p.fs, keeps, err = fileSystem(path)
		}
		if !keeps {
			p.ino = 0
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
