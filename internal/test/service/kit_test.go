package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// patience is how long something may take on a machine that is busy with other tests.
const patience = 2 * time.Minute

// user is whose the service is if root runs the test: some number, another one for tests that run at the same time.
var user = 60000 + os.Getpid()%4000

// receiver is the webhook and the healthcheck.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	down  bool
	pings []string             // "/start", "", "/fail", "/log"
	mails []event.Notification // what the webhook got
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if rest, ok := strings.CutPrefix(q.URL.Path, "/ping"); ok {
			r.pings = append(r.pings, rest)
			return
		}
		var m event.Notification
		if json.NewDecoder(q.Body).Decode(&m) == nil {
			r.mails = append(r.mails, m)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// take returns what came since the last call.
func (r *receiver) take() (pings []string, mails []event.Notification) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pings, mails = r.pings, r.mails
	r.pings, r.mails = nil, nil
	return pings, mails
}

func (r *receiver) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// siege is a service that is attacked.
type siege struct {
	t       *testing.T
	program string
	dir     string // all else lies below
	env     []string
	daemon  *exec.Cmd
	log     *os.File
	web     *receiver
	user    *syscall.SysProcAttr // whose the service is; nil: who runs the test
	round   int
}

func begin(t *testing.T) *siege {
	t.Helper()
	testkit.Slow(t)
	s := &siege{t: t, dir: testkit.RamDir(t), web: newReceiver(t)}
	if os.Getuid() == 0 { // root reads everything
		s.user = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
		s.give(s.dir)
	}
	bin, err := os.MkdirTemp("", "tidemark-") // in the memory, no program may be allowed
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(bin) })
	require.NoError(t, os.Chmod(bin, 0o755))
	s.program = filepath.Join(bin, "attacked") // other tests look for services of the machine by their name
	testkit.Build(t, "tidemark", s.program)
	for _, name := range []string{"home", "run", "photos", "letters"} {
		require.NoError(t, os.Mkdir(s.at(name), 0o700))
		s.give(s.at(name))
	}
	for _, source := range []string{"photos", "letters"} {
		for i := range 40 {
			s.write(fmt.Sprintf("%s/%02d", source, i), fmt.Sprintf("%s %d\n", source, i))
		}
	}
	s.env = []string{"HOME=" + s.at("home"), "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + s.at("run"), "TZ=UTC",
		"XDG_STATE_HOME=" + s.at("state"), "XDG_CACHE_HOME=" + s.at("cache"), "TIDEMARK_POLICY=important",
		"XDG_CONFIG_HOME=" + s.at("config"), "TIDEMARK_OPTIONS=" + s.at("opt")}
	s.options()
	s.log, err = os.Create(s.at("daemon.log"))
	require.NoError(t, err)
	_, code := s.tidemark("init", "--repo", s.at("repo"))
	require.Zero(t, code)
	s.start()
	t.Cleanup(func() {
		s.stop(syscall.SIGKILL)
		if t.Failed() {
			text, _ := os.ReadFile(s.log.Name())
			t.Logf("the service printed:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return s
}

func (s *siege) at(name string) string { return filepath.Join(s.dir, name) }

func (s *siege) write(name, content string) {
	require.NoError(s.t, os.WriteFile(s.at(name), []byte(content), 0o600))
	s.give(s.at(name))
}

// give makes the user of the service the owner of what the test has made.
func (s *siege) give(path string) {
	if s.user != nil {
		require.NoError(s.t, os.Chown(path, user, user))
	}
}

// text is the option file. Every run reads back the whole repository.
func (s *siege) text() string {
	return fmt.Sprintf(`SERVERNAME home
  SCHEDULE never
  DOMAIN %s %s
  REPOSITORY %s
  KEEPSNAPSHOTS "last 3"
  BEFORECOMMAND "sleep 0.2"
  CHECKEVERY 1s
  CHECKPARTS 1
  DRILLEVERY 0
  PRUNEEVERY 1s
  NOTIFYDESKTOP no
  NOTIFYWEBHOOK %s/hook
  HEALTHCHECK %s/ping
  METRICSFILE %s
  NOTIFYLIMIT 1000
  SYSLOG off
`, s.at("photos"), s.at("letters"), s.at("repo"), s.web.URL, s.web.URL, s.at("metrics.prom"))
}

func (s *siege) options() { s.write("opt", s.text()) }

// start starts the service, and waits until it answers.
func (s *siege) start() {
	s.daemon = exec.Command(s.program, "daemon")
	s.daemon.Env, s.daemon.Stdout, s.daemon.Stderr, s.daemon.Dir = s.env, s.log, s.log, s.dir
	s.daemon.SysProcAttr = s.user
	require.NoError(s.t, s.daemon.Start())
	s.until("the service answers", func() bool {
		_, code := s.tidemark("job", "resume", "--all")
		return code == 0
	})
}

func (s *siege) stop(signal syscall.Signal) {
	_ = s.daemon.Process.Signal(syscall.SIGCONT)
	_ = s.daemon.Process.Signal(signal)
	_ = s.daemon.Wait()
}

// tidemark runs a command, and returns its standard output.
func (s *siege) tidemark(args ...string) (out string, code int) {
	c := exec.CommandContext(s.t.Context(), s.program, args...)
	var stdout, stderr bytes.Buffer
	c.Env, c.Stdout, c.Stderr, c.Dir, c.SysProcAttr = s.env, &stdout, &stderr, s.dir, s.user
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(s.t, err)
	}
	return stdout.String() + stderr.String(), c.ProcessState.ExitCode()
}

// until waits for something that another process does. Most looks start a process: they get a third of the time.
func (s *siege) until(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; {
		begun := time.Now()
		if done() {
			return
		}
		require.True(s.t, time.Now().Before(end), "it did not happen: "+what)
		time.Sleep(max(20*time.Millisecond, 2*time.Since(begun)))
	}
}

// ended returns the runs that have ended, oldest first.
func (s *siege) ended() (runs []event.Run) {
	out, _ := s.tidemark("log", "--runs", "--json")
	for line := range strings.Lines(out) {
		var r event.Run
		if json.Unmarshal([]byte(line), &r) == nil && r.Type == "run" {
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b event.Run) int { return a.End.Compare(b.End) })
	return runs
}

// seen is what can be seen from outside after a run.
type seen struct {
	run     event.Run
	pings   []string
	mails   []event.Notification
	status  string
	code    int // of status
	metrics string
}

// run has the job run once, and returns what is seen then.
func (s *siege) run() seen {
	s.t.Helper()
	s.web.take()
	var asked time.Time
	s.until("the job starts", func() bool {
		asked = time.Now() // an earlier run may still end
		_, code := s.tidemark("job", "start", "home")
		return code == 0
	})
	var runs []event.Run
	s.until("the run ends", func() bool {
		runs = s.ended()
		return len(runs) > 0 && runs[len(runs)-1].Start.After(asked)
	})
	return s.look(runs[len(runs)-1])
}

// look returns what is seen when the messages of a run have arrived: each run ends with a ping.
func (s *siege) look(run event.Run) seen {
	s.t.Helper()
	v := seen{run: run}
	s.until("the ping at the end of the run", func() bool {
		pings, mails := s.web.take()
		v.pings, v.mails = append(v.pings, pings...), append(v.mails, mails...)
		return len(v.pings) > 0 && v.pings[len(v.pings)-1] != "/start"
	})
	time.Sleep(300 * time.Millisecond) // a message that should not come would follow
	pings, mails := s.web.take()
	v.pings, v.mails = append(v.pings, pings...), append(v.mails, mails...)
	v.status, v.code = s.tidemark("status", "home")
	content, err := os.ReadFile(s.at("metrics.prom"))
	require.NoError(s.t, err)
	v.metrics = string(content)
	return v
}

// alarms returns the kinds of the notifications.
func (v *seen) alarms() (kinds []string) {
	for i := range v.mails {
		kinds = append(kinds, v.mails[i].Kind)
	}
	return kinds
}

func (v *seen) String() string {
	return fmt.Sprintf("run %s %s: %s\npings %q, notifications %q, status exits %d:\n%s", v.run.ID, v.run.Outcome,
		v.run.Message, v.pings, v.alarms(), v.code, v.status)
}

// whole reports whether a snapshot has everything that the sources had at the beginning. A restore
// shows it.
func (s *siege) whole(snapshot string) bool {
	if snapshot == "" {
		return false
	}
	target := s.at(fmt.Sprintf("out%d", s.round))
	defer os.RemoveAll(target)
	if out, code := s.tidemark("restore", snapshot, "--repo", s.at("repo"), "--target", target,
		"--option-file", os.DevNull); code != 0 {
		s.t.Logf("restore: %s", out)
		return false
	}
	for _, source := range []string{"photos", "letters"} {
		for i := range 40 {
			content, err := os.ReadFile(filepath.Join(target, s.at(source), fmt.Sprintf("%02d", i)))
			if err != nil || string(content) != fmt.Sprintf("%s %d\n", source, i) {
				return false
			}
		}
	}
	return true
}

// flip changes one byte in the middle of a pack.
func (s *siege) flip(path string) {
	info, err := os.Stat(path)
	require.NoError(s.t, err)
	require.NoError(s.t, os.Chmod(path, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(s.t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, info.Size()/2)
	require.NoError(s.t, err)
	_, err = f.WriteAt([]byte{b[0] ^ 1}, info.Size()/2)
	require.NoError(s.t, err)
}
