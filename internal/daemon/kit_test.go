package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/machinestate"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// every is a schedule of one time in each period.
type every struct{ period, offset time.Duration }

func (e every) Next(t time.Time) time.Time {
	next := t.Add(-e.offset).Truncate(e.period).Add(e.offset)
	for !next.After(t) {
		next = next.Add(e.period)
	}
	return next
}

func (e every) String() string { return fmt.Sprintf("every %s at %s", e.period, e.offset) }

// makeJob returns a job with the lines of an option file.
func makeJob(t testing.TB, name string, s job.Schedule, lines ...string) *job.Job {
	t.Helper()
	plain := []string{"SCHEDULEJITTER 0", "CHECKEVERY 0", "DRILLEVERY 0", "ALERTAFTER 0"}
	text := strings.Join(append(plain, lines...), "\n")
	env := func(variable string) (string, bool) {
		if variable == "TIDEMARK_OPTIONS" {
			return "/options", true
		}
		return "", false
	}
	spec, _, err := options.Resolve(nil, env, func(string) ([]byte, error) { return []byte(text + "\n"), nil })
	require.NoError(t, err)
	return &job.Job{Name: name, File: "/options", Server: name, Sources: []string{"/" + name}, Repository: "/repo/" + name,
		Schedule: s, Spec: spec}
}

// errKilled is what a call of the loop panics with when the service is killed.
var errKilled = errors.New("killed")

// world is all around a service, in a bubble of testing/synctest.
type world struct {
	t      testing.TB
	dir    string
	jobs   []*job.Job
	config *Config

	mu      sync.Mutex
	offset  time.Duration // of the wall clock
	calls   int           // until the service is killed; below 0: it is not
	dead    chan struct{} // closed when it is
	result  func(s Step) (time.Duration, Result)
	power   machinestate.Power
	mounted map[string]bool
	loadErr error
	invalid []job.Invalid
	changes chan struct{}
	reloads chan os.Signal
	sleeps  chan bool
	events  []record.Event
	steps   []string // "job step"
	running map[string]bool
	ready   int                 // calls of Ready
	held    int                 // inhibitions of sleep
	most    int                 // steps at the same time
	says    func(*event.Status) // of the step that began last
}

func newWorld(t testing.TB, jobs ...*job.Job) *world {
	w := &world{t: t, dir: filepath.Join(testkit.RamDir(t), "state"), jobs: jobs, calls: -1, dead: make(chan struct{}),
		mounted: map[string]bool{}, changes: make(chan struct{}, 1), reloads: make(chan os.Signal, 1),
		sleeps: make(chan bool), running: map[string]bool{}}
	w.result = func(Step) (time.Duration, Result) { return time.Minute, Result{} }
	w.config = &Config{OptionFile: "/nosuch/options", StateDir: w.dir, Host: "here",
		World: World{Clock: w, Machine: w, Sink: w.Event, Start: w.Start, Reload: w.reloads},
		Facts: Facts{Load: w.load, Remote: func(j *job.Job) bool { return strings.HasPrefix(j.Repository, "smb:") }}}
	return w
}

// call counts a call of the loop, and kills the service at the last one.
func (w *world) call() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls < 0 {
		return
	}
	if w.calls--; w.calls < 0 {
		close(w.dead)
		panic(errKilled)
	}
}

// killAfter has the service killed after a number of calls.
func (w *world) killAfter(calls int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = calls
}

// jump steps the wall clock.
func (w *world) jump(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offset += d
}

func (w *world) load() ([]*job.Job, []job.Invalid, error) {
	w.call()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.jobs), w.invalid, w.loadErr
}

func (w *world) Now() time.Time {
	w.call()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wall()
}

// wall returns the wall clock; w.mu is held.
func (w *world) wall() time.Time { return time.Now().Round(0).Add(w.offset) }

func (w *world) After(d time.Duration) <-chan time.Time { w.call(); return time.After(d) }

