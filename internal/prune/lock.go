package prune

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
)

// lockName is the file in the cache folder of a repository that distinguishes a running prune of this machine from one
// that was killed. A prune locks it and writes the name of its lease into it, before it puts the lease. The kernel
// releases the lock when the process ends. A prune that gets the lock therefore knows that the prunes named in the file
// have ended, and does not wait until their leases expire.
const lockName = "prune.lock"

// keptNames is how many names the file keeps. No more prunes than that are killed during the life of one lease.
const keptNames = 32

// lock is the lock file of this prune.
type lock struct {
	file   *os.File // nil: there is no lock file, and only leases show which prunes run
	busy   bool     // another prune of this machine holds the lock
	before []string // names of the leases of the prunes that held it before
}

// takeLock locks the file. Without a folder, or in one that cannot lock, a prune runs without the file.
func takeLock(folder string) lock {
	if folder == "" {
		return lock{}
	}
	f, err := os.OpenFile(filepath.Join(folder, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return lock{}
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() { // a write into a pipe would block
		_ = f.Close()
		return lock{}
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return lock{busy: errors.Is(err, unix.EWOULDBLOCK)}
	}
	const longest = 4 << 10
	names, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		_ = f.Close()
		return lock{}
	}
	return lock{file: f, before: strings.Fields(string(names))}
}

// write adds a name to those in the file.
func (t *lock) write(lease string) error {
	if t.file == nil {
		return nil
	}
	kept := t.before[max(0, len(t.before)+1-keptNames):]
	names := strings.Join(append(slices.Clone(kept), lease), "\n") + "\n"
	// All names have the same length, so a write that is cut off leaves no half of a name that counts.
	_, err := t.file.WriteAt([]byte(names), 0)
	if err == nil {
		err = t.file.Truncate(int64(len(names)))
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		_ = t.file.Truncate(0) // without names the lease alone counts
		return nil
	}
	if err != nil {
		return fmt.Errorf("note which prune runs: %w", err)
	}
	return nil
}

// release unlocks the file. The file stays: another prune may have opened it already.
func (t *lock) release() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

// ended reports whether a lease belongs to a prune of this machine that was killed. This holds for prunes only: a
// server may still store the snapshot that a killed backup has sent, but a prune sends no snapshot.
func (t *lock) ended(o *session.Other, host string) bool {
	return slices.Contains(t.before, lease.WriterOf(o.Name.ID)) && o.Lease.Task == session.PruneTask &&
		o.Lease.Host == host
}
