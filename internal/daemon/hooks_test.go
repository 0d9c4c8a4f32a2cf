package daemon

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/record"
)

// TestTheOutputOfCommandsIsRecorded: what a command printed is in the log of its run, and the last lines of one that
// failed are in the message of the run, which is sent to people.
func TestTheOutputOfCommandsIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", daily()))
		w.result = func(Step) (time.Duration, Result) {
			var o output
			_, err := o.Write([]byte(`{"message_type":"hook","step":"before-command","error":"exit code 1",` +
				`"output":"1\n2\n3\n4\n5\nno space"}` + "\n" + `{"message_type":"exit_error","message":"refused"}` + "\n"))
			require.NoError(t, err)
			return 0, o.result(1)
		}
		stop := w.begin()
		time.Sleep(3 * time.Hour)
		require.NoError(t, stop())
		notes, message := "", ""
		for _, e := range w.take() {
			switch {
			case e.Kind == record.Note && e.Run != nil:
				notes += e.Text
			case e.Kind == record.Finished && message == "":
				message = e.Run.Message
			}
		}
		require.Contains(t, notes, "before-command printed: 1\n2\n3\n4\n5\nno space")
		require.True(t, strings.HasSuffix(message, "refused\nbefore-command printed: 2\n3\n4\n5\nno space"), message)
	})
}

// What a killed run owes is run at once and at the start of the service, and the job does not run beside it.
func TestTheServiceSettlesWhatAKilledRunOwes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", hourly()))
		asked := 0
		w.config.Settle = func(*job.Job) (bool, error) {
			w.set(func() { asked++ })
			time.Sleep(5 * time.Minute)
			return true, nil
		}
		w.set(func() {
			w.result = func(Step) (time.Duration, Result) { return time.Minute, Result{ExitCode: 137} }
		})
		s, stop := w.orders()
		synctest.Wait()
		require.Equal(t, 1, asked, "at its start")
		time.Sleep(11*time.Minute + 30*time.Second)
		require.Equal(t, 2, asked, "at once")
		require.Equal(t, []string{"home backup"}, w.started())
		time.Sleep(2 * time.Minute)
		require.Equal(t, "the AFTERCOMMAND of its run that was killed", only(t, s).WaitsFor)
		require.Empty(t, w.started())
		time.Sleep(4 * time.Minute)
		require.Equal(t, []string{"home backup"}, w.started(), "tried again afterwards")
		require.NoError(t, stop())
	})
}

// TestAShortLookIsNotReported: most often nothing is owed, and the job starts a moment later.
func TestAShortLookIsNotReported(t *testing.T) {
	for took, reported := range map[time.Duration]bool{time.Second / 10: false, time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, makeJob(t, "home", hourly()))
			require.NoError(t, w.run(expired(t)))
			time.Sleep(day)
			w.take()
			w.config.Settle = func(*job.Job) (bool, error) {
				time.Sleep(took)
				return false, nil
			}
			stop := w.begin()
			time.Sleep(5 * time.Minute)
			require.NoError(t, stop())
			waits := 0
			for _, e := range w.take() {
				if e.Kind == record.Waiting {
					waits++
				}
			}
			require.Equal(t, reported, waits > 0, took)
			require.Equal(t, []string{"home backup"}, w.started())
		})
	}
}

// expired is a context that ends soon.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}
