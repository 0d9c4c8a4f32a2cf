package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/machinestate"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// simulation is a service among faults, and an oracle that computes from the schedules what has to run.
type simulation struct {
	*world // its mutex guards all
	random *rand.Rand
	away   bool
	up     bool      // the service runs
	calm   time.Time // all is well since then; zero: it is not
	high   time.Time // the latest time that the wall clock has shown

	begun  map[string]time.Time // the begin of the run of a job by the wall clock
	latest map[string]time.Time // high at that time: the service may have seen it
	ended  map[string]bool      // runs, by ID
	open   map[string]bool      // a run of the job has begun and not ended
	served map[string]time.Time // the begin of the last run that needs no repetition
	spare  map[string]bool      // a kill has cut a run, which may be repeated
	total  int
	kills  int
}

// settled reports whether a run needs no repetition before the next time of the schedule.
func settled(r *event.Run) bool {
	if r.Outcome == "stopped" || len(r.Steps) == 0 || r.Message == "the service was killed while it ran" {
		return false
	}
	code := r.Steps[len(r.Steps)-1].ExitCode
	return code != exitNoRepo && code < exitSignal
}

// Event has the oracle follow the runs: a run for the second time needs a time of the schedule between their begins.
func (m *simulation) Event(e *record.Event) {
	m.mu.Lock()
	m.look()
	m.trace("%s kind %d %s %s %+v", e.Job, e.Kind, e.Trigger, e.Text, e.Run)
	switch e.Kind {
	case record.Started, record.Resumed:
		m.begun[e.Job], m.latest[e.Job], m.open[e.Job] = m.wall(), m.high, true
	case record.Finished:
		m.open[e.Job] = false
		if !settled(e.Run) || m.ended[e.Run.ID] { // after a kill, the end of a run is sent again
			break
		}
		m.ended[e.Run.ID] = true
		m.total++
		last := m.served[e.Job]
		if !last.IsZero() && !m.spare[e.Job] && m.schedule(e.Job).Next(last).After(m.latest[e.Job]) {
			m.t.Errorf("%s ran twice: %s and %s", e.Job, last, m.latest[e.Job])
		}
		m.served[e.Job], m.spare[e.Job] = m.begun[e.Job], false
	}
	m.mu.Unlock()
	m.world.Event(e)
	m.take()
	m.started()
}

// Start requires that two jobs with the same sources and repository do not run at the same time.
func (m *simulation) Start(s Step, progress func(*event.Status)) (Process, error) {
	p, err := m.world.Start(s, progress)
	m.mu.Lock()
	defer m.mu.Unlock()
	require.False(m.t, m.running["hourly"] && m.running["often"], "two jobs with the same sources")
	return p, err
}

func (m *simulation) schedule(name string) every {
	for _, j := range m.jobs {
		if j.Name == name {
			return j.Schedule.(every)
		}
	}
	panic(name)
}

// trace logs what happens, to be shown when the test fails.
func (m *simulation) trace(format string, a ...any) {
	times := []any{time.Now().Format("02 15:04:05"), m.wall().Format("02 15:04:05")}
	m.t.Logf("%s %s: "+format, append(times, a...)...)
}

// look follows the wall clock.
func (m *simulation) look() {
	if now := m.wall(); now.After(m.high) {
		m.high = now
	}
}

// watch requires each minute that nothing was missed: when all has been well for longer than anything can delay a run,
// the last time of each schedule is served.
func (m *simulation) watch(ctx context.Context) {
	const longest = 4 * time.Hour // the pause after failures, and three runs one after the other
	for ctx.Err() == nil {
		time.Sleep(time.Minute)
		m.mu.Lock()
		m.look()
		if !m.calm.IsZero() && time.Since(m.calm) > longest {
			for _, j := range m.jobs {
				e := j.Schedule.(every)
				want := e.Next(m.wall().Add(-longest)).Add(-e.period)
				if m.served[j.Name].Before(want) && !m.t.Failed() {
					m.t.Errorf("%s: nothing ran for %s; the last run began at %s", j.Name, want, m.served[j.Name])
				}
			}
		}
		m.mu.Unlock()
	}
}

