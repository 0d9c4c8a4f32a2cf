//go:build linux || darwin

package shared

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const ms = time.Millisecond

// TestMain is also the program of the other processes in these tests.
func TestMain(m *testing.M) {
	if role := os.Getenv("SHARED_TEST_ROLE"); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// watch is a clock that only the test advances.
type watch struct {
	mu sync.Mutex
	at time.Time
	ns int64
}

// newWatch starts an hour after boot: much later than any real time in a test's file would be a lie.
func newWatch() *watch { return &watch{at: time.Now(), ns: int64(time.Hour)} }

func (w *watch) read() (time.Time, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at, w.ns
}

func (w *watch) now() time.Time { at, _ := w.read(); return at }

func (w *watch) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.ns = w.at.Add(d), w.ns+int64(d)
}

func attach(t testing.TB, dir string, opt Options) *State {
	t.Helper()
	s, err := Attach(dir, "sda@12", opt)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func folder(t testing.TB) string { return filepath.Join(t.TempDir(), "tidemark") }

// actor is another process.
type actor struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t testing.TB, role string, args ...string) *actor {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "SHARED_TEST_ROLE="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &actor{cmd, in, bufio.NewScanner(out)}
}

func (a *actor) line(t testing.TB) string {
	t.Helper()
	require.True(t, a.out.Scan(), "the other process said no more: %v", a.out.Err())
	return a.out.Text()
}

func (a *actor) kill(t testing.TB) {
	require.NoError(t, a.Process.Kill())
	_ = a.Wait()
}

// play is what other processes do. They say "ready", and go on when they are given a line.
func play(role string, args []string) error {
	opt := Options{Policy: iopolicy.Standard}
	if role == "claim" {
		opt.Clock = func() (time.Time, int64) { return time.Unix(1<<30, 0), 1 << 50 }
	}
	s, err := Attach(args[0], "sda@12", opt)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	switch role {
	case "claim": // slots first..last, with times known to both processes
		count, _ := strconv.Atoi(args[1])
		out := bufio.NewWriter(os.Stdout)
		for k := range count {
			if ok, _ := s.Claim(3, s.clock.time(int64(k+1)*int64(ms)), ms); ok {
				fmt.Fprintln(out, k)
			}
		}
		fmt.Fprintln(out, "done")
		return out.Flush()
	case "hold": // has something in flight, for good
		s.Enter(1)
		s.Publish(1, time.Now())
		fmt.Println("holding")
		select {}
	case "busy": // changes everything all the time
		fmt.Println("busy")
		for {
			now := time.Now()
			s.Enter(1)
			s.Publish(1, now)
			s.Claim(1, now, time.Microsecond)
			s.Charge(1, now)
			s.AddElsewhere(iopolicy.Bytes{Read: 1})
			s.Leave(1)
		}
	case "announce", "detach":
		e, err := Announce(args[0], "sda@12", os.Getppid(), Options{Policy: iopolicy.Utility})
		if err != nil {
			return err
		}
		if role == "detach" {
			e.Detach()
		}
		fmt.Println("announced")
		_, _ = io.ReadAll(os.Stdin)
		return nil
	case "join":
		fmt.Println(inode(args[0]))
		_, _ = io.ReadAll(os.Stdin)
		return nil
	}
	return fmt.Errorf("no role %q", role)
}

func TestPeersSeeOneAnother(t *testing.T) {
	dir, w := folder(t), newWatch()
	a := attach(t, dir, Options{Clock: w.read, Policy: iopolicy.Standard})
	b := attach(t, dir, Options{Clock: w.read, Policy: iopolicy.Throttle})
	require.Zero(t, b.Seen(), "nothing yet")

	begun := w.now()
	a.Enter(1)
	a.Publish(1, begun)
	w.pass(300 * ms)
	seen := b.Seen()
	require.Equal(t, [4]bool{1: true}, seen.Inflight)
	require.True(t, seen.Newest[1].Equal(begun), "exactly the moment that was reported")
	require.Equal(t, [4]bool{}, a.Seen().Inflight, "own I/O is not a peer's")

	a.Publish(1, w.now())
	a.Leave(1)
	a.Publish(1, begun) // published late
	seen = b.Seen()
	require.Equal(t, [4]bool{}, seen.Inflight)
	require.True(t, seen.Newest[1].Equal(w.now()))
	require.Zero(t, seen.Newest[0])
	require.Zero(t, seen.Newest[3])
}

