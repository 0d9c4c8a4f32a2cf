package priority

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// computeReport is the threads of an actor at one moment, and which of them compute.
type computeReport struct {
	Threads   map[int]threadState
	Computing []int
	Main      int
	Notes     []string // of the policy that was applied last
}

// playCompute reports its threads while two compute under throttle, with little and with much of a disk, after they
// have seen a change to the policy of its argument, under which another one computes, and under throttle again, before
// and after one computes.
func playCompute() int {
	p, err := This(false)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	crowd()
	out, notes := json.NewEncoder(os.Stdout), []string{}
	show := func(tids ...int) {
		threads, err := look(os.Getpid())
		if err != nil || out.Encode(computeReport{threads, tids, os.Getpid(), notes}) != nil {
			os.Exit(1)
		}
	}
	apply := func(word string) {
		policy, err := iopolicy.ParsePolicy(word)
		if err == nil {
			var applied Applied
			applied, err = p.Apply(policy)
			notes = applied.Notes
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	apply("throttle")
	tids, ended := make(chan int), make(chan bool)
	compute := func(until func(over func() bool)) func() {
		return func() {
			defer func() { ended <- true }()
			p.Compute(func(over func() bool) {
				tids <- unix.Gettid()
				until(over)
			})
		}
	}
	change := func(over func() bool) {
		for !over() {
			time.Sleep(time.Millisecond)
		}
	}
	go compute(change)()
	go compute(change)()
	first, second := <-tids, <-tids
	show(first, second)
	for _, part := range []float64{0.2, 0.7, 0.8, 1} {
		p.Granted(part)
		show(first, second)
	}
	late := lingering(p)
	apply(os.Args[1])
	<-ended
	<-ended
	close(late.end)
	awaitEnd(first, second, late.tid)
	hold := make(chan bool)
	go compute(func(func() bool) { <-hold })()
	<-tids
	show()
	close(hold)
	<-ended
	apply("throttle")
	show()
	go compute(func(func() bool) {})()
	third := <-tids
	<-ended
	awaitEnd(third)
	show()
	return 0
}

// lingerer is a thread that no longer computes and has not ended yet.
type lingerer struct {
	tid int
	end chan bool
}

func lingering(p *Process) lingerer {
	l, left := lingerer{end: make(chan bool)}, make(chan int)
	go onOwnThread(func() {
		tid := unix.Gettid()
		if p.take(tid) {
			p.leave(tid)
		}
		left <- tid
		<-l.end
	})
	l.tid = <-left
	return l
}

// awaitEnd waits for threads to end.
func awaitEnd(tids ...int) {
	for _, tid := range tids {
		for unix.Tgkill(os.Getpid(), tid, 0) != unix.ESRCH {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestThreadsThatComputeAreIdle: the others, which wait for disks, are not. No thread stays so under another policy,
// whether or not it may leave idle scheduling.
func TestThreadsThatComputeAreIdle(t *testing.T) {
	fromPlain(t)
	testkit.RequireRoot(t)
	for user, want := range map[string]struct{ after, again threadState }{ // again: with little of a disk, or most of it
		"root":   {plain, lowest},
		"nobody": {threadState{10, plain.Sched, plain.IO}, throttle},
	} {
		t.Run(user, func(t *testing.T) {
			cmd := actor(t, "compute", "standard")
			if user == "nobody" {
				asNobody(t, cmd)
			}
			all := computeReports(t, cmd)
			require.Len(t, all, 8)
			require.Len(t, all[0].Computing, 2)
			require.NotContains(t, all[0].Computing, all[0].Main, "it does not end with its goroutine")
			for i, report := range all {
				require.GreaterOrEqual(t, len(report.Threads), crowded)
				require.NotContains(t, strings.Join(report.Notes, " "), "scheduling", "what is about to end is no news")
				for tid, st := range report.Threads {
					expected := []threadState{
						throttle, want.again, throttle, want.again, throttle, want.after, want.again, want.again,
					}[i]
					if slices.Contains(report.Computing, tid) {
						expected = lowest
					}
					require.Equal(t, expected, st, "thread %d of %d in report %d", tid, report.Main, i)
				}
			}
		})
	}
}

func computeReports(t *testing.T, cmd *exec.Cmd) (all []computeReport) {
	t.Helper()
	out, err := cmd.Output()
	require.NoError(t, err)
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var one computeReport
		require.NoError(t, dec.Decode(&one))
		all = append(all, one)
	}
	return all
}

// TestComputingWithoutAPolicy: for a process whose priority is not known work is called as it is.
func TestComputingWithoutAPolicy(t *testing.T) {
	p, err := This(false)
	require.NoError(t, err)
	for _, p := range []*Process{nil, p} {
		done := make(chan threadState)
		go p.Compute(func(over func() bool) {
			threads, err := look(os.Getpid())
			if err != nil || over() {
				close(done)
				return
			}
			done <- threads[unix.Gettid()]
		})
		st, ok := <-done
		require.True(t, ok)
		require.NotEqual(t, unix.SCHED_IDLE, st.Sched)
	}
}
