package shared

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// open maps the file of a key in dir, and makes both if missing. It tries to take the lock for that as often as
// patience says, a millisecond apart.
func open(dir, key string, patience int) (*mapping, error) {
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("identify the boot: %w", err)
	}
	at, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	f := file{at, filepath.Join(dir, fileName(key)), header(key, boot)}
	fd, err := f.open()
	if errors.Is(err, errReplace) {
		fd, err = f.replace(patience)
	}
	if err != nil {
		return nil, err
	}
	return mapped(fd, &f)
}

// mapped maps an open file, and takes it over.
func mapped(fd int, f *file) (*mapping, error) {
	raw, err := unix.Mmap(fd, 0, fileSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("map %s: %w", f.path, err)
	}
	m := alone()
	m.head = f.head
	m.fd, m.region = fd, (*region)(unsafe.Pointer(&raw[0]))
	runtime.AddCleanup(m, func(raw []byte) {
		_ = unix.Munmap(raw)
		_ = unix.Close(fd)
	}, raw)
	return m, nil
}

// openDir opens the directory, makes it if missing, and rejects one that other users can enter.
func openDir(dir string) (int, error) {
	if err := unix.Mkdir(dir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make %s: %w; make the directory above it, or set XDG_RUNTIME_DIR", dir, err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return -1, fmt.Errorf("%w: %s is not a directory but a link or a file; remove it", ErrUnsafe, dir)
	}
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", dir, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("stat %s: %w", dir, err)
	}
	if err := private(dir, &st, 0o700); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// private rejects a file of another user, or with another mode.
func private(path string, st *unix.Stat_t, mode uint32) error {
	if me := os.Geteuid(); int(st.Uid) != me {
		return fmt.Errorf("%w: %s belongs to user %d, and this is user %d; remove it, or set XDG_RUNTIME_DIR to a directory "+
			"of your own", ErrUnsafe, path, st.Uid, me)
	}
	if got := uint32(st.Mode) & 0o7777; got != mode {
		return fmt.Errorf("%w: %s has mode %04o and needs %04o; run: chmod %04o %s", ErrUnsafe, path, got, mode, mode, path)
	}
	return nil
}

// file is a file to be mapped.
type file struct {
	dir  int
	path string
	head [headSize]byte
}

// open opens the file if it is valid.
func (f *file) open() (int, error) {
	fd, err := unix.Openat(f.dir, filepath.Base(f.path), unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return -1, errReplace
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
		return -1, f.notAFile()
	case err != nil:
		return -1, fmt.Errorf("open %s: %w", f.path, err)
	}
	if err := f.vet(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (f *file) notAFile() error {
	return fmt.Errorf("%w: %s is not a file of its own but a link or a special file; remove it", ErrUnsafe, f.path)
}

// vet checks an open file.
func (f *file) vet(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", f.path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1 {
		return f.notAFile()
	}
	if err := private(f.path, &st, 0o600); err != nil {
		return err
	}
	var head [headSize]byte
	if n, err := unix.Pread(fd, head[:], 0); err != nil || n < headSize || st.Size != int64(fileSize) || head != f.head {
		return errReplace
	}
	return nil
}

// replace renames a new file over an invalid one, unless another process has done so.
func (f *file) replace(patience int) (int, error) {
	if err := lockWhole(f.dir, patience); err != nil {
		return -1, fmt.Errorf("lock %s: %w", filepath.Dir(f.path), err)
	}
	defer unix.Flock(f.dir, unix.LOCK_UN) //nolint:errcheck // closing it unlocks as well
	if fd, err := f.open(); !errors.Is(err, errReplace) {
		return fd, err
	}
	name := filepath.Base(f.path)
	temp := ".new-" + name // used under the lock only: an existing one is left by a dead process
	if err := unix.Unlinkat(f.dir, temp, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return -1, fmt.Errorf("remove an old %s: %w", temp, err)
	}
	fd, err := unix.Openat(f.dir, temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return -1, fmt.Errorf("make %s: %w", f.path, err)
	}
	if err := f.fill(fd, temp, name); err != nil {
		_ = unix.Close(fd)
		_ = unix.Unlinkat(f.dir, temp, 0)
		return -1, fmt.Errorf("make %s: %w", f.path, err)
	}
	return fd, nil
}

// fill writes every byte, so that a full file system fails here and not by a fault, and renames.
func (f *file) fill(fd int, temp, name string) error {
	if err := unix.Fchmod(fd, 0o600); err != nil { // independent of the umask
		return err
	}
	all := make([]byte, fileSize)
	copy(all, f.head[:])
	for at := 0; at < len(all); {
		n, err := unix.Pwrite(fd, all[at:], int64(at))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		at += n
	}
	return unix.Renameat(f.dir, temp, f.dir, name)
}

// stale reports whether the file of m was replaced, removed or truncated, or is invalid.
func (m *mapping) stale(dir, key string) bool {
	if m.fd < 0 {
		return true
	}
	f := file{path: filepath.Join(dir, fileName(key)), head: m.head}
	var ownSlot, there unix.Stat_t
	if unix.Fstat(m.fd, &ownSlot) != nil || unix.Lstat(f.path, &there) != nil {
		return true
	}
	return ownSlot.Ino != there.Ino || ownSlot.Dev != there.Dev || f.vet(m.fd) != nil
}

// lockWhole locks an open file or directory, with a bounded number of attempts.
func lockWhole(fd, patience int) error {
	for range patience {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if patience > 1 {
			time.Sleep(time.Millisecond)
		}
	}
	return ErrBusy
}

// owned reports whether a path is a directory of a user. sudo may pass on the environment of another user, whose files
// root must not create.
func owned(path string, uid int) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == uid
}