// TestTwoStatesAreAsOne compares random histories with what one gate would know of two clients.
func TestTwoStatesAreAsOne(t *testing.T) {
	for seed := range 50 {
		r := rng(seed)
		dir, w := folder(t), newWatch()
		all := []*State{attach(t, dir, Options{Clock: w.read}), attach(t, dir, Options{Clock: w.read})}
		var edge [4]time.Time
		var inflight [2][4]int
		for range 300 {
			i, tier := r.IntN(2), iopolicy.Tier(r.IntN(4))
			switch s := all[i]; r.IntN(4) {
			case 0:
				at := w.now().Add(-time.Duration(r.IntN(int(50 * ms)))) // back-dated to its issue
				s.Publish(tier, at)
				if at.After(edge[tier]) {
					edge[tier] = at
				}
			case 1:
				s.Enter(tier)
				inflight[i][tier]++
			case 2:
				if inflight[i][tier] > 0 {
					s.Leave(tier)
					inflight[i][tier]--
				}
			case 3:
				w.pass(time.Duration(r.IntN(int(40 * ms))))
			}
			for j, s := range all {
				seen := s.Seen()
				for u := range edge {
					require.True(t, seen.Newest[u].Equal(edge[u]), "tier %d", u)
					require.Equal(t, inflight[1-j][u] > 0, seen.Inflight[u], "tier %d", u)
				}
			}
		}
	}
}

func TestClaim(t *testing.T) {
	dir, w := folder(t), newWatch()
	a, b := attach(t, dir, Options{Clock: w.read}), attach(t, dir, Options{Clock: w.read})
	t0 := w.now()
	no := func(s *State, tier iopolicy.Tier, period, next time.Duration) {
		t.Helper()
		for _, ask := range []func(iopolicy.Tier, time.Time, time.Duration) (bool, time.Time){s.Free, s.Claim} {
			ok, at := ask(tier, w.now(), period)
			require.False(t, ok)
			require.Equal(t, next, at.Sub(t0))
		}
	}
	yes := func(s *State, tier iopolicy.Tier, period time.Duration) {
		t.Helper()
		for range 2 { // looking takes nothing
			ok, at := s.Free(tier, w.now(), period)
			require.True(t, ok)
			require.True(t, at.Equal(w.now()))
		}
		ok, _ := s.Claim(tier, w.now(), period)
		require.True(t, ok)
	}
	yes(a, 0, 0)
	yes(a, 0, 0)
	yes(a, 3, 200*ms)
	no(a, 3, 200*ms, 200*ms)
	no(b, 3, 200*ms, 200*ms)
	no(b, 2, 85*ms, 85*ms) // a slot of a worse tier starts the period of the better
	w.pass(85 * ms)
	yes(b, 2, 85*ms)
	no(a, 1, 40*ms, 125*ms)
	w.pass(115 * ms)
	yes(a, 3, 200*ms) // that of a better tier does not touch the worse
	w.pass(84 * ms)
	no(b, 2, 85*ms, 285*ms)
	w.pass(1 * ms)
	yes(b, 2, 85*ms)
	w.pass(115 * ms)
	no(a, 2, 285*ms, 570*ms)
	yes(b, 2, 85*ms)
	no(a, 3, 200*ms, 440*ms) // 40 ms between tiers
	b.SetSpacing(5 * ms)
	a.SetSpacing(5 * ms)
	w.pass(4 * ms)
	no(a, 3, 200*ms, 405*ms)
	w.pass(1 * ms)
	yes(a, 3, 200*ms)
	b.Charge(3, w.now().Add(-1*ms)) // the later counts
	no(a, 3, 200*ms, 605*ms)
	w.pass(1 * ms)
	b.Charge(3, w.now())
	no(a, 3, 200*ms, 606*ms)
	no(a, 2, 15*ms, 421*ms)
	b.Charge(0, w.now())
	b.Charge(9, w.now())
	b.Publish(9, w.now())
	b.Enter(9)
}

