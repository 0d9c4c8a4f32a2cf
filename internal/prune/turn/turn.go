// Package turn tells prunes of one machine apart from those that were killed: by a file that the one at work locks.
//
// It refuses to know what a prune does, and what happens on other machines.
package turn

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
)

// fileName is the file in the cache folder of a repository that the prune of this machine locks and writes the name of its
// lease into, before it puts that. The lock ends with the process, however that ends. So whoever gets it knows that the
// prunes whose names stand there are over, and need not wait until their leases are.
const fileName = "prune.lock"

// keptNames is how many names are kept there: more prunes than that are not killed while a lease lasts.
const keptNames = 32

// Turn is that file while this prune has it.
type Turn struct {
	file   *os.File // nil: there is no such file, and leases alone tell who is at work
	busy   bool     // a prune of this machine has it
	before []string // names of the leases of the prunes that had it before
}

// Take locks the file. Where there is no folder, or it cannot lock, prunes go on without.
func Take(folder string) Turn {
	if folder == "" {
		return Turn{}
	}
	f, err := os.OpenFile(filepath.Join(folder, fileName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return Turn{}
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() { // nobody would write into a pipe
		_ = f.Close()
		return Turn{}
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return Turn{busy: errors.Is(err, unix.EWOULDBLOCK)}
	}
	const longest = 4 << 10
	names, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		_ = f.Close()
		return Turn{}
	}
	return Turn{file: f, before: strings.Fields(string(names))}
}

// Busy reports whether another prune of this machine is at work.
func (t *Turn) Busy() bool { return t.busy }

// Write adds a name to those that stand in the file.
func (t *Turn) Write(lease string) error {
	if t.file == nil {
		return nil
	}
	kept := t.before[max(0, len(t.before)+1-keptNames):]
	names := strings.Join(append(slices.Clone(kept), lease), "\n") + "\n"
	// Names of one length take the place of others of that length, so that no moment has half of one that counts.
	_, err := t.file.WriteAt([]byte(names), 0)
	if err == nil {
		err = t.file.Truncate(int64(len(names)))
	}
	if err != nil {
		return fmt.Errorf("note which prune is at work: %w", err)
	}
	return nil
}

// End gives the turn back. The file stays: one that is removed may be locked by somebody who has just opened it.
func (t *Turn) End() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

// Over reports whether a lease is of a prune of this machine that was killed. Only of a prune this may be known so early: a
// snapshot that a killed backup has sent may still come to be on a server, but a prune sends none.
func (t *Turn) Over(o *session.Other, host string) bool {
	return slices.Contains(t.before, o.Name.ID) && o.Lease.Task == session.PruneTask && o.Lease.Host == host
}
