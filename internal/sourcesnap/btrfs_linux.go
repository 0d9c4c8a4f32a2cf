package sourcesnap

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// btrfsFolder holds the snapshots, in the root of the subvolume that they show. In it, each backup has a folder, which it locks
// until it ends. It stays, so that the times of the root do not change with each backup.
const btrfsFolder = ".tidemark-snapshot"

// rootInode is the inode number of the root of each subvolume (BTRFS_FIRST_FREE_OBJECTID).
const rootInode = 256

// The requests of linux/btrfs.h, for all architectures but MIPS, PowerPC and SPARC.
const (
	snapCreate     = 0x50009417 // BTRFS_IOC_SNAP_CREATE_V2
	snapDestroy    = 0x5000940f // BTRFS_IOC_SNAP_DESTROY
	subvolGetFlags = 0x80089419 // BTRFS_IOC_SUBVOL_GETFLAGS
	readOnly       = 1 << 1     // BTRFS_SUBVOL_RDONLY
)

// volArgs is struct btrfs_ioctl_vol_args.
type volArgs struct {
	fd   int64
	name [4088]byte
}

// volArgs2 is struct btrfs_ioctl_vol_args_v2.
type volArgs2 struct {
	fd      int64
	transID uint64
	flags   uint64
	unused  [4]uint64
	name    [4040]byte
}

// btrfs makes read-only snapshots of subvolumes.
type btrfs struct {
	made map[string]*subvolume // by the root of the subvolume
}

// subvolume is the snapshot of one.
type subvolume struct {
	folder *os.File // locked
	name   string   // of the snapshot in it
}

func newBtrfs() (Maker, error) { return &btrfs{made: map[string]*subvolume{}}, nil }

// Make implements Maker.
func (b *btrfs) Make(_ context.Context, source string) (place string, err error) {
	above, err := filepath.EvalSymlinks(filepath.Dir(source))
	if err != nil {
		return "", err //nolint:wrapcheck // it names the path
	}
	source = filepath.Join(above, filepath.Base(source))
	root, err := subvolumeOf(source)
	if err != nil {
		return "", err
	}
	if os.Geteuid() != 0 {
		return "", ErrRoot
	}
	s := b.made[root]
	if s == nil {
		if s, err = snapshot(root); err != nil {
			return "", err
		}
		b.made[root] = s
	}
	rest, err := filepath.Rel(root, source)
	if err != nil {
		return "", err //nolint:wrapcheck // it names the paths
	}
	return filepath.Join(s.folder.Name(), s.name, rest), nil
}

// subvolumeOf returns the root of the subvolume of a path without links.
func subvolumeOf(path string) (root string, err error) {
	var system unix.Statfs_t
	if err := unix.Statfs(path, &system); err != nil {
		return "", &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if system.Type != unix.BTRFS_SUPER_MAGIC {
		return "", ErrFileSystem
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	for device := st.Dev; ; path = filepath.Dir(path) {
		if err := unix.Lstat(path, &st); err != nil {
			return "", &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		if st.Dev != device {
			return "", fmt.Errorf("%w: the root of its subvolume is not mounted", ErrFileSystem)
		}
		if st.Ino == rootInode {
			return path, nil
		}
		if path == "/" {
			return "", fmt.Errorf("%w: the root of its subvolume is not mounted", ErrFileSystem)
		}
	}
}

// snapshot makes a snapshot of a subvolume. It removes those of backups that were killed.
func snapshot(root string) (s *subvolume, err error) {
	all := filepath.Join(root, btrfsFolder)
	if err := removeStale(all); err != nil {
		return nil, fmt.Errorf("remove the snapshot of a backup that was killed: %w", err)
	}
	subvol, err := os.Open(root)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the path
	}
	defer func() { _ = subvol.Close() }()
	const attempts = 3 // another backup that ends at this moment may remove a folder that is not locked yet
	for range attempts {
		s, err = snapshotIn(filepath.Join(all, rand.Text()), subvol, filepath.Base(root))
		if !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	return nil, err
}

// snapshotIn makes a snapshot in a folder of its own.
func snapshotIn(path string, of *os.File, name string) (*subvolume, error) {
	if name == "/" {
		name = "root"
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err //nolint:wrapcheck // it names the path
	}
	folder, err := lock(path)
	if err != nil {
		return nil, errors.Join(err, remove(path))
	}
	args := volArgs2{fd: int64(of.Fd()), flags: readOnly}
	copy(args.name[:len(args.name)-1], name)
	if err := ioctl(folder, snapCreate, unsafe.Pointer(&args)); err != nil {
		_ = folder.Close()
		return nil, errors.Join(fmt.Errorf("make a snapshot in %s: %w", path, err), remove(path))
	}
	return &subvolume{folder, name}, nil
}

// lock opens a folder and locks it, as long as this process lives or until it is closed.
func lock(path string) (*os.File, error) {
	folder, err := os.Open(path)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the path
	}
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = folder.Close()
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return folder, nil
}

// removeStale removes the snapshots of backups that have ended without removing them.
func removeStale(all string) error {
	info, err := os.Lstat(all)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.IsDir() {
		return errors.Join(err, fmt.Errorf("%s is not a folder that a backup has made: move it away", all))
	}
	list, err := os.ReadDir(all)
	if err != nil {
		return err //nolint:wrapcheck // it names the path
	}
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		folder, err := lock(filepath.Join(all, e.Name()))
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
			continue // in use, or just removed
		}
		if err != nil {
			return err
		}
		names, err := folder.Readdirnames(0)
		for _, name := range names {
			err = errors.Join(err, destroy(folder, name))
		}
		if err = errors.Join(err, folder.Close(), remove(folder.Name())); err != nil {
			return err
		}
	}
	return nil
}

// destroy removes a snapshot. Whatever is not a read-only subvolume stays.
func destroy(folder *os.File, name string) error {
	path := filepath.Join(folder.Name(), name)
	subvol, err := os.Open(path)
	if err != nil {
		return err //nolint:wrapcheck // it names the path
	}
	var flags uint64
	err = ioctl(subvol, subvolGetFlags, unsafe.Pointer(&flags))
	_ = subvol.Close()
	if err != nil || flags&readOnly == 0 {
		return errors.Join(err, fmt.Errorf("%s is not a read-only snapshot: remove it by hand", path))
	}
	var args volArgs
	copy(args.name[:len(args.name)-1], name)
	if err := ioctl(folder, snapDestroy, unsafe.Pointer(&args)); err != nil {
		return fmt.Errorf("remove the snapshot %s: %w", path, err)
	}
	return nil
}

// remove removes the folder of a backup.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err //nolint:wrapcheck // it names the path
	}
	return nil
}

func ioctl(f *os.File, request uint, args unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(request), uintptr(args)); errno != 0 {
		return errno
	}
	return nil
}

// Own implements Maker.
func (b *btrfs) Own() (all []string) {
	for root := range b.made {
		all = append(all, filepath.Join(root, btrfsFolder))
	}
	return all
}

// Close implements Maker.
func (b *btrfs) Close(context.Context) (err error) {
	for root, s := range b.made {
		err = errors.Join(err, destroy(s.folder, s.name), s.folder.Close(), remove(s.folder.Name()))
		delete(b.made, root)
	}
	return err
}
