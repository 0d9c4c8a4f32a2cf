package target

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// faulty is a store in memory with one fault.
type faulty struct {
	*mem.Store
	put     func(name store.Name, data []byte) error
	get     func(name store.Name, data []byte) error // after data was filled
	clock   time.Duration
	mangles bool // no file is listed under its name
	reads   atomic.Int64
}

func (f *faulty) Put(ctx context.Context, name store.Name, data []byte) error {
	if f.put != nil {
		if err := f.put(name, data); err != nil {
			return err
		}
	}
	return f.Store.Put(ctx, name, data)
}

func (f *faulty) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	defer f.reads.Add(1)
	err := f.Store.Get(ctx, name, off, p)
	if err == nil && f.get != nil {
		err = f.get(name, p)
	}
	return err
}

func (f *faulty) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	info, err := f.Store.Stat(ctx, name)
	info.Modified = info.Modified.Add(f.clock)
	return info, err
}

func (f *faulty) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	if f.mangles {
		return func(func(store.Info, error) bool) {}
	}
	return f.Store.List(ctx, kind)
}

// probeFaulty probes a store that has what fault sets.
func probeFaulty(t *testing.T, share bool, fault func(*faulty)) (*Report, error) {
	t.Helper()
	f := &faulty{Store: mem.New()}
	fault(f)
	p := newProber(t.Context(), &Report{}, Options{})
	p.share = share
	p.flush = func() error { return nil }
	return p.report, p.end(p.all("scratch", func(name string) store.Store {
		if name != "scratch" {
			return mem.New() // it has no files
		}
		return f
	}))
}

// lease reports whether a Put replaces the file that others read.
func lease(name store.Name) bool { return name.Kind == store.Lease && name.ID == "0" }

func TestFaults(t *testing.T) {
	for what, c := range map[string]struct {
		fault    func(*faulty)
		sentence string
		evidence string
	}{
		"none": {func(*faulty) {}, "safe", ""},
		"reads are damaged": {func(f *faulty) {
			f.get = func(name store.Name, data []byte) error {
				if name.Kind == store.Pack {
					data[0]++
				}
				return nil
			}
		}, "unfit because of write", "has other content"},
		"names are changed": {func(f *faulty) { f.mangles = true }, "unfit because of write", "listed under another name"},
		"a rename does not replace": {func(f *faulty) {
			n := 0
			f.put = func(name store.Name, _ []byte) error {
				if n++; lease(name) && n > 3 {
					return errors.New("file exists")
				}
				return nil
			}
		}, "unfit because of rename", "does not replace the existing file: file exists"},
		"a rename does nothing": {func(f *faulty) {
			f.get = func(name store.Name, data []byte) error {
				if lease(name) {
					copy(data, version(0))
				}
				return nil
			}
		}, "unfit because of rename", "the old file is still there"},
		"a rename removes first": {func(f *faulty) {
			f.put = func(name store.Name, _ []byte) error {
				if !lease(name) {
					return nil
				}
				_ = f.Delete(t.Context(), name)
				for before := f.reads.Load(); f.reads.Load() < before+2 && before > 1; { // a reader notices
					runtime.Gosched()
				}
				return nil
			}
		}, "degraded because of rename", "missing for a moment"},
		"reads mix two files": {func(f *faulty) {
			var n int
			var replacing atomic.Bool // the prober, which reads after it, waits
			f.put = func(name store.Name, _ []byte) error {
				if n++; lease(name) && n > 2 {
					replacing.Store(true)
					for before := f.reads.Load(); f.reads.Load() < before+2; { // a reader notices
						runtime.Gosched()
					}
					replacing.Store(false)
				}
				return nil
			}
			f.get = func(name store.Name, data []byte) error {
				if lease(name) && replacing.Load() {
					data[0]++
				}
				return nil
			}
		}, "unfit because of rename", "a mixture of two files"},
		"the clock is ahead":  {func(f *faulty) { f.clock = time.Hour }, "degraded because of clock", "1h0m0s ahead of"},
		"the clock is behind": {func(f *faulty) { f.clock = -time.Hour }, "degraded because of clock", "1h0m0s behind"},
		"a minute behind":     {func(f *faulty) { f.clock = -time.Minute }, "safe", ""},
		"the target fills up": {func(f *faulty) {
			n := 0
			f.put = func(store.Name, []byte) error {
				if n++; n > 30 {
					return fmt.Errorf("%w: full", store.ErrNoSpace)
				}
				return nil
			}
		}, "unfit because of write", "no space left on the target"},
	} {
		t.Run(what, func(t *testing.T) {
			r, err := probeFaulty(t, false, c.fault)
			require.NoError(t, err)
			require.Equal(t, c.sentence, r.Sentence())
			if c.evidence != "" {
				require.Contains(t, r.Because()[0].Evidence, c.evidence)
				require.NotEmpty(t, r.Because()[0].Remedy)
			}
		})
	}
}

// A target that goes away during the probes is an error and no property of the target.
func TestTargetGoesAway(t *testing.T) {
	for n := 1; n <= 4; n++ {
		_, err := probeFaulty(t, true, func(f *faulty) {
			i := 0
			f.put = func(store.Name, []byte) error {
				if i++; i == n {
					return &store.Problem{What: "lost", Do: "connect it", Kinds: []error{store.ErrTemporary, store.ErrGone}}
				}
				return nil
			}
		})
		require.ErrorIs(t, err, store.ErrGone)
	}
}

func TestFlushIsJudgedByItsTime(t *testing.T) {
	for _, c := range []struct {
		median time.Duration
		medium device.Medium
		want   Result
	}{{time.Microsecond, device.SSD, Degraded}, {time.Millisecond, device.SSD, Good},
		{time.Millisecond, device.Remote, Good}} {
		p := newProber(t.Context(), &Report{Device: device.Info{Medium: c.medium}}, Options{})
		p.judgeFlush(c.median, pages.Durable)
		require.Equal(t, c.want, p.report.Probes[0].Result)
		require.Equal(t, c.medium == device.Remote || c.want == Degraded, p.report.Probes[0].Remedy != "")
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

// A disk whose file system cannot flush the disk's cache is degraded, and the report says what to do. Of a server, that
// is not known.
func TestAFlushThatPromisesLessIsReported(t *testing.T) {
	judged := func(medium device.Medium, promise pages.Promise) Probe {
		p := newProber(t.Context(), &Report{Device: device.Info{Medium: medium}}, Options{})
		p.judgeFlush(10*time.Millisecond, promise)
		require.Len(t, p.report.Probes, 1)
		return p.report.Probes[0]
	}
	require.Equal(t, Good, judged(device.HDD, pages.Durable).Result)
	for _, promise := range []pages.Promise{pages.Submitted, pages.Nothing} {
		weak := judged(device.HDD, promise)
		require.Equal(t, Degraded, weak.Result)
		require.Contains(t, weak.Evidence, "cannot flush the cache of the disk")
		require.Contains(t, weak.Remedy, "APFS")
		require.Equal(t, Good, judged(device.Remote, promise).Result)
	}
}
