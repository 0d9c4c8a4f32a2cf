package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// errKilled is the message of the after-command that a run owed which was killed.
var errKilled = errors.New("the run was killed")

// lockWait is how long a run waits for the supervisor of a killed one to end its command.
const lockWait = termGrace + 5*time.Second

// claim takes the file at path, which is locked while a run is between its before-command and its after-command, and
// not empty. owed: it is not empty, so a run was killed that owes its after-command. debt is nil if another run of the
// job has the file, or there is none; the methods of a nil file do nothing.
func claim(ctx context.Context, path string) (debt *os.File, owed bool, err error) {
	if path == "" {
		return nil, false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, false, fmt.Errorf("make the folder of commands: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("open the file of commands: %w", err)
	}
	for begun := time.Now(); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Since(begun) > lockWait || ctx.Err() != nil {
			return nil, false, f.Close()
		}
		time.Sleep(groupPoll)
	}
	was, err := io.ReadAll(io.LimitReader(f, 1))
	if err == nil && len(was) == 0 {
		_, err = f.WriteString("a run has begun, and its after-command has not run\n")
		err = errors.Join(err, pages.Sync(f, false))
	}
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("use the file of commands: %w", err), f.Close())
	}
	return f, len(was) > 0, nil
}

// Settle runs the after-command of a run that was killed, if there is one and no run of the job is under way. ran
// reports whether there was one.
func Settle(ctx context.Context, c Commands) (ran bool, err error) {
	if info, err := os.Stat(c.Owed); c.After.Line == "" || err != nil || info.Size() == 0 {
		return false, nil
	}
	if err := c.After.Check(); err != nil {
		return false, err
	}
	d, owed, err := claim(ctx, c.Owed)
	defer func() { _ = d.Close() }() // nothing was written since
	if err != nil {
		return false, err
	}
	if owed {
		c.After.held = d
		err = c.run(ctx, After, c.After, Outcome{Word: record.Stopped, Err: errKilled})
	}
	settle(d)
	return owed, err
}

// settle records that the after-command has run.
func settle(debt *os.File) { _ = debt.Truncate(0) } // if it stays, the next run repeats the command