// keepRunning starts the service again whenever it was killed.
func (m *simulation) keepRunning(ctx context.Context) {
	for {
		m.mu.Lock()
		m.loadErr, m.calls, m.up = nil, -1, true
		m.mu.Unlock()
		err := m.run(ctx)
		left, problem := readState(m.dir)
		require.NoError(m.t, problem)
		m.mu.Lock()
		m.up = false
		for name, open := range m.open {
			if r := left.Jobs[name]; open && r.Running == nil && r.LastRun != nil && settled(r.LastRun) {
				m.served[name] = m.begun[name] // it ended; the next service sends that
				m.ended[r.LastRun.ID] = true
			} else if open {
				m.spare[name] = true
			}
			m.open[name] = false
		}
		pause := time.Duration(1+m.random.IntN(300)) * time.Minute
		m.mu.Unlock()
		if !errors.Is(err, errKilled) {
			require.NoError(m.t, err)
			return
		}
		m.kills++
		m.mu.Lock()
		m.trace("killed, starts again in %s", pause)
		m.mu.Unlock()
		time.Sleep(pause)
	}
}

// disturb does one of the things that go wrong, and returns the time until the next.
func (m *simulation) disturb() (next time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.random
	switch r.IntN(8) {
	case 0, 1, 2:
		m.calls = r.IntN(60)
	case 3, 4:
		m.away = !m.away
		poke(m.changes)
	case 5: // back by less than the shortest period
		most := 50*time.Minute - m.high.Sub(m.wall())
		m.offset -= time.Duration(r.Float64() * float64(most))
	case 6:
		m.offset += time.Duration(r.IntN(30)) * time.Hour
	case 7:
		m.power = machinestate.Power{OnBattery: r.IntN(2) == 0}
		m.loadErr = []error{nil, errors.New("a mistake")}[r.IntN(2)]
		select {
		case m.reloads <- syscall.SIGHUP:
		default: // one is under way
		}
	}
	m.trace("away %t, power %v, load error %v, killed after %d calls", m.away, m.power, m.loadErr, m.calls)
	return time.Duration(r.IntN(3600)) * time.Second
}

func poke[T any](c chan T) {
	var v T
	select {
	case c <- v:
	default:
	}
}

// heal ends all disturbances, and returns when the service runs.
func (m *simulation) heal() {
	for {
		m.mu.Lock()
		m.away, m.power, m.loadErr, m.calls = false, machinestate.Power{}, nil, -1
		up := m.up
		if up {
			m.calm = time.Now()
		}
		m.mu.Unlock()
		if up {
			return
		}
		time.Sleep(time.Minute)
	}
}

func TestNothingIsMissedAndNothingRunsTwice(t *testing.T) {
	testkit.NoLeaks(t)
	for seed := range testkit.Rounds(1, 3, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, uint64(seed)) })
		})
	}
}

// simulate runs three jobs for about six days of faults and calm.
func simulate(t *testing.T, seed uint64) {
	often := makeJob(t, "often", every{6 * time.Hour, time.Hour}, "SCHEDULEJITTER 10m")
	hour := makeJob(t, "hourly", hourly())
	hour.Repository, hour.Sources = often.Repository, often.Sources
	m := &simulation{world: newWorld(t, often, hour, makeJob(t, "daily", daily(), "SCHEDULEJITTER 1h")),
		random: rand.New(rand.NewPCG(seed, 0)), begun: map[string]time.Time{}, latest: map[string]time.Time{},
		open: map[string]bool{}, ended: map[string]bool{}, served: map[string]time.Time{}, spare: map[string]bool{}}
	m.config.Sink, m.config.Start = m.Event, m.Start
	m.result = func(Step) (time.Duration, Result) {
		takes := time.Duration(m.random.IntN(1200)) * time.Second
		if m.away {
			return takes / 100, Result{ExitCode: exitNoRepo}
		}
		if m.calm.IsZero() && m.random.IntN(8) == 0 {
			return takes, Result{ExitCode: 137}
		}
		return takes, Result{ExitCode: []int{0, 0, 0, 0, exitIncomplete, 12}[m.random.IntN(6)]}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var tasks sync.WaitGroup
	tasks.Go(func() { m.keepRunning(ctx) })
	tasks.Go(func() { m.watch(ctx) })
	time.Sleep(time.Minute) // the service knows the jobs
	for range 6 {
		m.mu.Lock()
		m.calm = time.Time{}
		m.mu.Unlock()
		for range 20 {
			time.Sleep(m.disturb())
		}
		m.heal()
		time.Sleep(10 * time.Hour)
	}
	cancel()
	tasks.Wait()
	require.Greater(t, m.total, 50)
	require.Greater(t, m.kills, 10)
}