func (w *world) Power(context.Context) machinestate.Power {
	w.call()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.power
}

func (w *world) Inhibit(context.Context, string) func() {
	w.call()
	w.set(func() { w.held++ })
	return func() { w.set(func() { w.held-- }) }
}

// inhibited returns how many inhibitions of sleep there are.
func (w *world) inhibited() (n int) {
	w.set(func() { n = w.held })
	return n
}

// set changes the world while a service runs.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) Sleeps(context.Context) <-chan bool      { return w.sleeps }
func (w *world) Ready()                                  { w.set(func() { w.ready++ }) }
func (w *world) Changes(context.Context) <-chan struct{} { return w.changes }

func (w *world) Mounted(_, label string) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return "/mnt", w.mounted[label]
}

func (w *world) Event(e *record.Event) {
	w.call()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, *e)
}

// fake is a step that takes time and does nothing.
type fake struct {
	w      *world
	name   string
	takes  time.Duration
	result Result
	stop   chan struct{}
	once   sync.Once
	dead   chan struct{}
}

func (w *world) Start(s Step, progress func(*event.Status)) (Process, error) {
	w.call()
	w.mu.Lock()
	defer w.mu.Unlock()
	name := ""
	for i, arg := range s.Args {
		if arg == "--server-name" {
			name = s.Args[i+1]
		}
	}
	w.steps = append(w.steps, name+" "+s.Name)
	require.False(w.t, w.running[name], "two steps of %s at a time", name)
	w.running[name] = true
	w.most = max(w.most, len(w.running))
	takes, result := w.result(s)
	w.says = progress
	progress(&event.Status{Phase: "scanning"})
	return &fake{w: w, name: name, takes: takes, result: result, stop: make(chan struct{}), dead: w.dead}, nil
}

func (f *fake) PID() int { return 4711 }
func (f *fake) Stop()    { f.once.Do(func() { close(f.stop) }) }

func (f *fake) Wait() Result {
	r := f.result
	timer := time.NewTimer(f.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.stop:
		r = Result{ExitCode: 130, Message: "interrupted"}
	case <-f.dead:
		r = Result{ExitCode: 143}
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	delete(f.w.running, f.name)
	return r
}

// begin starts the service. stop ends it and returns its error; errKilled if it was killed.
func (w *world) begin() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	w.t.Cleanup(func() { _ = stop() }) // of a test that failed
	return stop
}

// run runs the service until it is killed or ctx ends.
func (w *world) run(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err, _ = r.(error)
			if !errors.Is(err, errKilled) {
				panic(r)
			}
		}
	}()
	w.mu.Lock()
	w.dead = make(chan struct{})
	w.mu.Unlock()
	return Run(ctx, w.config)
}

// started returns the steps that were started since the last call.
func (w *world) started() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.steps
	w.steps = nil
	return all
}

// runs returns the runs that ended since the last call, as "job trigger outcome".
func (w *world) runs() (all []string) {
	for _, e := range w.take() {
		if e.Kind == record.Finished {
			all = append(all, e.Run.Job+" "+string(e.Run.Trigger)+" "+e.Run.Outcome)
		}
	}
	return all
}

// take returns the events since the last call.
func (w *world) take() []record.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.events
	w.events = nil
	return all
}

// service is a service whose orders the test gives itself.
func (w *world) orders() (*service, func() error) {
	unlock, err := lock(w.dir)
	require.NoError(w.t, err)
	s := newService(w.config)
	require.NoError(w.t, s.load())
	s.recover()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.loop(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); defer unlock(); return <-ended })
	w.t.Cleanup(func() { _ = stop() })
	return s, stop
}

// only returns the state of the only job.
func only(t testing.TB, s *service) event.DaemonJob {
	t.Helper()
	d, err := s.order(control.Command{Action: control.ShowStatus})
	require.NoError(t, err)
	require.Len(t, d.Jobs, 1)
	return d.Jobs[0]
}
