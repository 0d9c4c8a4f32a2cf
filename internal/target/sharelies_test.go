package target

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// slow is a liar whose flushes take a time of their own when there is nothing to flush.
type slow struct {
	*liar
	idle  time.Duration
	blind atomic.Bool // the next read finds nothing
}

func (s *slow) Read(name string) ([]byte, localfs.Stat, error) {
	if s.blind.Swap(false) {
		return nil, localfs.Stat{}, localfs.ErrVanished
	}
	return s.liar.Read(name)
}

func (s *slow) Flush(string, int) (dirty, clean time.Duration, err error) { return s.took, s.idle, nil }

// judgeShare probes a folder in memory that is said to be one of a share.
func judgeShare(t *testing.T, held uint64, lie func(*slow)) (*Report, error) {
	t.Helper()
	s := &slow{liar: &liar{honest: &honest{files: map[string]memFile{}, clock: time.Now, took: 9 * time.Millisecond}},
		idle: time.Millisecond}
	lie(s)
	p := &prober{ctx: t.Context(), folder: s, held: func() uint64 { return held }, report: &Report{}, now: time.Now,
		device: device.Info{Medium: device.Remote, Server: "nas"}, share: true}
	err := p.judge(p.each(p.write, p.rename, p.flush, p.shareNames, p.names, p.foldsCase, p.otherNames, p.times, p.fileIDs))
	return p.report, err
}

func TestLiesOfServers(t *testing.T) {
	for what, c := range map[string]struct {
		lie      func(*slow)
		sentence string
		name     string // of the probe that says so
		result   Result
		evidence string
	}{
		"none":                   {func(*slow) {}, "safe", "flush", Good, "the server does something for it"},
		"flushing does nothing":  {func(s *slow) { s.idle = s.took - 100*time.Microsecond }, "safe", "flush", Told, "may not flush at all"},
		"flushing nothing takes": {func(s *slow) { s.idle = 2 * s.took }, "safe", "flush", Told, "may not flush at all"},
		"folders cannot be flushed": {
			func(s *slow) { s.sync = errors.New("not implemented") }, "safe", "folder flush", Told, "flushes files and not folders",
		},
		"writes are damaged": {func(s *slow) {
			s.read = func(data []byte) []byte { return append([]byte{^data[0]}, data[1:]...) }
		}, "unfit because of write, rename", "write", Unfit, "came back with other content"},
		"names are listed in capitals": {func(s *slow) { s.list = strings.ToUpper }, "safe", "names", Good, "listed in capitals"},
		"names are mangled": {
			func(s *slow) { s.list = func(name string) string { return name[:1] + "~1" } }, "unfit because of names", "names", Unfit,
			"under another name",
		},
		"renames do not replace": {func(s *slow) {
			s.rename = func(old, new string) error { return errors.New("it is there already") }
		}, "", "rename", Unfit, "does not replace what is there"},
		"files lose their numbers": {func(s *slow) {
			s.rename = func(old, new string) error {
				err := s.honest.Rename(old, new)
				s.mu.Lock()
				defer s.mu.Unlock()
				f := s.files[new]
				f.stat.Ino += 1000
				s.files[new] = f
				return err
			}
		}, "safe", "file IDs", Told, "another number when it is renamed"},
		"the share fills up": {func(s *slow) {
			s.write = func(name string) error {
				if name == "version-30" {
					return fmt.Errorf("%w: full", store.ErrNoSpace)
				}
				return nil
			}
		}, "unfit because of write", "write", Unfit, "no space left on the target"},
	} {
		t.Run(what, func(t *testing.T) {
			r, err := judgeShare(t, 0, c.lie)
			require.NoError(t, err)
			if c.sentence != "" {
				require.Equal(t, c.sentence, r.Sentence())
			}
			for _, p := range r.Probes {
				if p.Name == c.name && p.Result == c.result {
					require.Contains(t, p.Evidence, c.evidence)
					return
				}
			}
			require.Fail(t, "not told", "%+v", r.Probes)
		})
	}
}

// A server that shows nothing in a moment of a rename is one of many if it is rare, and degraded if it is not.
func TestMomentsWithoutAFile(t *testing.T) {
	rarely, err := judgeShare(t, 3, func(s *slow) {
		reads, renames := 0, 0
		s.read = func(data []byte) []byte { // under no lock, and by the reader alone while renames wait
			s.mu.Lock()
			defer s.mu.Unlock()
			reads++
			return data
		}
		s.rename = func(old, new string) error {
			if renames++; renames != 100 {
				return s.honest.Rename(old, new)
			}
			for seen := 0; seen < 100; runtime.Gosched() { // the reader looks often enough for one miss to be rare
				s.mu.Lock()
				seen = reads
				s.mu.Unlock()
			}
			s.blind.Store(true) // one look finds nothing
			for s.blind.Load() {
				runtime.Gosched()
			}
			return s.honest.Rename(old, new)
		}
	})
	require.NoError(t, err)
	require.Equal(t, "safe", rarely.Sentence())
	require.Equal(t, Told, rarely.Probes[1].Result)
	require.Contains(t, rarely.Probes[1].Evidence, "and once not there for a moment")

	often, err := judgeShare(t, 0, func(s *slow) {
		s.rename = func(old, new string) error {
			s.mu.Lock()
			delete(s.files, new)
			s.mu.Unlock()
			for before := s.misses(); s.misses() == before && !strings.HasPrefix(new, "id-"); {
				runtime.Gosched()
			}
			return s.honest.Rename(old, new)
		}
	})
	require.NoError(t, err)
	require.Equal(t, "degraded because of rename", often.Sentence())
}

// What went away in the middle is no property of the target: of a share it is an error, of a mounted folder unfit as a whole.
func TestGoneInTheMiddle(t *testing.T) {
	for _, file := range []string{"written", "version-50", "flush-1", "ab", "folded-case", "a?b", "time-3", "id-1"} {
		_, err := judgeShare(t, 0, func(s *slow) {
			s.write = func(name string) error {
				if name == file {
					return &store.Problem{What: "lost", Do: "look", Kinds: []error{store.ErrTemporary, store.ErrGone}}
				}
				return nil
			}
		})
		if !strings.HasPrefix(file, "flush") { // Flush of this folder writes nothing
			require.ErrorIs(t, err, store.ErrGone, file)
		}
	}
	for _, file := range []string{"written", "version-50", "ab", "folded-case", "a?b", "time-3", "inode-1"} {
		r := judge(t, func(l *liar) {
			l.write = func(name string) error {
				if name == file {
					return unix.ENOTCONN
				}
				return nil
			}
		})
		require.Equal(t, "unfit because of write", r.Sentence(), file)
		require.Contains(t, r.Because()[0].Remedy, "the target went away", file)
	}
}
