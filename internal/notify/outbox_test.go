package notify

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// receivers answer to all ways. They can be down.
type receivers struct {
	mu    sync.Mutex
	down  bool
	tries int
	got   []string
}

func (r *receivers) senders() senders {
	s := senders{}
	for _, way := range []string{Mail, Webhook, Healthcheck, Desktop} {
		s[way] = func(_ context.Context, o *options.Notify, m *event.Notification) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.tries++
			if r.down {
				return errors.New("connection refused")
			}
			r.got = append(r.got, strings.TrimSpace(m.Kind+" "+m.Job+" "+o.Webhook))
			return nil
		}
	}
	return s
}

func (r *receivers) set(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// take returns what was accepted since the last call, and the number of attempts.
func (r *receivers) take() (got []string, tries int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got, tries = r.got, r.tries
	r.got, r.tries = nil, 0
	return got, tries
}

// kill ends a Notifier as a kill does: nothing is delivered or removed any more.
func kill(n *Notifier) {
	n.stop()
	<-n.ended
}

func happened(kind record.Kind, job, outcome, alert string) *record.Event {
	return &record.Event{At: time.Now(), Kind: kind, Job: job, Text: "text", Alert: alert,
		Run: &event.Run{ID: "r1", Job: job, Outcome: outcome, Message: "disk full", Start: time.Now(), End: time.Now()}}
}

// TestKilledServiceLosesNoAlarm: a webhook that is down at the first failure gets the message when it is up, whether
// the service was killed in between, and also when it was killed before the first attempt. The files have no secrets.
func TestKilledServiceLosesNoAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receivers{down: true}
		dir := filepath.Join(testkit.RamDir(t), "notify")
		hook := options.Notify{Webhook: "https://host/S3CRET"}
		service := func() *Notifier {
			n := newNotifier(Config{Of: of(hook), Log: (&collector{}).Event, Dir: dir}, r.senders())
			n.Event(&record.Event{Kind: record.Loaded})
			synctest.Wait()
			return n
		}
		n := service()
		n.Event(happened(record.Finished, "home", record.Failed, record.Failed))
		synctest.Wait()
		kill(n)
		_, tries := r.take()
		require.Equal(t, 1, tries)
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := d.Info()
			require.NoError(t, err)
			if d.IsDir() {
				require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
				return nil
			}
			require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotContains(t, string(content), "S3CRET")
			return nil
		}))

		n = service()
		n.stop() // before the next attempt
		<-n.ended
		n.Event(happened(record.Finished, "home", record.Done, record.Recovered))
		r.set(false)
		n = service()
		time.Sleep(time.Minute)
		kill(n)
		got, _ := r.take()
		require.Equal(t, []string{"failed home https://host/S3CRET", "recovered home https://host/S3CRET"}, got)

		n = service()
		time.Sleep(day)
		kill(n)
		_, tries = r.take()
		require.Zero(t, tries, "what was accepted is not sent again")
	})
}

// TestAttemptsGrowRare: a receiver that is down for a day is tried at growing intervals, and gets all messages in
// order. Others are not delayed.
func TestAttemptsGrowRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receivers{down: true}
		c := Config{Log: (&collector{}).Event, Dir: filepath.Join(testkit.RamDir(t), "notify"),
			Of: func(job string) (options.Notify, bool) {
				return options.Notify{Webhook: map[string]string{"one": "a", "two": "a", "three": "b"}[job]}, true
			}}
		all := r.senders()
		s := senders{Webhook: func(ctx context.Context, o *options.Notify, m *event.Notification) error {
			if o.Webhook == "b" {
				return nil
			}
			return all[Webhook](ctx, o, m)
		}}
		n := newNotifier(c, s)
		for _, job := range []string{"three", "one", "two", "one"} {
			n.Event(happened(record.Silent, job, "", ""))
		}
		time.Sleep(day)
		_, tries := r.take()
		require.Greater(t, tries, 20)
		require.Less(t, tries, 40)
		r.set(false)
		time.Sleep(longWait + time.Minute)
		got, _ := r.take()
		require.Equal(t, []string{"silent one a", "silent two a", "silent one a"}, got)
		kill(n)
	})
}