// TestTiersAlternate lets three processes ask at chosen times, and compares what each got.
func TestTiersAlternate(t *testing.T) {
	for _, c := range []struct {
		medium  string
		periods [4]time.Duration
	}{
		{"hdd", iopolicy.DefaultSettings().PeriodHDD}, {"ssd", iopolicy.DefaultSettings().PeriodSSD},
	} {
		seeds := 5
		if testing.Short() {
			seeds = 2
		}
		for seed := range seeds {
			r, dir, w := rng(seed), folder(t), newWatch()
			opt := Options{Clock: w.read, Spacing: c.periods[1]}
			var got [4]int
			var last, lastOf [4]time.Time
			var ask [4]time.Time
			var all [4]*State
			for u := 1; u < 4; u++ {
				all[u], ask[u] = attach(t, dir, opt), w.now()
			}
			const long = 60 * time.Second
			for end := w.now().Add(long); w.now().Before(end); {
				u := 1 + r.IntN(3) // the first at a tie
				for v := 1; v < 4; v++ {
					if ask[v].Before(ask[u]) {
						u = v
					}
				}
				w.pass(max(0, ask[u].Sub(w.now())))
				ok, next := all[u].Claim(iopolicy.Tier(u), w.now(), c.periods[u])
				if ask[u] = next; !ok {
					require.True(t, next.After(w.now()), "it never spins")
					require.LessOrEqual(t, next.Sub(w.now()), c.periods[u]*5/4+ms)
					continue
				}
				for v := 1; v < 4; v++ {
					if !last[v].IsZero() {
						require.GreaterOrEqual(t, w.now().Sub(last[v]), c.periods[1], "tier %d after %d", u, v)
					}
				}
				if !lastOf[u].IsZero() {
					require.GreaterOrEqual(t, w.now().Sub(lastOf[u]), c.periods[u])
				}
				last[u], lastOf[u] = w.now(), w.now()
				for v := 1; v < u; v++ {
					lastOf[v] = w.now()
				}
				got[u]++
			}
			for u := 1; u < 4; u++ {
				require.Greater(t, got[u], int(long/c.periods[u])/3, "%s: tier %d starves: %v", c.medium, u, got)
			}
			if seed == 0 {
				t.Logf("%s: slots in a minute, all three at once: %v", c.medium, got[1:])
			}
		}
	}
}

func TestOneWinnerForEachSlotOfTime(t *testing.T) {
	const slots, processes = 200_000, 3
	dir := folder(t)
	var all []*actor
	for range processes {
		a := start(t, "claim", dir, strconv.Itoa(slots))
		require.Equal(t, "ready", a.line(t))
		all = append(all, a)
	}
	for _, a := range all {
		fmt.Fprintln(a.in, "go")
	}
	winner := make([]int, slots)
	wins := make([]int, processes)
	for i, a := range all {
		for line := a.line(t); line != "done"; line = a.line(t) {
			k, err := strconv.Atoi(line)
			require.NoError(t, err)
			require.Zero(t, winner[k], "slot %d has two winners", k)
			winner[k] = i + 1
			wins[i]++
		}
	}
	for k, w := range winner {
		require.NotZero(t, w, "no process got slot %d", k)
	}
	t.Logf("slots won: %v", wins)
}

func TestDeathFreesTheSlot(t *testing.T) {
	dir := folder(t)
	s := attach(t, dir, Options{})
	a := start(t, "hold", dir)
	a.line(t)
	fmt.Fprintln(a.in, "go")
	require.Equal(t, "holding", a.line(t))
	seen := s.Seen()
	require.True(t, seen.Inflight[1])
	require.WithinDuration(t, time.Now(), seen.Newest[1], time.Minute)
	all := s.Processes()
	require.Len(t, all, 2)
	other := all[0]
	if other.Self {
		other = all[1]
	}
	require.Equal(t, Process{
		PID: a.Process.Pid, Started: other.Started, Policy: iopolicy.Standard, Tier: 1, Inflight: [4]int{1: 1}, Live: true,
	}, other)

	a.kill(t)
	await(t, func() bool { return !s.Seen().Inflight[1] })
	for _, p := range s.Processes() {
		require.Equal(t, p.Self, p.Live)
		require.Zero(t, p.Inflight)
	}
	used := s.now.Load().used.Load()
	next := attach(t, dir, Options{})
	require.Equal(t, used, s.now.Load().used.Load(), "the slot of the dead is taken again")
	require.Len(t, next.Processes(), 2)
	next.Enter(2)
	require.Equal(t, [4]bool{2: true}, s.Seen().Inflight)
	next.Leave(2)
}

