package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// errNotCounted: the kernel keeps no counters for it.
var errNotCounted = errors.New("the kernel keeps no counters for it")

// traffic is what this machine has moved to and from a server.
type traffic struct{ read, written, ops uint64 }

// Bounds of own traffic: read-ahead moves 16 MiB as 20, and requests have headers.
const (
	overhead = 4 << 20
	inflated = 4 // a quarter more
)

// mountDetector detects foreign I/O on a network file system by this machine's counters. It does not see other
// clients.
type mountDetector struct {
	read func() (traffic, error)
	end  func()

	mu      sync.Mutex
	last    traffic
	m       iopolicy.Moment
	quiet   bool           // in this gap the counters did not change between two polls
	own     iopolicy.Bytes // moved by this process
	base    traffic        // with own, where own bytes and counters were last compared
	foreign uint64
	broken  error
}

func newMountDetector(read func() (traffic, error), end func()) (*mountDetector, error) {
	t, err := read()
	if err != nil {
		return nil, err
	}
	return &mountDetector{read: read, end: end, last: t, base: t}, nil
}

// Close ends the watch.
func (j *mountDetector) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken == nil {
		j.broken = errors.New("the watch was ended")
	}
	j.end()
}

// Foreign returns the bytes known to be foreign so far.
func (j *mountDetector) Foreign() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.foreign
}

// NeedsGaps implements iopolicy.GapRequester. A gap leaves time for outstanding answers: only a quiet first half makes
// the second half evidence.
func (j *mountDetector) NeedsGaps() (every, length time.Duration) {
	if mode, _ := j.Mode(); mode == diskwatch.Blind {
		return 0, 0
	}
	length = 4 * interval(device.Remote)
	return 20 * length, length
}

// Mode returns how much is seen, and why not more.
func (j *mountDetector) Mode() (diskwatch.Mode, string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return diskwatch.Blind, "The counters of the mount cannot be read any more: " + j.broken.Error() + "."
	}
	return diskwatch.Gaps,
		"Other clients of the server cannot be seen, and others on this machine only in gaps, or by much."
}

// Look implements iopolicy.Watcher.
func (j *mountDetector) Look(m iopolicy.Moment) (s iopolicy.Sighting) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return s
	}
	now, err := j.read()
	if err != nil {
		j.broken = err
		return s
	}
	if now.read < j.last.read || now.written < j.last.written || now.ops < j.last.ops {
		// The counters were reset, or the share was mounted again.
		j.last, j.m, j.quiet, j.base, j.own = now, m, false, now, m.Moved
		return s
	}
	did := now.read - j.last.read + now.written - j.last.written
	stood := did == 0 && now.ops == j.last.ops
	gap := m.Inflight == 0 && j.m.Inflight == 0 && m.Begun == j.m.Begun && m.At.Sub(j.m.At) >= time.Millisecond
	switch {
	case !gap:
		j.quiet = false
	case stood: // read-ahead and late closing have finished
		j.quiet = true
	case j.quiet && did > 0: // requests without data may be own: a late close, an echo
		j.foreign += did
		s.Newest[0] = m.At
	}
	if j.exceeds(now, m.Moved) {
		s.Newest[0] = m.At
	}
	j.last, j.m = now, m
	return s
}

// exceeds reports whether much more was moved than by this process.
func (j *mountDetector) exceeds(now traffic, own iopolicy.Bytes) bool {
	mine := own.Read - j.own.Read + own.Written - j.own.Written
	all := now.read - j.base.read + now.written - j.base.written
	bound := mine + mine/inflated + overhead
	if all <= bound {
		if mine > 16*overhead { // start again, or the reserve grows
			j.own, j.base = own, now
		}
		return false
	}
	j.foreign += all - bound
	j.own, j.base = own, now
	return true
}

// parseCIFS finds the counters of a share in /proc/fs/cifs/Stats. A share has one set for each session, however often
// it is mounted.
func parseCIFS(text []byte, share string) (t traffic, err error) {
	want := []byte(strings.ToLower(strings.ReplaceAll(share, "/", `\`)))
	in, found := false, false
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if _, rest := diskwatch.Number(line); rest != nil && bytes.HasPrefix(rest, []byte(`) \\`)) { // "1) \\server\share"
			name, _, _ := bytes.Cut(rest[2:], []byte("\t")) // a state may follow
			in = bytes.Equal(bytes.ToLower(bytes.TrimSpace(name)), want)
			found = found || in
			continue
		}
		if !in {
			continue
		}
		if tail, ok := bytes.CutPrefix(line, []byte("SMBs: ")); ok {
			v, _ := diskwatch.Number(tail)
			t.ops += v
		}
		if tail, ok := bytes.CutPrefix(line, []byte("Bytes read: ")); ok {
			v, rest := diskwatch.Number(tail)
			t.read += v
			_, rest, _ = bytes.Cut(rest, []byte("Bytes written: "))
			v, _ = diskwatch.Number(rest)
			t.written += v
		}
	}
	if !found {
		return t, fmt.Errorf("%s: %w", share, errNotCounted)
	}
	return t, nil
}

// parseNFS finds the counters of a mount in /proc/self/mountstats: the fifth and sixth number of the line "bytes:" are
// the bytes from and to the server. Mounts of one export share them.
func parseNFS(text []byte, source string) (traffic, error) {
	want := []byte("device " + source + " mounted on ")
	in := false
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("device ")) {
			in = bytes.HasPrefix(line, want) && bytes.Contains(line, []byte(" with fstype nfs"))
			continue
		}
		tail, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("bytes:"))
		if !in || !ok {
			continue
		}
		f := bytes.Fields(tail)
		if len(f) < 6 {
			break
		}
		var t traffic
		t.read, _ = diskwatch.Number(f[4])
		t.written, _ = diskwatch.Number(f[5])
		return t, nil
	}
	return traffic{}, fmt.Errorf("%s: %w", source, errNotCounted)
}
