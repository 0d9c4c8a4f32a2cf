package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// stateVersion changes when an old program would misunderstand the state file.
const stateVersion = 1

// The files in the state folder.
const (
	stateFile   = "state.json"
	damagedFile = "state.json.damaged"
)

// forgotten is how long a job that left the option file is remembered.
const forgotten = 400 * 24 * time.Hour

// state is what the service remembers.
type state struct {
	Version int                `json:"version"`
	Jobs    map[string]*memory `json:"jobs"`
	Problem string             `json:"problem,omitempty"` // of the option file, as it was reported
}

// memory is what the service remembers of a job.
type memory struct {
	Since       time.Time  `json:"since"` // the service saw the job first
	Began       time.Time  `json:"began"` // the last run began, or a time was skipped; the schedule counts from here
	Retry       time.Time  `json:"retry,omitzero"`
	Away        bool       `json:"away,omitempty"`       // the last run did not reach the target
	Failures    int        `json:"failures,omitempty"`   // runs that failed since the last that did not
	Incomplete  int        `json:"incomplete,omitempty"` // runs without some objects since the last that was done
	Cause       string     `json:"cause,omitempty"`      // cause of the last alert; "": none since the last that was done
	Alert       string     `json:"alert,omitempty"`      // as in record.Event, of the last run
	Unsent      bool       `json:"unsent,omitempty"`     // the end of the last run was not sent yet
	Running     *event.Run `json:"running,omitempty"`    // a run that has not ended
	LastRun     *event.Run `json:"last_run,omitempty"`
	LastBackup  time.Time  `json:"last_backup,omitzero"` // end of the last complete backup
	LastProven  time.Time  `json:"last_proven,omitzero"`
	Pruned      time.Time  `json:"pruned,omitzero"`
	Checked     time.Time  `json:"checked,omitzero"`
	Damage      string     `json:"damage,omitempty"`   // what is known of the repository; "": nothing, or it is healed
	Rechecked   time.Time  `json:"rechecked,omitzero"` // begin of the last check or drill
	Drilled     time.Time  `json:"drilled,omitzero"`
	Unused      bool       `json:"unused,omitempty"` // a prune would find data to remove
	Paused      bool       `json:"paused,omitempty"`
	PausedUntil time.Time  `json:"paused_until,omitzero"`   // zero: until it is resumed
	Alerted     time.Time  `json:"alerted,omitzero"`        // silence was reported
	Invalid     string     `json:"invalid,omitempty"`       // mistake of its stanza, as it was reported
	Repository  string     `json:"repository,omitempty"`    // location of the results; "": of an older program
	RepoID      string     `json:"repository_id,omitempty"` // of the last backup; "": not known
	Sources     []string   `json:"sources,omitempty"`       // that the results are about
}

// lock makes the state folder and takes its lock, which ends with the process at the latest.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, control.LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the state folder: %w", err)
	}
	for range 20 { // 'tidemark status' holds it for a moment
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err == nil {
		_ = f.Truncate(0) // the number is only for people
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		return func() { _ = f.Close() }, nil
	}
	holder := make([]byte, 20)
	n, _ := f.ReadAt(holder, 0)
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("another service of this user is running; 'tidemark status' shows it (state folder %s, "+
			"process %s)", dir, strings.TrimSpace(string(holder[:n])))
	}
	return nil, fmt.Errorf("lock the state folder %s: %w", dir, err)
}

// readState reads the state file. A file that cannot be used is kept under another name; problem says why.
func readState(dir string) (s state, problem error) {
	s, err := peekState(dir)
	if err != nil {
		path := filepath.Join(dir, stateFile)
		err = fmt.Errorf("%w; it is kept as %s, and schedules count from now", err, damagedFile)
		return s, errors.Join(err, os.Rename(path, filepath.Join(dir, damagedFile)))
	}
	return s, nil
}

// peekState reads the state file; without one, or with an error, the state is empty.
func peekState(dir string) (s state, err error) {
	empty := state{Version: stateVersion, Jobs: map[string]*memory{}}
	path := filepath.Join(dir, stateFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err == nil && s.Version != stateVersion {
		err = fmt.Errorf("it has version %d, this program knows version %d", s.Version, stateVersion)
	}
	if err != nil {
		return empty, fmt.Errorf("%s cannot be used: %w", path, err)
	}
	if s.Jobs == nil {
		s.Jobs = empty.Jobs
	}
	for name, m := range s.Jobs {
		if m == nil {
			delete(s.Jobs, name)
		}
	}
	return s, nil
}

// write replaces the state file.
func (s *state) write(dir string) error {
	content, err := json.Marshal(s)
	if err == nil {
		err = optionfile.Replace(filepath.Join(dir, stateFile), content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	return nil
}

// trim removes unfinished files of a service that was killed.
func trim(dir string) {
	for _, name := range []string{optionfile.Unfinished, stateFile + ".[0-9]*"} { // the second: of an older program
		left, _ := filepath.Glob(filepath.Join(dir, name))
		for _, path := range left {
			_ = os.Remove(path)
		}
	}
}
