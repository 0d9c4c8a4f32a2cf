package sourcesnap

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// btrfsFolder holds the snapshots, in the root of the subvolume that they show. In it, each backup has a folder, which
// it locks until it ends. It stays, so that the times of the root do not change with each backup.
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
		return "", err
	}
	source = filepath.Join(above, filepath.Base(source))
	root, err := subvolumeOf(source)
	if err != nil {
		return "", err
	}
	if os.Geteuid() != 0 {
		return "", errors.New("only root can make a snapshot: run the backup as root, or in the service of the system")
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
		return "", err
	}
	// By the descriptor, since who owns the subvolume can replace the folder that holds this one.
	place = filepath.Join("/proc/self/fd", strconv.Itoa(int(s.folder.Fd())), s.name, rest)
	return place, sameInode(source, place)
}

// sameInode refuses a place that shows another object than the source. A snapshot keeps inode numbers; but where a
// folder of the same subvolume is mounted over another one, the path of the source leads to the latter.
func sameInode(source, place string) error {
	var st, copied unix.Stat_t
	if err := unix.Lstat(source, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: source, Err: err}
	}
	if err := unix.Lstat(place, &copied); err != nil {
		return fmt.Errorf("%w: a folder is mounted over a part of its path: %w", ErrFileSystem, err)
	}
	if st.Ino != copied.Ino {
		return fmt.Errorf("%w: a folder is mounted over a part of its path", ErrFileSystem)
	}
	return nil
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
func snapshot(root string) (*subvolume, error) {
	subvol, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = subvol.Close() }()
	all, err := makeFolder(subvol, btrfsFolder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = all.Close() }()
	if err := removeStale(all); err != nil {
		return nil, fmt.Errorf("remove the snapshot of a backup that was killed: %w", err)
	}
	name := filepath.Base(root)
	if name == "/" {
		name = "root"
	}
	const attempts = 5 // another backup that starts at this moment may lock or remove a folder that is not locked yet
	for range attempts {
		s, err2 := snapshotIn(all, subvol, name)
		if err = err2; !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return s, err
		}
	}
	return nil, err
}

// makeFolder opens a folder in another one, which it makes if there is none. Folders that others may change are
// refused: the owner of a subvolume could lead root to other files.
func makeFolder(in *os.File, name string) (*os.File, error) {
	path := filepath.Join(in.Name(), name)
	if err := unix.Mkdirat(int(in.Fd()), name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	f, err := openFolder(in, name)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0) {
		err = errors.New("it is not a folder that a backup has made: move it away")
	}
	if err != nil {
		_ = f.Close()
		return nil, &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return f, nil
}

// openFolder opens a folder in another one, and follows no link.
func openFolder(in *os.File, name string) (*os.File, error) {
	path := filepath.Join(in.Name(), name)
	fd, err := unix.Openat(int(in.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// snapshotIn makes a snapshot in a new folder in all.
func snapshotIn(all, of *os.File, name string) (*subvolume, error) {
	own := rand.Text()
	folder, err := makeFolder(all, own)
	if err != nil {
		return nil, err
	}
	if err := lock(folder); err != nil {
		return nil, errors.Join(err, folder.Close(), remove(all, own))
	}
	args := volArgs2{fd: int64(of.Fd()), flags: readOnly}
	copy(args.name[:len(args.name)-1], name)
	if err := ioctl(folder, snapCreate, unsafe.Pointer(&args)); err != nil {
		return nil, errors.Join(fmt.Errorf("make a snapshot in %s: %w", folder.Name(), err), folder.Close(), remove(all, own))
	}
	return &subvolume{folder, name}, nil
}

// lock locks a folder as long as this process lives, or until it is closed.
func lock(folder *os.File) error {
	if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return &fs.PathError{Op: "lock", Path: folder.Name(), Err: err}
	}
	return nil
}

// removeStale removes the snapshots of backups that have ended without removing them.
func removeStale(all *os.File) error {
	list, err := all.ReadDir(0)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		if err := removeOne(all, e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeOne removes the folder of a backup that has ended, with its snapshots.
func removeOne(all *os.File, name string) (err error) {
	folder, err := openFolder(all, name)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	if err := lock(folder); errors.Is(err, unix.EWOULDBLOCK) {
		return nil // in use
	} else if err != nil {
		return err
	}
	names, err := folder.Readdirnames(0)
	for _, one := range names {
		err = errors.Join(err, destroy(folder, one))
	}
	return errors.Join(err, remove(all, name))
}

// destroy removes a snapshot. Whatever is not a read-only subvolume stays.
func destroy(folder *os.File, name string) error {
	subvol, err := openFolder(folder, name)
	if err != nil {
		return err
	}
	var flags uint64
	err = ioctl(subvol, subvolGetFlags, unsafe.Pointer(&flags))
	_ = subvol.Close()
	if err != nil || flags&readOnly == 0 {
		return errors.Join(err, fmt.Errorf("%s is not a read-only snapshot: remove it by hand", subvol.Name()))
	}
	var args volArgs
	copy(args.name[:len(args.name)-1], name)
	if err := ioctl(folder, snapDestroy, unsafe.Pointer(&args)); err != nil {
		return fmt.Errorf("remove the snapshot %s: %w", subvol.Name(), err)
	}
	return nil
}

// remove removes the empty folder of a backup.
func remove(all *os.File, name string) error {
	err := unix.Unlinkat(int(all.Fd()), name, unix.AT_REMOVEDIR)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: filepath.Join(all.Name(), name), Err: err}
	}
	return nil
}

func ioctl(f *os.File, request uint, args unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(request), uintptr(args)); errno != 0 {
		return errno
	}
	return nil
}

// Close implements Maker.
func (b *btrfs) Close(context.Context) (err error) {
	for root, s := range b.made {
		err = errors.Join(err, s.close())
		delete(b.made, root)
	}
	return err
}

// close removes a snapshot and its folder.
func (s *subvolume) close() error {
	defer func() { _ = s.folder.Close() }()
	if err := destroy(s.folder, s.name); err != nil {
		return err
	}
	all, err := openFolder(s.folder, "..")
	if err != nil {
		return err
	}
	defer func() { _ = all.Close() }()
	return remove(all, filepath.Base(s.folder.Name()))
}
