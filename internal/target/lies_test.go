package target

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// honest is a folder in memory that does all as it should. Liars are made of it.
type honest struct {
	mu    sync.Mutex
	files map[string]memFile
	ino   uint64
	clock func() time.Time
	took  time.Duration // of a flush
	none  int           // reads of what is not there
}

type memFile struct {
	data []byte
	stat localfs.Stat
}

func (h *honest) Write(name string, data []byte, _ bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.files[name]; there {
		return unix.EEXIST
	}
	h.ino++
	st := localfs.Stat{Ino: h.ino}
	now := h.clock()
	st.Mtime.Sec, st.Mtime.Nsec = now.Unix(), uint32(now.Nanosecond())
	h.files[name] = memFile{data, st}
	return nil
}

func (h *honest) Read(name string) ([]byte, localfs.Stat, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, there := h.files[name]
	if !there {
		h.none++
		return nil, f.stat, localfs.ErrVanished
	}
	return f.data, f.stat, nil
}

func (h *honest) misses() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.none
}

func (h *honest) Rename(old, new string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files[new] = h.files[old]
	delete(h.files, old)
	return nil
}

func (h *honest) Names() ([]string, error) {
	var all []string
	for name := range h.files {
		all = append(all, name)
	}
	return all, nil
}

func (h *honest) Flush(string, int) (dirty, clean time.Duration, err error) { return h.took, 0, nil }

func (h *honest) FlushNames() error { return nil }

// liar is an honest folder but for what is set.
type liar struct {
	*honest
	write  func(name string) error
	read   func(data []byte) []byte
	rename func(old, new string) error
	list   func(name string) string
	name   func(name string) string
	sync   error
}

func (l *liar) Write(name string, data []byte, flush bool) error {
	if l.write != nil {
		if err := l.write(name); err != nil {
			return err
		}
	}
	return l.honest.Write(l.called(name), data, flush)
}

func (l *liar) called(name string) string {
	if l.name != nil {
		return l.name(name)
	}
	return name
}

func (l *liar) Read(name string) ([]byte, localfs.Stat, error) {
	data, st, err := l.honest.Read(l.called(name))
	if l.read != nil && err == nil {
		data = l.read(data)
	}
	return data, st, err
}

func (l *liar) Rename(old, new string) error {
	if l.rename != nil {
		return l.rename(old, new)
	}
	return l.honest.Rename(old, new)
}

func (l *liar) Names() ([]string, error) {
	all, err := l.honest.Names()
	for i, name := range all {
		if l.list != nil {
			all[i] = l.list(name)
		}
	}
	return all, err
}

func (l *liar) FlushNames() error { return l.sync }

// judge probes a folder in memory that is said to be a disk.
func judge(t *testing.T, lie func(*liar)) *Report {
	t.Helper()
	l := &liar{honest: &honest{files: map[string]memFile{}, clock: time.Now, took: time.Millisecond}}
	lie(l)
	r := &Report{}
	p := &prober{ctx: t.Context(), folder: l, lock: func() error { return nil }, report: r, now: time.Now,
		device: device.Info{Medium: device.SSD}, stable: true}
	err := p.all()
	var refused *refusal
	if errors.As(err, &refused) {
		p.refused(refused.err)
		err = nil
	}
	require.NoError(t, err)
	return r
}