// TestPingsComeInOrder: each start is followed by a success or a failure, also after a stop. A receiver that was down
// gets the newest state alone: an old success after a newer failure would hide it.
func TestPingsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receivers{}
		c := Config{Of: of(options.Notify{Healthcheck: "https://x"}), Log: (&collector{}).Event,
			Dir: filepath.Join(testkit.RamDir(t), "notify")}
		n := newNotifier(c, r.senders())
		run := func(outcome string) {
			n.Event(happened(record.Started, "home", "", ""))
			n.Event(happened(record.Finished, "home", outcome, ""))
		}
		run(record.Done)
		run(record.Stopped)
		time.Sleep(time.Minute)
		got, _ := r.take()
		require.Equal(t, []string{"start home", "done home", "start home", "failed home"}, got)

		r.set(true)
		for _, outcome := range []string{record.Done, record.Done, record.Failed} {
			run(outcome)
			time.Sleep(time.Hour)
		}
		n.Event(happened(record.Started, "home", "", ""))
		time.Sleep(time.Minute)
		kill(n)
		r.set(false)
		n = newNotifier(c, r.senders())
		n.Event(&record.Event{Kind: record.Loaded})
		n.Event(happened(record.Finished, "home", record.Failed, record.Failed)) // of the run that was killed
		time.Sleep(time.Minute)
		got, _ = r.take()
		require.Equal(t, []string{"start home", "failed home"}, got)

		r.set(true)
		n.Event(happened(record.Finished, "home", record.Done, ""))
		time.Sleep(2 * day)
		r.set(false)
		time.Sleep(day)
		got, _ = r.take()
		require.Empty(t, got, "a success of the day before yesterday is no success of today")
		kill(n)
	})
}

// TestTestIsNoSuccessPing: a test must not hide that no backup was made.
func TestTestIsNoSuccessPing(t *testing.T) {
	paths := make(chan string, 1)
	s, _ := server(t, func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.Path })
	all := senders{Healthcheck: ping}
	o := &options.Notify{Healthcheck: s.URL + "/id"}
	require.Empty(t, all.test(t.Context(), o, event.Notification{Kind: test, Job: "home"})[0].Error)
	require.Equal(t, "/id/log", <-paths)
}

// TestMessagesOfOneCauseAreLimited: of a job that fails and recovers all the time, people get notify-limit messages a
// day of each kind, and at last how it ended.
func TestMessagesOfOneCauseAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receivers{}
		n := newNotifier(Config{Of: of(options.Notify{Desktop: true, Limit: 3}), Log: (&collector{}).Event,
			Dir: filepath.Join(testkit.RamDir(t), "notify")}, r.senders())
		for range 20 {
			n.Event(happened(record.Finished, "home", record.Failed, record.Failed))
			time.Sleep(time.Minute)
			n.Event(happened(record.Finished, "home", record.Done, record.Recovered))
			time.Sleep(time.Minute)
		}
		n.Event(happened(record.Finished, "home", record.Failed, record.Failed))
		n.Event(happened(record.Silent, "home", "", ""))
		n.Event(happened(record.Finished, "home", record.Failed, record.Failed))
		time.Sleep(time.Hour)
		got, _ := r.take()
		require.Equal(t, "failed home,recovered home,failed home,recovered home,failed home,recovered home,silent home",
			strings.Join(got, ","))
		time.Sleep(day)
		got, _ = r.take()
		require.Equal(t, []string{"failed home"}, got)
		kill(n)
	})
}

