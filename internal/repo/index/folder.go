package index

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	runsFolder = "runs"     // in the folder of the cache
	lockName   = "lock"     // in the folder of the cache: locked by the process that changes the folder of runs
	oldCache   = "cache.db" // of earlier versions
	runSuffix  = ".run"
	tempPrefix = "tmp-" // a run that is being written
)

// span names a run by the sequences it covers. Each run that is published has the next sequence; a merge covers those
// of its runs. A run whose span lies inside that of another is dead. So the listing is the state.
type span struct{ first, last uint32 }

func (s span) name() string { return fmt.Sprintf("%08x-%08x%s", s.first, s.last, runSuffix) }

func (s span) covers(other span) bool { return s.first <= other.first && other.last <= s.last }

func parseSpan(name string) (s span, ok bool) {
	n, err := fmt.Sscanf(name, "%08x-%08x.run", &s.first, &s.last)
	return s, err == nil && n == 2 && s.first > 0 && s.first <= s.last && s.name() == name
}

// folder is the folder of a cache that outlives the process.
type folder struct{ dir string }

func (f folder) runs() string { return filepath.Join(f.dir, runsFolder) }

func (f folder) path(s span) string { return filepath.Join(f.runs(), s.name()) }

// list returns the spans of the runs that count, by ascending sequence, and the names of everything else.
func (f folder) list() (live []span, rest []string, err error) {
	entries, err := os.ReadDir(f.runs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var all []span
	for _, e := range entries {
		if s, ok := parseSpan(e.Name()); ok {
			all = append(all, s)
		} else {
			rest = append(rest, e.Name())
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.last, a.last)) })
	for _, s := range all {
		if n := len(live); n > 0 && live[n-1].covers(s) {
			rest = append(rest, s.name())
		} else {
			live = append(live, s)
		}
	}
	return live, rest, nil
}

// prepare makes the folder, and reports whether there is something to sweep.
func (f folder) prepare() (untidy bool, err error) {
	if err := os.MkdirAll(f.runs(), 0o700); err != nil {
		return false, err
	}
	lock, err := os.OpenFile(filepath.Join(f.dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return false, err
	}
	if err := lock.Close(); err != nil {
		return false, err
	}
	_, rest, err := f.list()
	if err != nil {
		return false, err
	}
	_, old := os.Lstat(filepath.Join(f.dir, oldCache))
	return len(rest) > 0 || old == nil, nil
}

// sweep removes what a killed process has left, and the cache of earlier versions. It returns whether there was one.
// The caller has the lock.
func (f folder) sweep(rest []string) (old bool) {
	for _, name := range rest {
		if strings.HasPrefix(name, tempPrefix) || strings.HasSuffix(name, runSuffix) {
			_ = os.RemoveAll(filepath.Join(f.runs(), name))
		}
	}
	path := filepath.Join(f.dir, oldCache)
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	return os.Remove(path) == nil
}

// remove removes runs, the newest first: what is left is a state in which older runs are complete. The caller has the
// lock.
func (f folder) remove(spans []span) error {
	for _, s := range slices.Backward(spans) {
		if err := os.RemoveAll(f.path(s)); err != nil {
			return err
		}
	}
	return nil
}