func TestDeathAtAnyMoment(t *testing.T) {
	dir := folder(t)
	s := attach(t, dir, Options{})
	for range 15 {
		a := start(t, "busy", dir)
		a.line(t)
		fmt.Fprintln(a.in, "go")
		require.Equal(t, "busy", a.line(t))
		for range 1000 { // in the middle of what it does
			s.Seen()
			s.Claim(1, time.Now(), time.Microsecond)
			s.Processes()
		}
		a.kill(t)
		await(t, func() bool { return s.Seen().Inflight == [4]bool{} })
		ok, next := s.Claim(3, time.Now(), ms)
		require.True(t, ok || next.Before(time.Now().Add(3*ms)))
	}
	live := 0
	for _, p := range s.Processes() {
		if p.Live {
			live++
		}
	}
	require.Equal(t, 1, live)
	require.LessOrEqual(t, len(s.Processes()), 2)
}

// await outlasts the time for which a process is believed to be alive.
func await(t *testing.T, is func() bool) {
	t.Helper()
	for range 500 {
		if is() {
			return
		}
		time.Sleep(ms)
	}
	require.Fail(t, "it does not become so")
}

func TestFullTable(t *testing.T) {
	dir, w := folder(t), newWatch()
	var all []*State
	for range slots {
		all = append(all, attach(t, dir, Options{Clock: w.read}))
	}
	late := attach(t, dir, Options{Clock: w.read})
	require.Len(t, all[0].Processes(), slots)
	late.Enter(0)
	late.Publish(0, w.now())
	require.True(t, all[0].Seen().Newest[0].Equal(w.now()), "its edges count")
	require.False(t, all[0].Seen().Inflight[0])
	all[5].Enter(2)
	require.True(t, late.Seen().Inflight[2])
	ok, _ := late.Claim(3, w.now(), 200*ms)
	require.True(t, ok)
	ok, _ = all[0].Claim(3, w.now(), 200*ms)
	require.False(t, ok)
	_, err := Announce(dir, "sda@12", os.Getpid(), Options{Policy: iopolicy.Throttle})
	require.ErrorIs(t, err, ErrFull)
	late.SetPolicy(iopolicy.Throttle)
	late.AddElsewhere(iopolicy.Bytes{Read: 1})

	all[7].Close()
	w.pass(2 * time.Second)
	late.Publish(0, w.now()) // liveness after its place
	require.True(t, all[0].Seen().Inflight[0], "it has a slot now, with what is in flight")
	late.Leave(0)
	require.Equal(t, [4]bool{2: true}, all[0].Seen().Inflight)
}

func TestProcesses(t *testing.T) {
	dir, w := folder(t), newWatch()
	a := attach(t, dir, Options{Clock: w.read, Policy: iopolicy.Throttle})
	b := attach(t, dir, Options{Clock: w.read, Policy: iopolicy.Throttle})
	a.AddElsewhere(iopolicy.Bytes{Read: 3, Written: 5})
	a.AddElsewhere(iopolicy.Bytes{Read: 4})
	a.Enter(3)
	a.Enter(3)
	a.SetPolicy(iopolicy.Utility)
	all := b.Processes()
	require.Len(t, all, 2)
	require.Equal(t, Process{
		PID: os.Getpid(), Started: a.own.started, Policy: iopolicy.Utility, Tier: 2, Inflight: [4]int{3: 2},
		Elsewhere: iopolicy.Bytes{Read: 7, Written: 5}, Live: true,
	}, all[0])
	require.True(t, all[1].Self)
	a.Close()
	a.Close()
	require.Len(t, b.Processes(), 1)
	a.Enter(1)
	a.Publish(1, w.now())
	a.SetPolicy(iopolicy.Important)
	a.Detach()
	require.ErrorIs(t, a.Err(), os.ErrClosed)
	require.Zero(t, b.Seen(), "a process that left reports nothing")
}