func TestLies(t *testing.T) {
	for what, c := range map[string]struct {
		lie      func(*liar)
		sentence string
		evidence string
	}{
		"none": {func(*liar) {}, "safe", ""},
		"writes are damaged": {func(l *liar) {
			l.read = func(data []byte) []byte { return append([]byte{^data[0]}, data[1:]...) }
		}, "unfit because of write, rename", "came back with other content"},
		"renames do not replace": {func(l *liar) {
			l.rename = func(old, new string) error { return &unixError{unix.EEXIST} }
		}, "unfit because of rename, write", "does not replace what is there"},
		"renames do nothing": {func(l *liar) { l.rename = func(string, string) error { return nil } },
			"unfit because of rename, write", "the old file is still there"},
		"renames copy": {func(l *liar) {
			l.rename = func(old, new string) error { l.files[new] = l.files[old]; return nil }
		}, "", ""},
		"renames remove first": {func(l *liar) {
			l.rename = func(old, new string) error {
				l.mu.Lock()
				delete(l.files, new)
				l.mu.Unlock()
				for l.misses() == 0 { // a reader looks at the wrong moment
					runtime.Gosched()
				}
				return l.honest.Rename(old, new)
			}
		}, "degraded because of rename", "there was nothing under it"},
		"flushing does nothing":     {func(l *liar) { l.took = time.Microsecond }, "degraded because of flush", "No device is that fast"},
		"folders cannot be flushed": {func(l *liar) { l.sync = unix.EINVAL }, "degraded because of folder flush", "invalid argument"},
		"long names are refused": {func(l *liar) {
			l.write = func(name string) error {
				if len(name) > 60 {
					return unix.ENAMETOOLONG
				}
				return nil
			}
		}, "unfit because of names", "file name too long"},
		"names are listed in capitals": {func(l *liar) { l.list = strings.ToUpper }, "unfit because of names", "under another name"},
		"case is folded":               {func(l *liar) { l.name = strings.ToLower }, "safe", ""},
		"the clock is ahead": {func(l *liar) { l.clock = func() time.Time { return time.Now().Add(time.Hour) } },
			"degraded because of clock", "1h0m0s ahead of"},
		"the clock is behind": {func(l *liar) { l.clock = func() time.Time { return time.Now().Add(-time.Hour) } },
			"degraded because of clock", "1h0m0s behind"},
		"the clock is a minute behind": {func(l *liar) { l.clock = func() time.Time { return time.Now().Add(-time.Minute) } }, "safe", ""},
		"stamps are cut to 2 seconds": {func(l *liar) { l.clock = func() time.Time { return time.Now().Truncate(2 * time.Second) } },
			"safe", ""},
		"it fills up": {func(l *liar) {
			l.write = func(name string) error {
				if name == "version-30" {
					return unix.EDQUOT
				}
				return nil
			}
		}, "unfit because of write", "quota"},
	} {
		t.Run(what, func(t *testing.T) {
			r := judge(t, c.lie)
			if c.sentence == "" {
				require.Equal(t, Unfit, r.Because()[0].Result)
				return
			}
			if strings.Contains(c.sentence, ", ") && r.Verdict() == IsUnfit {
				first, _, _ := strings.Cut(c.sentence, ",")
				require.True(t, strings.HasPrefix(r.Sentence(), first), r.Sentence())
			} else {
				require.Equal(t, c.sentence, r.Sentence())
			}
			if c.evidence != "" {
				require.Contains(t, r.Because()[0].Evidence, c.evidence)
				require.NotEmpty(t, r.Because()[0].Remedy)
			}
		})
	}
}

type unixError struct{ errno unix.Errno }

func (e *unixError) Error() string { return e.errno.Error() }
func (e *unixError) Unwrap() error { return e.errno }

func TestTornReads(t *testing.T) {
	var torn atomic.Bool
	r := judge(t, func(l *liar) {
		l.read = func(data []byte) []byte {
			if len(data) == len(version(0)) && !torn.Swap(true) {
				return data[:len(data)-8]
			}
			return data
		}
		l.rename = func(old, new string) error {
			for !torn.Load() { // the first read is that of a reader
				runtime.Gosched()
			}
			return l.honest.Rename(old, new)
		}
	})
	require.Equal(t, "unfit because of rename", r.Sentence())
	require.Contains(t, r.Because()[0].Evidence, "belonged to no single file")
}

func TestEndOfTheRunEndsTheProbes(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	p := &prober{ctx: ctx, report: &Report{}}
	require.ErrorIs(t, p.all(), cause)
	require.Empty(t, p.report.Probes)
}

func TestGrain(t *testing.T) {
	for want, all := range map[string][]uint32{
		"1ns": {120, 123_456_789, 0}, "100ns": {500_000_000, 123_456_700, 0, 100}, "10ms": {120_000_000, 500_000_000, 0},
		"a second or more": {0, 0},
	} {
		var fraction uint32
		for _, nsec := range all {
			fraction = finest(fraction, nsec)
		}
		require.Equal(t, want, grain(fraction))
	}
}

func TestSpaceHeedsTheQuota(t *testing.T) {
	s := space{free: 10 << 30, size: 20 << 30}
	require.EqualValues(t, 10<<30, s.left())
	s.quota = &quota{used: 1 << 30}
	require.EqualValues(t, 10<<30, s.left(), "no limit")
	s.quota.limit = 3 << 30
	require.EqualValues(t, 2<<30, s.left())
	require.Contains(t, s.String(), "the quota of this user is 3.00 GiB, and 1.00 GiB of it are used")
	s.quota.limit = 1 << 30
	require.Zero(t, s.left())
	for limit, want := range map[uint64]Result{1 << 30: Unfit, 1<<30 + 1: Degraded, 9 << 30: Good} {
		p := &prober{report: &Report{}}
		s.quota.limit = limit
		p.space(s)
		require.Equal(t, want, p.report.Probes[0].Result)
	}
}

func TestLinesAreThoseOfBackupd(t *testing.T) {
	s := Speed{Path: "/Volumes/X", Large: Burst{1, largeSize, 174 * time.Millisecond},
		Small: Burst{smallFiles, smallSize, 88 * time.Millisecond}}
	require.Equal(t, []string{
		`Checking destination IO performance at "/Volumes/X"`,
		`Wrote 1 50 MB file at 287.36 MB/s to "/Volumes/X" in 0.174 seconds`,
		`Concurrently wrote 500 4 KB files at 23.27 MB/s to "/Volumes/X" in 0.088 seconds`,
	}, s.Lines())
	require.Zero(t, Burst{Files: 1, Size: 1}.Rate())
}
