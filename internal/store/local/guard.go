package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// configName is the file that proves that the file system of the repository is mounted at the root.
const configName = "config"

// fileID identifies the config file without reading it, or a folder by dev and ino alone.
type fileID struct {
	dev      uint64
	ino      uint64        // on file systems that keep inode numbers
	modified unix.Timespec // on these too: another disk may get the same device number
	mount    uint64        // on all others: the mount, which changes when anything is mounted again
}

// witness describes the target when its config file was first seen. The pack folder may lie on another file system than
// the config, through a mount or a symbolic link.
type witness struct {
	config fileID
	packs  fileID // zero: it did not exist
	stable bool   // the file system keeps inode numbers
	// localLeases: leases lie on a file system that only this kernel has mounted. A crash of the kernel ends every
	// writer.
	localLeases bool
}

// guard returns store.ErrGone unless the root leads to the config that was there at the beginning.
func (s *Store) guard(ctx context.Context) error {
	root, err := s.openRoot(ctx)
	if err != nil {
		return err
	}
	return root.Close()
}

// openRoot opens the folder of the repository and checks that it still holds the same config file. The caller reaches
// files through the descriptor, so that nothing is written elsewhere when the target is unmounted meanwhile.
func (s *Store) openRoot(ctx context.Context) (root *os.File, err error) {
	err = s.metadata(ctx, func() (err error) {
		root, err = openAt(unix.AT_FDCWD, s.root, unix.O_RDONLY|unix.O_DIRECTORY, 0, s.root)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return s.lost(err)
			}
			return err
		}
		if err = withFD(root, s.verify); err != nil {
			_ = root.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return root, nil
}

// verify compares the config file and the pack folder below the open root with the witness. It is part of an operation.
func (s *Store) verify(root int) error {
	if !s.known.Load() {
		return nil // the repository is being created and has no config yet
	}
	was := s.seen.Load()
	if was == nil {
		now, err := observe(root)
		if err == nil {
			s.seen.Store(now)
		}
		return s.configMissing(err)
	}
	config, err := identify(root, was.stable)
	if err != nil {
		return s.configMissing(err)
	}
	if config != was.config {
		return s.lost(fmt.Errorf("%s does not hold the config file that was there when this run began: another file "+
			"system is mounted there, or a copy lies there", s.root))
	}
	packs, err := folderAt(root, store.Pack.Folder(), was.stable)
	if errors.Is(err, fs.ErrNotExist) && (was.packs == fileID{} || was.packs.dev == was.config.dev) {
		now := *was
		now.packs = fileID{} // someone removed the empty folder; Put creates another one
		s.seen.CompareAndSwap(was, &now)
		return nil
	}
	if err == nil && was.packs != (fileID{}) && packs != was.packs {
		return s.lost(fmt.Errorf("the pack folder in %s is not the one that was there when this run began: another "+
			"file system is mounted there, or a copy lies there", s.root))
	}
	return s.configMissing(err)
}

// observe describes the target below the open root.
func observe(root int) (*witness, error) {
	stable, err := keepsInodes(root)
	if err != nil {
		return nil, err
	}
	now := &witness{stable: stable}
	if now.config, err = identify(root, stable); err != nil {
		return nil, err
	}
	if now.packs, err = folderAt(root, store.Pack.Folder(), stable); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	leases, err := folderAt(root, store.Lease.Folder(), stable)
	now.localLeases = err == nil && stable && leases.dev == now.config.dev
	return now, nil
}

// identify describes the config file below the open root.
func identify(root int, stable bool) (fileID, error) {
	st, err := statAt(root, configName)
	if err != nil {
		return fileID{}, err
	}
	if stable {
		return fileID{dev: uint64(st.Dev), ino: st.Ino, modified: st.Mtim}, nil
	}
	mount, err := mountID(root)
	return fileID{dev: uint64(st.Dev), mount: mount}, err
}

// folderAt identifies a folder below the open root.
func folderAt(root int, name string, stable bool) (fileID, error) {
	st, err := statAt(root, name)
	if err != nil {
		return fileID{}, err
	}
	id := fileID{dev: uint64(st.Dev)}
	if stable {
		id.ino = st.Ino
	}
	return id, nil
}

func statAt(dir int, name string) (st unix.Stat_t, err error) {
	if err = retryEINTR(func() error { return unix.Fstatat(dir, name, &st, 0) }); err != nil {
		return st, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return st, nil
}

// makeDirAt creates a folder below the open root, unless it exists, and flushes its parent.
func (s *Store) makeDirAt(ctx context.Context, root *os.File, name string) error {
	return s.flush(ctx, func() error {
		made := false
		err := withFD(root, func(fd int) error {
			if err := s.verify(fd); err != nil {
				return err
			}
			err := retryEINTR(func() error { return unix.Mkdirat(fd, name, dirMode) })
			made = err == nil
			if errors.Is(err, unix.EEXIST) {
				return nil
			}
			return os.NewSyscallError("mkdirat", err)
		})
		if err != nil || !made {
			return err
		}
		return s.syncDirAt(root, filepath.Dir(name))
	})
}

// skipsFlush reports whether files of a kind need not outlast a crash: see Leases in the package comment.
func (s *Store) skipsFlush(kind store.Kind) bool { return kind == store.Lease && s.EndsWithProcess() }

// EndsWithProcess reports whether only this kernel has the file system mounted. All calls of a process that ended are
// then over.
func (s *Store) EndsWithProcess() bool {
	was := s.seen.Load()
	return was != nil && was.localLeases
}

// Coherent reports whether only this kernel has the file system mounted.
func (s *Store) Coherent() bool { return s.EndsWithProcess() }

// Unfenced looks whether nothing has the name of a lease. Where other kernels have the file system mounted, this one
// may answer from memory.
func (s *Store) Unfenced(ctx context.Context, name store.Name) (time.Time, error) {
	if !s.Coherent() {
		return time.Time{}, errors.ErrUnsupported
	}
	return store.UnfencedBy(s.Stat(ctx, name))
}

// configMissing turns a missing config file into store.ErrGone.
func (s *Store) configMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; nothing was written to the folder that is there now", s.lost(err))
	}
	return err
}

func (s *Store) configPath() string { return filepath.Join(s.root, configName) }
