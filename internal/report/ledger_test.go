package report

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Every counter is listed once, in the order of the declarations, or Snapshot and Add would lose it.
func TestCountersAreEnumerated(t *testing.T) {
	var tally Tally
	fields, n := tally.fields(), 0
	groups := reflect.ValueOf(&tally).Elem()
	for g := range groups.NumField() {
		for i := range groups.Field(g).NumField() {
			require.Less(t, n, len(fields))
			require.Same(t, groups.Field(g).Field(i).Addr().Interface(), fields[n], groups.Type().Field(g).Name)
			n++
		}
	}
	require.Len(t, fields, n)
}

func TestAddAndSnapshotCoverEverything(t *testing.T) {
	var tally Tally
	n := uint64(0)
	for _, f := range tally.fields() {
		n++
		*f = n
	}
	l := New(time.Now)
	l.Add(&tally)
	l.Packs.Stored.Add(7)
	got := l.Snapshot()
	require.Equal(t, tally, got.Tally)
	require.Equal(t, uint64(7), got.Packs.Stored)
	l.Add(&tally)
	require.Equal(t, uint64(2), l.Objects.Inspected.Load())
}

func TestCountersUnderConcurrency(t *testing.T) {
	l := New(time.Now)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := l.Worker("reader")
			defer c.Stop()
			for i := range 500 {
				l.Objects.Inspected.Add(1)
				c.Current(func() string { return fmt.Sprint("/file/", i) })
				was := c.Enter(Read)
				c.Enter(was)
				if i%100 == 0 {
					l.Snapshot()
					l.CurrentPaths()
					l.Fail("/x", "read", fs.ErrPermission)
				}
			}
		})
	}
	wg.Wait()
	s := l.Snapshot()
	require.Equal(t, uint64(4000), s.Objects.Inspected)
	require.Equal(t, uint64(40), s.Failures)
	require.Equal(t, uint64(40), s.Objects.Failed)
	require.Zero(t, s.Workers)
	require.Empty(t, l.CurrentPaths())
}

func TestClocksRecordAllTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		time.Sleep(time.Second) // before any worker: counted for none
		a := l.Worker("a")
		b := l.Worker("b")
		require.Equal(t, Idle, a.Enter(Scan))
		b.Enter(WaitScan)
		time.Sleep(2 * time.Second)
		require.Equal(t, Scan, a.Enter(Read))
		time.Sleep(3 * time.Second)
		b.Enter(Compress)

		s := l.Snapshot() // b has just begun; a is still reading
		require.Equal(t, StageTimes{Scan: 2 * time.Second, Read: 3 * time.Second, WaitScan: 5 * time.Second}, s.Stages)
		require.Equal(t, 2, s.Workers)
		require.Equal(t, 6*time.Second, s.Elapsed)

		time.Sleep(4 * time.Second)
		a.Stop()
		a.Stop() // counts once
		time.Sleep(time.Second)
		s = l.Snapshot()
		require.Equal(t, StageTimes{
			Scan: 2 * time.Second, Read: 7 * time.Second, WaitScan: 5 * time.Second, Compress: 5 * time.Second,
		}, s.Stages)
		require.Equal(t, 1, s.Workers)
	})
}

func TestEnterPutsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		c := l.Worker("x")
		c.Enter(Chunk)
		func() {
			defer c.Enter(c.Enter(Store))
			time.Sleep(time.Second)
		}()
		time.Sleep(2 * time.Second)
		require.Equal(t, StageTimes{Store: time.Second, Chunk: 2 * time.Second}, l.Snapshot().Stages)
	})
}

// Time in a call that has no clock of its worker is recorded for that place alone.
func TestVisit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewJob(Restore, time.Now)
		c := l.Worker("w")
		ctx := c.Within(t.Context())
		c.Enter(Unpack)
		time.Sleep(time.Second)
		leave, ok := Visit(ctx, Fetch)
		require.True(t, ok)
		time.Sleep(2 * time.Second)
		_, second := Visit(ctx, Fetch)
		require.False(t, second, "the clock is taken: the time would be booked twice")
		leave()
		time.Sleep(4 * time.Second)
		_, ok = Visit(t.Context(), Fetch)
		require.False(t, ok)
		leave, ok = Visit(ctx, Fetch)
		require.True(t, ok, "it is free again")
		leave()
		c.Stop()
		stages := l.Snapshot().Stages
		require.Equal(t, 2*time.Second, stages[Fetch])
		require.Equal(t, 5*time.Second, stages[Unpack])
	})
}

func TestPhasesAddUpToElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		time.Sleep(time.Second)
		l.Phase(Scanning)
		time.Sleep(5 * time.Second)
		l.Phase(Saving)
		time.Sleep(2 * time.Second)
		s := l.Snapshot()
		require.Equal(t, [phaseCount]time.Duration{Opening: time.Second, Scanning: 5 * time.Second,
			Saving: 2 * time.Second}, s.Phases)
		require.Equal(t, 8*time.Second, s.Elapsed)
		require.Equal(t, Saving, s.Phase)
	})
}

func TestCurrentResolvesAPathOnDemand(t *testing.T) {
	l := New(time.Now)
	first, second := l.Worker("r1"), l.Worker("r2")
	first.Enter(Read)
	second.Enter(Read)
	calls := 0
	at := func(p string) func() string { return func() string { calls++; return p } }
	first.Current(at("/a"))
	first.Current(at("/b")) // without a reader since
	require.Equal(t, 1, calls)
	second.Current(at("/z"))
	require.Equal(t, []string{"/a", "/z"}, l.CurrentPaths())
	first.Current(at("/c"))
	require.Equal(t, []string{"/c", "/z"}, l.CurrentPaths())
	first.Current(at("/z"))
	require.Equal(t, []string{"/z"}, l.CurrentPaths(), "the same path is shown once")
	first.Enter(Idle)
	second.Stop()
	require.Empty(t, l.CurrentPaths(), "who is idle is at no file")
}

func TestCurrentAndEnterDoNotAllocate(t *testing.T) {
	l := New(time.Now)
	c := l.Worker("r")
	dir, name := "/some/dir", []byte("name")
	path := func() string { return dir + "/" + string(name) }
	c.Current(path)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c.Current(func() string { return dir + "/" + string(name) })
		c.Enter(Read)
	}))
}

func TestIssues(t *testing.T) {
	l := New(time.Now)
	var seen int
	l.OnIssue(func(Issue) { seen++ })
	for i := range KeptIssues + 500 {
		l.Fail(fmt.Sprintf("/f%d", i), "open", &fs.PathError{Op: "open", Path: "f", Err: fs.ErrPermission})
	}
	for i := range 100 {
		l.Note("/n", fmt.Sprintf("set attribute %d", i), errors.New("not supported"))
	}
	require.Equal(t, KeptIssues+600, seen)
	require.Len(t, l.Issues(), KeptIssues+100, "failures do not crowd remarks out")
	s := l.Snapshot()
	require.Equal(t, uint64(KeptIssues+500), s.Failures)
	require.Equal(t, uint64(KeptIssues+500), s.Objects.Failed)
	require.Equal(t, uint64(100), s.Notes)

	ops, counts := l.issues.byOp()
	require.LessOrEqual(t, len(ops), maxOps+1, "kinds are bounded")
	var sum uint64
	for _, n := range counts {
		sum += n
	}
	require.Equal(t, uint64(100), sum, "and none is lost")
	require.Equal(t, "other", ops[0])

	var b bytes.Buffer
	l.WriteIssues(&b, 2)
	require.Contains(t, b.String(), "open /f0: permission denied\nopen /f1: permission denied\nand 1,498 more failures\n")
}

func TestIssueText(t *testing.T) {
	require.Equal(t, `read /a\x0ab: read sector: i/o error`,
		Issue{Op: "read", Path: "/a\nb", Err: fmt.Errorf("read sector: %w", errors.New("i/o error"))}.String())
	require.Equal(t, "save index", Issue{Op: "save index"}.String())

	var b bytes.Buffer
	New(time.Now).WriteIssues(&b, 10)
	require.Empty(t, b.String())
}

