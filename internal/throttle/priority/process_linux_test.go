package priority

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const batch = unix.SCHED_BATCH

// What threads are to look like, in the kernel's numbers.
var (
	plain    = threadState{0, 0, 0}
	utility  = threadState{5, batch, 2<<13 | 7}
	throttle = threadState{10, batch, 2<<13 | 7}
	// lowest is throttle for a process that may leave idle scheduling.
	lowest = threadState{10, unix.SCHED_IDLE, 2<<13 | 7}
)

// fromPlain skips a test that counts on ordinary priorities when the tests themselves are run with others.
func fromPlain(t *testing.T) {
	t.Helper()
	threads, err := look(os.Getpid())
	require.NoError(t, err)
	if threads[os.Getpid()] != plain {
		t.Skipf("the tests do not run with ordinary priority: %+v", threads[os.Getpid()])
	}
}

// apply runs the actor that applies policies, and returns its report of each.
func apply(t *testing.T, cmd *exec.Cmd, policies int) []selfReport {
	t.Helper()
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []selfReport
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var one selfReport
		require.NoError(t, dec.Decode(&one))
		all = append(all, one)
	}
	require.Len(t, all, policies)
	return all
}

// every requires that all threads are in one state.
func every(t *testing.T, want threadState, got selfReport) {
	t.Helper()
	require.GreaterOrEqual(t, len(got.Threads), crowded, "%+v", got.Applied)
	for tid, st := range got.Threads {
		require.Equal(t, want, st, "thread %d after %s", tid, got.Applied.Policy)
	}
}

func TestAllThreadsAreLowered(t *testing.T) {
	fromPlain(t)
	words := []string{"throttle", "throttle", "utility", "standard", "utility", "passive", "throttle", "important"}
	throttle, now := lowest, "nice 10, idle scheduling, best-effort I/O level 7"
	cmd := actor(t, "apply", words...)
	if os.Geteuid() != 0 {
		words = words[:1]
		throttle, now = threadState{10, batch, 2<<13 | 7}, "nice 10, batch scheduling, best-effort I/O level 7"
		cmd = actor(t, "apply", words...) // without privilege the way back is another test's
	}
	for i, got := range apply(t, cmd, len(words)) {
		want := map[string]threadState{"utility": utility, "throttle": throttle}[words[i]] // otherwise as it was found
		every(t, want, got)
		require.Empty(t, got.Applied.Notes)
		require.Positive(t, got.Applied.Threads)
		switch words[i] {
		case "throttle":
			require.Equal(t, now, got.Applied.Now)
		case "utility":
			require.Equal(t, "nice 5, batch scheduling, best-effort I/O level 7", got.Applied.Now)
		default:
			require.Equal(t, "nice 0, I/O class not set", got.Applied.Now)
		}
	}
}

func TestWithoutPrivilegeNiceStays(t *testing.T) {
	testkit.Slow(t)
	fromPlain(t)
	testkit.RequireRoot(t)
	cmd := actor(t, "apply", "utility", "throttle", "utility", "important")
	asNobody(t, cmd)
	all := apply(t, cmd, 4)
	every(t, utility, all[0])
	every(t, throttle, all[1])
	every(t, threadState{10, utility.Sched, utility.IO}, all[2]) // scheduling and I/O class are free to go up
	every(t, threadState{10, plain.Sched, plain.IO}, all[3])
	require.Empty(t, all[0].Applied.Notes)
	require.Empty(t, all[1].Applied.Notes)
	for i, was := range map[int]string{2: "nice 10 instead of 5", 3: "nice 10 instead of 0"} {
		require.Len(t, all[i].Applied.Notes, 1)
		require.Contains(t, all[i].Applied.Notes[0], was)
	}
	require.Equal(t, "nice 10, I/O class not set", all[3].Applied.Now)
}

// TestIdleSchedulingCannotBeLeft is why throttle uses SCHED_IDLE only for a process that may leave it.
func TestIdleSchedulingCannotBeLeft(t *testing.T) {
	testkit.RequireRoot(t)
	for sched, want := range map[int]string{unix.SCHED_IDLE: "operation not permitted", batch: "<nil>"} {
		cmd := actor(t, "leave", itoa(sched))
		asNobody(t, cmd)
		out, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, want, strings.TrimSpace(string(out)))
	}
}

