package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// TestMain lets the test be a job that is killed, and a client of another user.
func TestMain(m *testing.M) {
	if path := os.Getenv("TIDEMARK_TEST_ASK"); path != "" {
		fmt.Println(rawAsk(path))
		return
	}
	if dir := os.Getenv("TIDEMARK_TEST_SERVE"); dir != "" {
		if _, err := Serve(context.Background(), dir, newJob(iopolicy.Important).Job); err != nil {
			panic(err)
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// rawAsk sends requests without looking at the owner of the socket, and returns the error.
func rawAsk(path string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, request := range []string{
		`{"version":1,"request":"set-policy","policy":"important"}`, `{"version":1,"request":"stop"}`,
	} {
		if _, err = conn.Write([]byte(request + "\n")); err != nil {
			return err
		}
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// job is a Job whose means obey, unless they are stubborn.
type job struct {
	*Job
	mu       sync.Mutex
	changes  []iopolicy.Policy
	stubborn error
	notes    []string
	status   event.Job
	reported chan string // what happened at the end of a term
}

func newJob(holds iopolicy.Policy) *job {
	j := &job{reported: make(chan string, 10)}
	j.Job = NewJob(holds, Means{Show: func() event.Job { return j.status }, Apply: j.apply,
		Note: func(text string) { j.reported <- text }})
	return j
}

func (j *job) apply(p iopolicy.Policy) ([]string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stubborn != nil {
		return nil, j.stubborn
	}
	j.changes = append(j.changes, p)
	return j.notes, nil
}

// place returns a directory with a path that is short enough, and not there yet.
func place(t *testing.T) string {
	base, err := os.MkdirTemp("", "control")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	return filepath.Join(base, "run")
}

func begin(t *testing.T, dir string, j *job, l limits) (stop func()) {
	t.Helper()
	stop, err := serve(t.Context(), dir, j.Job, l)
	require.NoError(t, err)
	t.Cleanup(stop)
	return stop
}

func only(t *testing.T, dir string) Running {
	t.Helper()
	all, err := Jobs(dir)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestAJobIsShownAndChanged(t *testing.T) {
	dir := place(t)
	gone, err := Jobs(dir)
	require.NoError(t, err, "no directory, no job")
	require.Empty(t, gone)

	start := time.Now().Round(0)
	state := &event.Status{Type: "status", Phase: "scanning", FilesDone: 3, BytesDone: 9}
	state.Gates = []event.Gate{{Device: "sda", Medium: "ssd", State: "waiting", Asleep: [4]float64{3: 1.5},
		Windows: [4]uint64{5, 1}, Blamed: []report.Process{{PID: 42, Name: "make"}}}}
	want := event.Job{Job: "backup", Sources: []string{"/home"}, Repository: "/srv/backup", Start: start, Status: state}
	j := newJob(iopolicy.Throttle)
	j.notes, j.status = []string{"nice stays 10"}, want
	stop := begin(t, dir, j, usualLimits())
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, info.Mode())
	info, err = os.Stat(filepath.Join(dir, names(t, dir)[0]))
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, info.Mode())

	r := only(t, dir)
	require.Equal(t, os.Getpid(), r.PID)
	s, err := r.Status(t.Context())
	require.NoError(t, err)
	require.True(t, start.Equal(s.Start))
	s.Start = start
	want.Type, want.Version, want.PID, want.Command, want.Policy = "job", 1, os.Getpid(), os.Args, "throttle"
	require.Equal(t, want, s)

	c, err := r.SetPolicy(t.Context(), iopolicy.Important, 0)
	require.NoError(t, err)
	require.Equal(t, event.PolicyChange{Type: "policy_change", Version: 1, PID: os.Getpid(), Was: "throttle",
		Policy: "important", Notes: []string{"nice stays 10"}}, c)
	require.Equal(t, []iopolicy.Policy{iopolicy.Important}, j.changes)

	j.stubborn = errors.New("it is a Sunday")
	_, err = r.SetPolicy(t.Context(), iopolicy.Utility, 0)
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, err, fmt.Sprintf("set policy of process %d: refused: it is a Sunday", os.Getpid()))

	stop()
	stop()
	require.Empty(t, names(t, dir))
	_, err = r.Status(t.Context())
	require.ErrorIs(t, err, ErrGone)
	gone, err = Jobs(dir)
	require.NoError(t, err)
	require.Empty(t, gone)
}

func TestTheEndOfTheContextEndsTheSocket(t *testing.T) {
	dir := place(t)
	ctx, cancel := context.WithCancel(t.Context())
	stop, err := Serve(ctx, dir, newJob(iopolicy.Important).Job)
	require.NoError(t, err)
	require.Len(t, names(t, dir), 1)
	cancel()
	stop()
	require.Empty(t, names(t, dir))
}

func TestTwoJobs(t *testing.T) {
	dir := place(t)
	a, b := newJob(iopolicy.Important), newJob(iopolicy.Important)
	stopA := begin(t, dir, a, usualLimits())
	begin(t, dir, b, usualLimits())
	all, err := Jobs(dir)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, r := range all {
		_, err := r.SetPolicy(t.Context(), iopolicy.Utility, 0)
		require.NoError(t, err)
	}
	require.Equal(t, []iopolicy.Policy{iopolicy.Utility}, a.changes)
	require.Equal(t, []iopolicy.Policy{iopolicy.Utility}, b.changes)
	stopA()
	_, err = only(t, dir).Status(t.Context())
	require.NoError(t, err, "the other goes on")
}

// A process that was killed leaves its socket behind; it is no job, and the next look removes it.
func TestTheKilledLeaveNothing(t *testing.T) {
	dir := place(t)
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), "TIDEMARK_TEST_SERVE="+dir)
	in, err := victim.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	out, err := victim.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, victim.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)

	r := only(t, dir)
	require.Equal(t, victim.Process.Pid, r.PID)
	_, err = r.Status(t.Context())
	require.NoError(t, err)
	require.NoError(t, victim.Process.Kill())
	require.Error(t, victim.Wait(), "killed")
	require.Len(t, names(t, dir), 1, "left behind")

	_, err = r.Status(t.Context())
	require.ErrorIs(t, err, ErrGone)
	begin(t, dir, newJob(iopolicy.Important), usualLimits())
	require.Equal(t, os.Getpid(), only(t, dir).PID)
	require.Len(t, names(t, dir), 1, "only ours")
}

