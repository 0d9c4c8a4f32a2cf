package setup

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// Volume is what is known about the place of a path, or of its nearest existing parent.
type Volume struct {
	Device      device.Info
	Free, Total uint64 // bytes that this user can write, and of the file system
	Writable    bool   // for this user
	Missing     bool   // the path itself does not exist
	Folder      bool   // the path, or its parent, is a directory
	Target      string // where the path leads, if it is a symbolic link
}

// System is the view of the machine.
type System interface {
	// Mounts lists the mounted file systems.
	Mounts() ([]localfs.Mount, error)
	// Look examines a path. It fails for a file system that does not answer.
	Look(path string) (Volume, error)
	// Label returns the label of a block device, "" without one.
	Label(source string) string
	// Names lists the entries of a folder.
	Names(path string) ([]string, error)
}

// Host is the view of this machine.
type Host struct{}

// Mounts implements System.
func (h *Host) Mounts() ([]localfs.Mount, error) {
	return localfs.Mounts()
}

// patience is how long a file system may take to answer: a mounted share whose server is down blocks for ever.
const patience = 3 * time.Second

// Look implements System.
func (h *Host) Look(path string) (Volume, error) {
	type answer struct {
		v   Volume
		err error
	}
	answers := make(chan answer, 1)
	go func() { // stays in the kernel if the file system does not answer
		v, err := h.look(path)
		answers <- answer{v, err}
	}()
	select {
	case got := <-answers:
		return got.v, got.err
	case <-time.After(patience):
		return Volume{}, errors.New("the file system does not answer; is its server running?")
	}
}

func (h *Host) look(path string) (v Volume, err error) {
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&os.ModeSymlink != 0 {
		v.Target, _ = filepath.EvalSymlinks(path) // without it, Stat fails too
	}
	info, err = os.Stat(path)
	for err != nil && errors.Is(err, os.ErrNotExist) && path != filepath.Dir(path) {
		v.Missing, path = true, filepath.Dir(path)
		info, err = os.Stat(path)
	}
	if err != nil {
		return v, err
	}
	v.Folder = info.IsDir()
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return v, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	v.Free, v.Total = st.Bavail*uint64(st.Bsize), st.Blocks*uint64(st.Bsize)
	v.Writable = unix.Access(path, unix.W_OK|unix.X_OK) == nil
	v.Device, err = device.NewFinder().Of(path)
	return v, err
}

// Names implements System.
func (h *Host) Names(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}