func TestNothingBecomesBetterThanItWasFound(t *testing.T) {
	testkit.Slow(t)
	testkit.RequireRoot(t)
	words := []string{"important", "utility", "throttle", "utility", "standard"}
	for name, found := range map[string]state{
		"nice 19":            {unix.SCHED_NORMAL, 19, ioNone},
		"nice 7, ionice -c3": {unix.SCHED_NORMAL, 7, ioIdle | 7}, // the level means nothing, and ionice sets it

		"batch, ionice -n5":    {batch, 0, bestEffort(5)},
		"scheduled as idle":    {unix.SCHED_IDLE, 0, ioNone},
		"real-time scheduling": {unix.SCHED_RR, 0, classRealTime << classShift},
		"negative nice value":  {unix.SCHED_NORMAL, -5, ioNone},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := actor(t, "apply", words...)
			bornAs(t, cmd, found)
			all := apply(t, cmd, len(words))
			for i, got := range all {
				want := found
				switch words[i] {
				case "utility":
					want = found.lowered(5, bestEffort(7))
				case "throttle":
					want = found.lowered(10, bestEffort(7)).idle()
				}
				every(t, threadState{want.nice, want.sched, int(want.io)}, got)
				require.Empty(t, got.Applied.Notes)
			}
		})
	}
}

// bornAs makes cmd start in a state: the tools set it on themselves and become the program.
func bornAs(t *testing.T, cmd *exec.Cmd, s state) {
	t.Helper()
	flags := map[int]string{unix.SCHED_NORMAL: "-o", batch: "-b", unix.SCHED_IDLE: "-i", unix.SCHED_RR: "-r"}
	priority := "0"
	if s.sched == unix.SCHED_RR {
		priority = "1"
	}
	args := []string{testkit.RequireTool(t, "chrt"), flags[s.sched], priority}
	args = append(args, testkit.RequireTool(t, "nice"), "-n", itoa(s.nice))
	if s.io != ioNone {
		args = append(args, testkit.RequireTool(t, "ionice"), "-c", itoa(s.io.class()))
		if s.io.class() != classIdle {
			args = append(args, "-n", itoa(int(s.io&levelMask)))
		}
	}
	cmd.Args = append(append(args, cmd.Path), cmd.Args[1:]...)
	cmd.Path = args[0]
}

func TestLoweringIsMonotone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	scheds := []int{unix.SCHED_NORMAL, batch, unix.SCHED_IDLE, unix.SCHED_FIFO, unix.SCHED_RR, unix.SCHED_RESET_ON_FORK}
	for range 2000 {
		s := state{scheds[r.IntN(len(scheds))], r.IntN(40) - 20, ioNone}
		if class := r.IntN(4); class == classIdle {
			s.io = ioIdle
		} else if class != classNone {
			s.io = ioprio(class<<classShift | r.IntN(8))
		}
		p := &Process{}
		u, th := p.target(1, s, iopolicy.Utility), p.target(1, s, iopolicy.Throttle)
		for _, pair := range [][2]state{{s, u}, {u, th}} {
			better, worse := pair[0], pair[1]
			require.GreaterOrEqual(t, worse.nice, better.nice, "%v %v", better, worse)
			require.GreaterOrEqual(t, worse.io.rank(worse.nice), better.io.rank(better.nice), "%v %v", better, worse)
			require.Equal(t, better.sched&unix.SCHED_RESET_ON_FORK, worse.sched&unix.SCHED_RESET_ON_FORK)
		}
		require.Equal(t, th, p.target(1, u, iopolicy.Throttle), "as from the start")
		require.Equal(t, th, p.target(1, th, iopolicy.Utility), "never up")
		for _, none := range []iopolicy.Policy{iopolicy.Important, iopolicy.Standard, iopolicy.Passive} {
			require.Equal(t, s, p.target(1, s, none))
		}
	}
}