func TestExpect(t *testing.T) {
	l := New(time.Now)
	l.Expect(Expected{Objects: 10, Bytes: 1000})
	require.Equal(t, Expected{Objects: 10, Bytes: 1000}, l.Snapshot().Expected)
	l.Objects.Inspected.Add(12)
	l.Bytes.Inspected.Add(900)
	s := l.Snapshot()
	require.False(t, s.Progress().Known, "larger than the parent: the whole is unknown")
	l.Scanned()
	l.Expect(Expected{Objects: 1, Bytes: 1}) // comes too late: what was counted is better
	s = l.Snapshot()
	require.Equal(t, Expected{Objects: 12, Bytes: 900, Exact: true}, s.Expected)
	require.True(t, s.Progress().Known)
}

func TestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		l.Phase(Scanning)
		l.Expect(Expected{Objects: 2000, Bytes: 4 << 20})
		l.Objects.Inspected.Add(1000)
		l.Bytes.Inspected.Add(2 << 20)
		l.Bytes.Wanted.Add(1 << 20)
		l.Bytes.Read.Add(1 << 20)
		reader, up := l.Worker("reader"), l.Worker("uploader")
		reader.Enter(Read)
		reader.Current(func() string { return "/home/x\x1b" })
		up.Enter(Idle)
		time.Sleep(10 * time.Second)
		require.Equal(t, `backup: backing up, 00:00:10 elapsed
  1,000 items, average 100.00 items/s
  2.00 MiB; read 1.00 MiB, average 102.40 KiB/s
  50.0 % of 2,000 items and 4.00 MiB
  new 0 B, sent 0 B
  held up mostly by: reading (100 %)
  reader: reading for 10.0 s, at /home/x\x1b
  uploader: idle for 10.0 s
`, l.State())
	})
}

type lines chan string

func (c lines) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

func TestOnSignal(t *testing.T) {
	out := make(lines, 1)
	stop := OnSignal(NewJob(Check, time.Now), out)
	defer stop()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	require.Contains(t, <-out, "check: opening the repository")
}

func TestWordsAndKeysAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for s := range Stage(stageCount) {
		require.NotEmpty(t, s.String())
		require.NotEmpty(t, s.Key())
		require.False(t, seen[s.Key()], s.Key())
		seen[s.Key()] = true
		if s != Idle {
			require.NotEqual(t, Nothing, s.Resource(), s.String())
		}
		require.Equal(t, strings.HasPrefix(s.Key(), "wait_"), s.Waits(), s.Key())
	}
	for p := range Phase(phaseCount) {
		require.NotEmpty(t, p.String())
		require.NotEmpty(t, p.Key())
	}
	for r := range Resource(resourceCount) {
		require.Equal(t, r == Nothing, r.String() == "", r)
	}
	require.Less(t, stageCount, 1<<stageBits)
}

// TestWhatTheStoreBlocksWaitsAtOnce: a worker that the store blocks for long waits for it from the start, not only when
// it goes on. Who waits for that worker waits for the store too.
func TestWhatTheStoreBlocksWaitsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(time.Now)
		worker, reader := l.Worker("worker"), l.Worker("reader")
		defer worker.Stop()
		defer reader.Stop()
		worker.Enter(Compress)
		reader.Enter(WaitCPU)
		time.Sleep(time.Second)
		before := l.Snapshot().Stages
		require.Equal(t, Computing, LimitedBy(before, 0, time.Second))
		end := l.Blocked()
		time.Sleep(9 * time.Second)
		during := l.Snapshot().Stages.Minus(before)
		require.Equal(t, 9*time.Second, during[WaitStore])
		require.Zero(t, during[Compress])
		require.Equal(t, Repository, LimitedBy(during, 0, 9*time.Second))
		end()
		time.Sleep(time.Second)
		after := l.Snapshot().Stages
		require.Equal(t, 9*time.Second, after[WaitStore])
		require.Equal(t, 2*time.Second, after[Compress])
		require.Equal(t, Computing, LimitedBy(after.Minus(before).Minus(during), 0, time.Second))
	})
}

// TestNoStageHasLessTimeThanNone: the wait for the store is taken from a stage that a clock may not have been in.
func TestNoStageHasLessTimeThanNone(t *testing.T) {
	l := New(time.Now)
	l.AddTime(WaitStore, time.Second)
	l.AddTime(Compress, -time.Second)
	stages := l.Snapshot().Stages
	require.Zero(t, stages[Compress])
	require.Equal(t, time.Second, stages[WaitStore])
}