// TestTheEndOfAReportedFailureIsReported, whatever the limit: otherwise the failure seems to last.
func TestTheEndOfAReportedFailureIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receivers{}
		n := newNotifier(Config{Of: of(options.Notify{Desktop: true, Limit: 1}), Log: (&collector{}).Event,
			Dir: filepath.Join(testkit.RamDir(t), "notify")}, r.senders())
		for _, outcome := range []string{record.Failed, record.Incomplete, record.Failed} {
			n.Event(happened(record.Finished, "home", outcome, outcome))
			time.Sleep(time.Minute)
			n.Event(happened(record.Finished, "home", record.Done, record.Recovered))
			time.Sleep(time.Minute)
		}
		time.Sleep(2 * day)
		got, _ := r.take()
		require.Equal(t, []string{"failed home", "recovered home", "incomplete home", "recovered home"}, got)
		kill(n)
	})
}

// TestTheLastMessageIsNeverFalse: with the limit reached, no message reads as if its news would last, and the failure
// that waits is sent when the day is over, whatever else was sent meanwhile.
func TestTheLastMessageIsNeverFalse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, got := recorder(Webhook)
		n := newNotifier(Config{Of: of(options.Notify{Webhook: "x", Limit: 1}), Log: (&collector{}).Event,
			Dir: filepath.Join(testkit.RamDir(t), "notify")}, s)
		end := func(outcome, alert string) {
			n.Event(happened(record.Finished, "home", outcome, alert))
			time.Sleep(time.Minute)
		}
		until := time.Now().Add(day).Format("2006-01-02 15:04")
		limit := "; further failures are not reported before " + until + " (NOTIFYLIMIT)"
		end(record.Failed, record.Failed)
		end(record.Done, record.Recovered)
		n.Event(happened(record.Warned, "home", "", warned))
		n.Event(happened(record.Warned, "home", "", warned)) // it is held back
		end(record.Failed, record.Failed)
		n.Event(happened(record.Silent, "home", "", ""))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"webhook failed Backup failed: disk full" + limit,
			"webhook recovered Backups succeed again" + limit, "webhook warning Warning: text",
			"webhook silent No backup for too long: text"}, got())
		time.Sleep(day)
		held := got()
		require.Len(t, held, 2, "the failure does not replace the warning, nor silence the failure")
		require.Contains(t, held[1], "webhook warning")
		require.Contains(t, held[0], "webhook failed Backup failed: disk full (held back since ")
		end(record.Failed, record.Failed) // of another cause: it is held back
		end(record.Done, record.Recovered)
		last := got()
		require.Len(t, last, 1, "the end of a failure that was reported is reported")
		require.Contains(t, last[0], "recovered")
		kill(n)
	})
}

// TestSummaryComesEachWeek: with its counts, also if there was no run.
func TestSummaryComesEachWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts []string
		c := Config{Of: of(options.Notify{Desktop: true, Summary: true}), Jobs: func() []string { return []string{"home"} },
			Log: (&collector{}).Event, Dir: filepath.Join(testkit.RamDir(t), "notify")}
		s := senders{Desktop: func(_ context.Context, _ *options.Notify, m *event.Notification) error {
			texts = append(texts, m.Text)
			return nil
		}}
		n := newNotifier(c, s)
		n.Event(&record.Event{Kind: record.Loaded})
		time.Sleep(3 * day)
		for _, outcome := range []string{record.Done, record.Failed, record.Done} {
			n.Event(happened(record.Finished, "home", outcome, ""))
		}
		kill(n)
		c.Past = []event.Run{{Job: "home", Outcome: record.Done, End: time.Now()}}
		n = newNotifier(c, s)
		n.Event(&record.Event{Kind: record.Loaded})
		time.Sleep(5 * day)
		n.Event(happened(record.Finished, "home", record.Incomplete, ""))
		time.Sleep(8 * day)
		kill(n)
		require.Len(t, texts, 2)
		require.Contains(t, texts[0], "In the last 7 days: 1 run, 1 complete, 0 incomplete, 0 failed")
		require.Contains(t, texts[1], "1 run, 0 complete, 1 incomplete, 0 failed, 0 stopped; last complete run: none")
	})
}
