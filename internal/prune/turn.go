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
)

// turnName is the file in the cache folder of a repository that the prune of this machine locks and writes the name of its
// lease into. The lock ends with the process, however that ends. So whoever gets it knows that the prunes whose names stand
// there are over, and need not wait until their leases are.
const turnName = "prune.lock"

// turnNames is how many names are kept there: more prunes than that are not killed while a lease lasts.
const turnNames = 32

// turn is that file while this prune has it.
type turn struct {
	file   *os.File // nil: there is no such file, and leases alone tell who is at work
	busy   bool     // a prune of this machine has it
	before []string // names of the leases of the prunes that had it before
}

// takeTurn locks the file. Where there is no folder, or it cannot lock, prunes go on without.
func takeTurn(folder string) turn {
	if folder == "" {
		return turn{}
	}
	f, err := os.OpenFile(filepath.Join(folder, turnName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return turn{}
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() { // nobody would write into a pipe
		_ = f.Close()
		return turn{}
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return turn{busy: errors.Is(err, unix.EWOULDBLOCK)}
	}
	const longest = 4 << 10
	names, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		_ = f.Close()
		return turn{}
	}
	return turn{file: f, before: strings.Fields(string(names))}
}

// write adds a name to those that stand in the file.
func (t *turn) write(lease string) error {
	if t.file == nil {
		return nil
	}
	kept := t.before[max(0, len(t.before)+1-turnNames):]
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

// end gives the turn back. The file stays: one that is removed may be locked by somebody who has just opened it.
func (t *turn) end() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

// over reports whether a lease is of a prune of this machine that was killed. Only of a prune this may be known so early: a
// snapshot that a killed backup has sent may still come to be on a server, but a prune sends none.
func (t *turn) over(o *session.Other, host string) bool {
	return slices.Contains(t.before, o.Name.ID) && o.Lease.Task == session.PruneTask && o.Lease.Host == host
}
