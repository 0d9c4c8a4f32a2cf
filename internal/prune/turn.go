package prune

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/repo/session"
)

// turnName is the file in the cache folder of a repository that the prune of this machine locks and writes the name of its
// lease into. The lock ends with the process, however that ends. So whoever gets it knows that the prune whose name stands
// there is over, and need not wait until its lease is.
const turnName = "prune.lock"

// turn is that file while this prune has it.
type turn struct {
	file   *os.File // nil: there is no such file, and leases alone tell who is at work
	busy   bool     // a prune of this machine has it
	before string   // name of the lease of the prune that was killed while it had it
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
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return turn{busy: errors.Is(err, unix.EWOULDBLOCK)}
	}
	const longest = 64 // a name is shorter
	name, err := io.ReadAll(io.LimitReader(f, longest))
	if err != nil {
		_ = f.Close()
		return turn{}
	}
	return turn{file: f, before: string(name)}
}

// write says whose turn it is.
func (t *turn) write(lease string) error {
	if t.file == nil {
		return nil
	}
	err := t.file.Truncate(0)
	if err == nil {
		_, err = t.file.WriteAt([]byte(lease), 0)
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
	return t.before != "" && o.Name.ID == t.before && o.Lease.Task == session.PruneTask && o.Lease.Host == host
}