func TestApplyToAnotherProcess(t *testing.T) {
	fromPlain(t)
	testkit.RequireRoot(t)
	other := launch(t, actor(t, "idle"))
	other.expect("ready")
	pid := other.cmd.Process.Pid
	all := func(want threadState) {
		t.Helper()
		threads, err := look(pid)
		require.NoError(t, err)
		require.Greater(t, len(threads), 5)
		for tid, st := range threads {
			require.Equal(t, want, st, "thread %d", tid)
		}
	}
	all(plain)
	applied, err := ApplyTo(pid, iopolicy.Throttle)
	require.NoError(t, err)
	require.Greater(t, applied.Threads, 5)
	require.Empty(t, applied.Notes)
	all(throttle)
	// Another program run later finds its marks, but not the former nice value.
	_, err = ApplyTo(pid, iopolicy.Utility)
	require.NoError(t, err)
	all(threadState{10, utility.Sched, utility.IO})
	applied, err = ApplyTo(pid, iopolicy.Standard)
	require.NoError(t, err)
	all(threadState{10, 0, 0})
	require.Len(t, applied.Notes, 1)
	require.Contains(t, applied.Notes[0], "renice -n 0 -p "+itoa(pid))
	applied, err = ApplyTo(pid, iopolicy.Important)
	require.NoError(t, err)
	require.Len(t, applied.Notes, 1, "still, though the marks are gone")
	// A priority lowered by another program stays.
	require.NoError(t, setIO(pid, ioIdle))
	_, err = ApplyTo(pid, iopolicy.Important)
	require.NoError(t, err)
	threads, err := look(pid)
	require.NoError(t, err)
	require.Equal(t, int(ioIdle), threads[pid].IO)

	require.NoError(t, other.stdin.Close())
	require.Zero(t, other.end())
	_, err = ApplyTo(pid, iopolicy.Utility)
	require.ErrorIs(t, err, ErrNoProcess)
	for _, none := range []int{0, -1, 1 << 30} {
		_, err = ApplyTo(none, iopolicy.Utility)
		require.ErrorIs(t, err, ErrNoProcess)
	}
}

func TestOthersProcessesAreTheirs(t *testing.T) {
	testkit.RequireRoot(t)
	other := launch(t, actor(t, "idle"))
	other.expect("ready")
	ours := actor(t, "reach")
	ours.Env = append(ours.Env, "TIDEMARK_PRIORITY_PID="+itoa(other.cmd.Process.Pid))
	asNobody(t, ours)
	out, err := ours.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), ErrNotPermitted.Error())
	require.NoError(t, other.stdin.Close())
	require.Zero(t, other.end())
}

func TestSessionOfItsOwnIsLoweredAsAGroup(t *testing.T) {
	testkit.Slow(t)
	fromPlain(t)
	testkit.RequireRoot(t)
	if _, err := readAutogroup(); err != nil {
		t.Skipf("the kernel does not group by session: %v", err)
	}
	words := []string{"throttle", "utility", "important"}
	for _, leads := range []bool{true, false} {
		cmd := actor(t, "apply", words...)
		want := []string{"nice 0", "nice 0", "nice 0"}
		if leads {
			cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
			want = []string{"nice 10", "nice 5", "nice 0"}
		}
		asNobody(t, cmd)
		for i, got := range apply(t, cmd, len(words)) {
			require.True(t, strings.HasSuffix(got.Group, want[i]), "%s: %s", words[i], got.Group)
		}
	}
}

// Where nothing was lowered and nothing is to be, the threads are left alone: neither looked at nor waited for.
func TestNothingToLowerIsNothingToDo(t *testing.T) {
	p, err := This(false)
	require.NoError(t, err)
	for _, policy := range []iopolicy.Policy{iopolicy.Important, iopolicy.Standard, iopolicy.Passive, iopolicy.Important} {
		applied, err := p.Apply(policy)
		require.NoError(t, err)
		require.Zero(t, applied.Threads)
		require.NotEmpty(t, applied.Now)
		require.False(t, p.known)
	}
}