func TestWhatIsNoSocketIsLeftAlone(t *testing.T) {
	dir := place(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	// Other packages may keep files there, and a socket that is just being made is not ready.
	for _, name := range []string{"job-1-ab", "state", "job-x"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	socket := func(name string, age time.Duration) {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		require.NoError(t, err)
		l.SetUnlinkOnClose(false)
		require.NoError(t, l.Close())
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	socket(".new-7-young", 0)
	socket(".new-7-old", 2*newborn)
	socket("other", 2*newborn)
	socket("job-7-dead", 0)
	all, err := Jobs(dir)
	require.NoError(t, err)
	require.Empty(t, all)
	require.Equal(t, []string{".new-7-young", "job-1-ab", "job-x", "other", "state"}, names(t, dir))
}

func TestUnsafeDirectories(t *testing.T) {
	dir := place(t)
	both := func(at, want string) {
		t.Helper()
		_, err := Serve(t.Context(), at, newJob(iopolicy.Important).Job)
		require.ErrorIs(t, err, ErrDirectory)
		require.ErrorContains(t, err, want)
		_, err = Jobs(at)
		require.ErrorIs(t, err, ErrDirectory)
	}
	require.NoError(t, os.Mkdir(dir, 0o700))
	link := dir + "-link"
	require.NoError(t, os.Symlink(dir, link))
	_, err := Jobs(link)
	require.ErrorIs(t, err, ErrDirectory, "another user could redirect a link")
	require.NoError(t, os.Chmod(dir, 0o750))
	both(dir, "run 'chmod 700 "+dir+"'")
	require.NoError(t, os.Chmod(dir, 0o700))

	_, err = Serve(t.Context(), filepath.Join(dir, strings.Repeat("x", 120)), newJob(iopolicy.Important).Job)
	require.ErrorIs(t, err, ErrDirectory)
	require.ErrorContains(t, err, "set XDG_RUNTIME_DIR to a shorter one")
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Serve(t.Context(), file, newJob(iopolicy.Important).Job)
	require.ErrorIs(t, err, syscall.ENOTDIR)

	if os.Geteuid() != 0 {
		t.Skip("needs root to give a directory away")
	}
	require.NoError(t, os.Chown(dir, 65534, 65534))
	both(dir, "belongs to another user")
}

// dial is a client without manners.
func dial(t *testing.T, r Running) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: r.path, Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestNonsenseIsRefused(t *testing.T) {
	dir := place(t)
	j := newJob(iopolicy.Throttle)
	begin(t, dir, j, usualLimits())
	r := only(t, dir)
	for said, want := range map[string]string{
		"\n":           "malformed line",
		"status\n":     "malformed line",
		"[1]\n":        "malformed line",
		"\x00\xff\n":   "malformed line",
		`{"version":1`: "",
		`{"version":"1","request":"status"}` + "\n": "malformed line",
		`{"version":99999999999999999999}` + "\n":   "malformed line",
		strings.Repeat("[", requestLine-1) + "\n":   "malformed line",
		strings.Repeat("x", 1<<20):                  "a line of more than 4096 bytes",
		`{"version":2,"request":"status"}` +
			"\n": "it speaks version 1 of the protocol, and was asked in version 2",
		`{"request":"status"}` + "\n": "was asked in version 0",
		`{"version":1,"request":"die"}` +
			"\n": `unknown request \"die\"; there are status, set-policy, return-policy and set-max-impact`,
		`{"version":1,"request":"set-policy"}` + "\n":                                  "not an I/O policy",
		`{"version":1,"request":"set-policy","policy":"sudo"}` + "\n":                  "not an I/O policy",
		`{"version":1,"request":"set-policy","policy":["utility"]}` + "\n":             "malformed line",
		`{"version":1,"request":"status","more":{"a":[1]}}` + "\n":                     `"message_type":"job"`,
		`{"version":1,"request":"status"}` + "\n" + `{"version":1,"request":"status"}`: `"message_type":"job"`,
	} {
		conn := dial(t, r)
		_, err := conn.Write([]byte(said))
		if err != nil { // it was cut off before all was said
			require.ErrorIs(t, err, syscall.EPIPE)
		}
		require.NoError(t, conn.CloseWrite())
		got, err := io.ReadAll(conn)
		if err != nil { // it left while there was more to hear
			require.ErrorIs(t, err, syscall.ECONNRESET, said)
		}
		if want == "" {
			require.Empty(t, got)
		} else {
			require.Contains(t, string(got), want, "%.60q", said)
		}
	}
	require.Empty(t, j.changes)
	_, err := r.Status(t.Context())
	require.NoError(t, err, "and it still answers")
}

// Clients that are silent, or do not read, hold the job up by nothing: they are cut off, others are served again after,
// and the end of the job does not wait for them.
func TestRudeClients(t *testing.T) {
	for name, behave := range map[string]func(t *testing.T, conn *net.UnixConn){
		"silent": func(*testing.T, *net.UnixConn) {},
		"half a line": func(_ *testing.T, conn *net.UnixConn) {
			_, _ = conn.Write([]byte(`{"version":1,`)) // fails for those that were not let in
		},
		"asks and does not listen": func(_ *testing.T, conn *net.UnixConn) {
			line := []byte(`{"version":1,"request":"status"}` + "\n")
			_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
			for {
				if _, err := conn.Write(line); err != nil {
					return // cut off
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			l := limits{patience: 100 * time.Millisecond, pause: time.Microsecond, connections: 3}
			j := newJob(iopolicy.Important)
			j.status.Repository = strings.Repeat("r", 1<<16)
			stop := begin(t, dir, j, l)
			r := only(t, dir)
			var all []*net.UnixConn
			for range l.connections + 2 {
				all = append(all, dial(t, r))
			}
			var clients sync.WaitGroup
			for _, conn := range all[:l.connections] {
				clients.Go(func() { behave(t, conn) })
			}
			clients.Wait()
			for _, conn := range all {
				_, err := io.Copy(io.Discard, conn)
				if err != nil {
					require.ErrorIs(t, err, syscall.ECONNRESET)
				} // else the end: cut off, or never heard
			}
			require.Eventually(t, func() bool { _, err := r.Status(t.Context()); return err == nil },
				time.Minute, time.Millisecond, "others are served again")
			last := dial(t, r)
			behaveLast(last)
			stop()
			_, err := last.Read(make([]byte, 1))
			require.Error(t, err)
		})
	}
}

func behaveLast(conn *net.UnixConn) { _, _ = conn.Write([]byte("{")) }

func TestManyAtOnce(t *testing.T) {
	dir := place(t)
	j := newJob(iopolicy.Important)
	l := usualLimits()
	l.pause = 0
	begin(t, dir, j, l)
	r := only(t, dir)
	policies := []iopolicy.Policy{iopolicy.Important, iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle}
	var clients sync.WaitGroup
	changed := make(chan event.PolicyChange, 100)
	for i := range 4 { // as many as are let in, with one to look for jobs
		clients.Go(func() {
			for range 25 {
				c, err := r.SetPolicy(t.Context(), policies[i], 0)
				if err == nil {
					changed <- c
				}
				_, _ = Jobs(dir)
			}
		})
	}
	clients.Wait()
	close(changed)
	// Every change is reported with its values: each began where another ended.
	balance := map[string]int{"important": 1, j.Status().Policy: -1}
	if j.Status().Policy == "important" {
		balance = map[string]int{}
	}
	count := 0
	for c := range changed {
		count++
		balance[c.Was]--
		balance[c.Policy]++
	}
	for policy, n := range balance {
		require.Zero(t, n, policy)
	}
	require.Len(t, j.changes, count)
	require.NotZero(t, count)
}

// With any other program at the far end, a request ends with an error that describes it.
func TestAnswersThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   error
		text   string
	}{
		"nothing":       {"", ErrAnswer, "it hung up"},
		"half a line":   {`{"message_type":"job"`, ErrAnswer, "unexpected EOF"},
		"no JSON":       {"hello\n", ErrAnswer, "malformed line"},
		"too long":      {strings.Repeat("x", answerLine+1), ErrAnswer, "a line of more than 1048576 bytes"},
		"refusal":       {`{"message_type":"refused","version":9,"message":"not today"}` + "\n", nil, "refused: not today"},
		"other version": {`{"message_type":"job","version":2}` + "\n", ErrAnswer, "version 2"},
		"other type":    {`{"message_type":"policy_change","version":1}` + "\n", ErrAnswer, "policy_change"},
		"wrong shape":   {`{"message_type":"job","version":1,"pid":"one"}` + "\n", ErrAnswer, "cannot unmarshal"},
		"a list":        {"[]\n", ErrAnswer, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			r := impostor(t, func(conn net.Conn) { _, _ = conn.Write([]byte(c.answer)) })
			_, err := r.Status(t.Context())
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			require.ErrorContains(t, err, c.text)
		})
	}
	r := impostor(t, func(net.Conn) { <-t.Context().Done() })
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	_, err := r.Status(ctx)
	require.Error(t, err, "it does not wait for ever")
}

// impostor listens, reads one line and behaves.
func impostor(t *testing.T, behave func(net.Conn)) Running {
	dir := place(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "job-1-x")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
					behave(conn)
				}
			}()
		}
	}()
	return Running{1, path}
}

func TestAnswersThatWouldBeTooLong(t *testing.T) {
	dir := place(t)
	j := newJob(iopolicy.Important)
	j.status.Sources = []string{strings.Repeat("s", answerLine)}
	begin(t, dir, j, usualLimits())
	_, err := only(t, dir).Status(t.Context())
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, err, "the answer is too long")
}

func TestTheSignalSteps(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j := newJob(iopolicy.Throttle)
	j.notes = []string{"nice stays 10"}
	reported := make(chan string)
	OnSignal(ctx, j.Job, func(text string) { reported <- text })
	for _, want := range []string{
		"the policy is now utility, it was throttle", "the policy is now standard, it was utility",
		"the policy is now important, it was standard", "the policy is now throttle, it was important",
	} {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR2))
		require.Equal(t, want, <-reported)
		require.Equal(t, "nice stays 10", <-reported)
	}
	require.Equal(t, iopolicy.Throttle, next(iopolicy.Passive))

	j = newJob(iopolicy.Utility)
	j.stubborn = errors.New("no")
	var notes []string
	step(j.Job, func(text string) { notes = append(notes, text) })
	require.Equal(t, []string{"the policy is still utility: no"}, notes)
}