func TestAnnounce(t *testing.T) {
	dir := folder(t)
	s := attach(t, dir, Options{})
	announce := func(pid int, p iopolicy.Policy) (*State, error) {
		return Announce(dir, "sda@12", pid, Options{Policy: p})
	}
	names := func() (out []string) {
		for _, p := range s.Processes() {
			if p.Announced {
				out = append(out, fmt.Sprint(p.PID == os.Getpid(), p.Policy, p.Live))
			}
		}
		return out
	}
	t.Run("as long as it is held", func(t *testing.T) {
		e, err := announce(os.Getpid(), iopolicy.Throttle)
		require.NoError(t, err)
		require.Equal(t, []string{"true throttle true"}, names())
		e.SetPolicy(iopolicy.Utility)
		require.Equal(t, []string{"true utility true"}, names())
		e.Close()
		require.Empty(t, names())
	})
	t.Run("as long as who announced lives", func(t *testing.T) {
		a := start(t, "announce", dir)
		a.line(t)
		fmt.Fprintln(a.in, "go")
		a.line(t)
		require.Equal(t, []string{"true utility true"}, names())
		a.kill(t)
		require.Equal(t, []string{"true utility false"}, names())
	})
	t.Run("as long as the other lives", func(t *testing.T) {
		a := start(t, "detach", dir) // names this process, and leaves
		a.line(t)
		fmt.Fprintln(a.in, "go")
		a.line(t)
		a.in.Close()
		require.NoError(t, a.Wait())
		require.Equal(t, []string{"true utility true"}, names())
		more := attach(t, dir, Options{}) // does not take its place
		require.Equal(t, []string{"true utility true"}, names())
		more.Close()

		sleeper := start(t, "hold", dir)
		sleeper.line(t)
		e, err := announce(sleeper.Process.Pid, iopolicy.Throttle)
		require.NoError(t, err)
		e.Detach()
		require.ElementsMatch(t, []string{"true utility true", "false throttle true"}, names())
		sleeper.kill(t)
		require.ElementsMatch(t, []string{"true utility true", "false throttle false"}, names())
		_, err = announce(sleeper.Process.Pid, iopolicy.Throttle)
		require.ErrorIs(t, err, ErrNoProcess)
	})
	t.Run("nobody", func(t *testing.T) {
		_, err := announce(1<<30, iopolicy.Throttle)
		require.ErrorIs(t, err, ErrNoProcess)
		_, err = announce(-1, iopolicy.Throttle)
		require.ErrorIs(t, err, ErrNoProcess)
	})
}

func TestFileName(t *testing.T) {
	require.Equal(t, "sda_12-", strings.SplitAfter(fileName("sda/12"), "-")[0])
	seen := map[string]bool{}
	for _, key := range []string{
		"sda@12", "sda_12", "sda/12", "remote:cifs:nas", "../../etc/passwd", "..", ".", "-", "a\x00b", "\xff", "Ärger",
		strings.Repeat("long", 100),
	} {
		name := fileName(key)
		require.Regexp(t, `^[A-Za-z0-9_][A-Za-z0-9_.@-]*-[0-9a-f]{16}\.v1$`, name, "%q", key)
		require.Less(t, len(name), 64)
		require.False(t, seen[strings.ToLower(name)])
		seen[strings.ToLower(name)] = true
	}
	_, err := Attach(folder(t), "", Options{})
	require.ErrorContains(t, err, "no key for the device")
}

// TestLayout compares the table in doc.go with the program.
func TestLayout(t *testing.T) {
	var r region
	var p slot
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	rows := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 3 && f[0] == "//" {
			rows[f[1]+" "+f[2]+" "+strings.TrimRight(f[3], ":")] = true
		}
	}
	for _, row := range layout(&r, &p) {
		require.True(t, rows[row], "doc.go has no row %q", row)
	}
	require.Contains(t, string(text), fmt.Sprintf("size of the file, %d", fileSize))
}
