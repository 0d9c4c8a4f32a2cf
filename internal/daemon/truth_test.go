package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// truth is what is the case, as the steps meet it: the sources and the target change while a service runs, which is
// killed now and then. It compares what the service reports of each run with that.
type truth struct {
	*world // its mutex guards all
	random *rand.Rand
	source string // state of the second source
	locked int    // objects that cannot be read
	broken int    // exit code of each backup; 0: none
	rotten bool   // checks find damage

	met      string          // what the steps of the run have met: "", "incomplete", "failed"
	away     string          // state of the second source in the backup of the run
	unread   int             // objects that could not be read in it
	since    int             // incomplete runs since the last that was done
	alerted  string          // kind of the last alert since then
	named    map[string]bool // states of the source that were reported since then
	complete time.Time       // end of the last complete backup
	ended    map[string]int  // runs by outcome
	last     string          // ID of the run that ended last: after a kill its end may be sent again
	killed   int
}

// backup is the result of a backup in the present state of things.
func (m *truth) backup() Result {
	m.met, m.away, m.unread = "", "", m.locked
	switch {
	case m.broken != 0:
		m.met = record.Failed
		return Result{ExitCode: m.broken, Message: "broken"}
	case m.locked > 0 || m.source != "ok":
		m.met, m.away = record.Incomplete, m.source
		r := sourcesAre(exitIncomplete, "/a ok", "/b "+m.source)
		for i := range m.locked {
			r.Failures.Count++
			r.Failures.First = append(r.Failures.First, fmt.Sprintf("/a/%d: open: permission denied", i))
		}
		return r
	}
	return sourcesAre(0, "/a ok", "/b ok")
}

func (m *truth) step(s Step) (time.Duration, Result) {
	r := Result{}
	switch {
	case s.Name == "backup":
		r = m.backup()
	case s.Name == "check" && m.rotten:
		m.met = record.Failed
		r = Result{ExitCode: 1, Message: "damaged"}
	}
	return time.Duration(m.random.IntN(600)) * time.Second, r
}

// Event compares the end of a run with what was the case.
func (m *truth) Event(e *record.Event) {
	m.world.Event(e)
	if e.Kind != record.Finished {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Run.ID == m.last {
		return
	}
	m.last = e.Run.ID
	want := m.met
	switch {
	case e.Run.Outcome == record.Stopped:
		require.Empty(m.t, e.Alert)
		return
	case e.Run.Message == "the service was killed while it ran":
		want = record.Failed
	case want == "":
		want = record.Done
	}
	m.ended[want]++
	require.Equal(m.t, want, e.Run.Outcome, "%s", e.Run.Message)
	m.noFalseAlarm(e, want)
	m.noFalseSilence(e.Run, want)
	m.remembered(e.Run, want)
}

// remembered requires that the service remembers what is the case, as status shows it.
func (m *truth) remembered(r *event.Run, want string) {
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Step == "backup" && s.ExitCode == 0 {
			m.complete = s.End
		}
	}
	state, problem := readState(m.dir)
	require.NoError(m.t, problem)
	j := state.Jobs["home"]
	require.True(m.t, m.complete.Equal(j.LastBackup), "%s is not %s", j.LastBackup, m.complete)
	require.Equal(m.t, want == record.Failed, j.Failures > 0)
	require.Equal(m.t, m.since, j.Incomplete)
}

// noFalseAlarm requires that an alert says what is the case, and not what was reported.
func (m *truth) noFalseAlarm(e *record.Event, want string) {
	switch e.Alert {
	case "":
		return
	case record.Failed:
		require.Equal(m.t, record.Failed, want)
		require.NotEqual(m.t, record.Failed, m.alerted, "the same twice")
	case record.Incomplete:
		require.Equal(m.t, record.Incomplete, want)
		require.True(m.t, m.away != "ok" || m.since > 0, "the first run without some objects")
	case record.Recovered:
		require.Equal(m.t, record.Done, want)
		require.NotEmpty(m.t, m.alerted, "nothing was wrong")
	}
	m.alerted = e.Alert
	if e.Alert == record.Incomplete && m.away != "ok" {
		m.named[m.away] = true
	}
}

// noFalseSilence requires that what is wrong was reported.
func (m *truth) noFalseSilence(r *event.Run, want string) {
	switch want {
	case record.Failed:
		require.Equal(m.t, record.Failed, m.alerted)
	case record.Incomplete:
		m.since++
		require.True(m.t, m.away == "ok" || m.named[m.away], "%v is not reported", m.away)
		require.True(m.t, m.since < 2 || m.alerted != "", "two runs without some objects")
		if m.away != "ok" {
			require.Contains(m.t, r.Message, "source /b is "+m.away)
		}
		if m.unread > 0 {
			require.Contains(m.t, r.Message, "permission denied")
		}
	case record.Done:
		require.True(m.t, m.alerted == "" || m.alerted == record.Recovered, "the end is not reported")
		m.since, m.alerted, m.named = 0, "", map[string]bool{}
	}
}

// change is one of the things that happen, and the time until the next.
func (m *truth) change() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.random
	switch r.IntN(6) {
	case 0:
		m.source = []string{"missing", "empty", "unreadable"}[r.IntN(3)]
	case 1:
		m.locked = r.IntN(4)
	case 2:
		m.broken = []int{0, 1, 10, 12}[r.IntN(4)]
	case 3:
		m.rotten = !m.rotten
	case 4:
		m.calls = r.IntN(40)
	case 5:
		m.source, m.locked, m.broken, m.rotten = "ok", 0, 0, false
	}
	return time.Duration(r.IntN(5*3600)) * time.Second
}

// serve runs the service, again after each kill, until ctx ends.
func (m *truth) serve(ctx context.Context) {
	for {
		err := m.run(ctx)
		if !errors.Is(err, errKilled) {
			require.NoError(m.t, err)
			return
		}
		m.killed++
		time.Sleep(time.Duration(m.random.IntN(60)) * time.Minute)
		m.killAfter(-1)
	}
}

func TestNoFalseAlarmAndNoFalseSilence(t *testing.T) {
	for seed := range testkit.Rounds(3, 10, 100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &truth{random: rand.New(rand.NewPCG(uint64(seed), 5)), source: "ok", named: map[string]bool{},
					ended: map[string]int{}}
				m.world = newWorld(t, makeJob(t, "home", hourly(), "CHECKEVERY 3h"))
				m.config.Sink, m.result = m.Event, m.step
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); m.serve(ctx) }()
				for range 150 {
					time.Sleep(m.change())
				}
				cancel()
				<-done
				for _, outcome := range []string{record.Done, record.Incomplete, record.Failed} {
					require.NotZero(t, m.ended[outcome], outcome)
				}
				require.NotZero(t, m.killed)
			})
		})
	}
}
