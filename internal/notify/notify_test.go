package notify

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(testkit.RunWithOwnMounts(m)) }

func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

// collector is a sink that keeps the texts of notes.
type collector struct {
	mu    sync.Mutex
	texts []string
}

func (c *collector) Event(e *record.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts = append(c.texts, e.Text)
}

func (c *collector) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.texts...)
}

func ended(outcome string) *record.Event {
	return &record.Event{At: noon(), Kind: record.Finished, Job: "home", Run: &event.Run{ID: "r1", Job: "home",
		Outcome: outcome,
		Message: "disk full", Start: noon().Add(-time.Minute), End: noon()}}
}

func message() *event.Notification {
	return &event.Notification{Type: "notification", Kind: failed, Host: "box", Job: "home", Time: noon(),
		Text: "Backup failed: x"}
}

// recorder returns senders that record what they are given, and what they recorded.
func recorder(ways ...string) (senders, func() []string) {
	var mu sync.Mutex
	var got []string
	s := senders{}
	for _, way := range ways {
		s[way] = func(_ context.Context, _ *options.Notify, m *event.Notification) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, way+" "+m.Kind+" "+m.Text)
			return nil
		}
	}
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		all := got
		got = nil
		return all
	}
}

func of(o options.Notify) func(string) (options.Notify, bool) {
	return func(string) (options.Notify, bool) { return o, true }
}

// notifier returns a Notifier with an outbox of its own, for which it is always noon.
func notifier(t *testing.T, o options.Notify, log *collector, s senders) *Notifier {
	n := newNotifier(Config{Of: of(o), Log: log.Event, Host: "box", Dir: filepath.Join(t.TempDir(), "notify")}, s)
	n.now = noon
	return n
}

// alerted is the end of a run with an alert.
func alerted(outcome, alert string) *record.Event {
	e := ended(outcome)
	e.Alert = alert
	return e
}

func TestAlertsAndSilenceAreReported(t *testing.T) {
	s, got := recorder(Webhook)
	n := notifier(t, options.Notify{Webhook: "https://x"}, &collector{}, s)
	for _, e := range []*record.Event{ended(record.Done), alerted(record.Failed, record.Failed), ended(record.Failed),
		alerted(record.Incomplete, record.Incomplete), alerted(record.Done, record.Recovered)} {
		n.Event(e)
	}
	n.Event(&record.Event{At: noon(), Kind: record.Silent, Job: "home", Text: "3 days"})
	n.Event(&record.Event{At: noon(), Kind: record.Warned, Job: "home", Text: "most files changed", Alert: warned})
	n.Event(&record.Event{At: noon(), Kind: record.Warned, Job: "home", Text: "as before"})
	n.Event(&record.Event{At: noon(), Kind: record.Waiting, Job: "home", Text: "on battery"})
	require.NoError(t, n.Close())
	require.Equal(t, []string{"webhook failed Backup failed: disk full",
		"webhook incomplete Backup incomplete: disk full", "webhook recovered Backups succeed again",
		"webhook silent No backup for too long: 3 days", "webhook warning Warning: most files changed"}, got())
}

func TestHealthcheckGetsEveryRun(t *testing.T) {
	s, got := recorder(Healthcheck)
	n := notifier(t, options.Notify{Healthcheck: "https://x"}, &collector{}, s)
	n.Event(&record.Event{At: noon(), Kind: record.Started, Job: "home"})
	n.Event(alerted(record.Failed, record.Failed))
	n.Event(ended(record.Incomplete))
	n.Event(ended(record.Done))
	require.NoError(t, n.Close())
	require.Equal(t, []string{"healthcheck start Starting automatic backup", "healthcheck failed Backup failed: disk full",
		"healthcheck failed Backup incomplete: disk full", "healthcheck done Finished after 60 s: disk full"}, got())
}

func TestWaysThatTheOptionsDoNotNameGetNothing(t *testing.T) {
	s, got := recorder(Mail, Webhook, Healthcheck, Desktop)
	n := notifier(t, options.Notify{}, &collector{}, s)
	n.Event(alerted(record.Failed, record.Failed))
	require.NoError(t, n.Close())
	require.Empty(t, got())
}

func TestFailingWayIsNotedOnceAndDelaysNothing(t *testing.T) {
	log := &collector{}
	release := make(chan struct{})
	s := senders{Webhook: func(context.Context, *options.Notify, *event.Notification) error {
		<-release
		return errors.New("no route")
	}}
	n := notifier(t, options.Notify{Webhook: "https://x"}, log, s)
	for range 42 { // returns although nothing is delivered
		n.Event(&record.Event{At: noon(), Kind: record.Silent, Job: "home"})
	}
	require.Empty(t, log.all())
	close(release)
	require.NoError(t, n.Close())
	require.Len(t, log.all(), 1)
	require.Contains(t, log.all()[0], "Notification by webhook failed: no route; it is kept and sent again")
}

// server returns a server that counts its requests.
func server(t *testing.T, handle http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	var count atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return s, &count
}

func TestWebhookGetsJSON(t *testing.T) {
	var got event.Notification
	s, _ := server(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/json" &&
			r.URL.RawQuery == "key=S3CRET" {
			_ = json.NewDecoder(r.Body).Decode(&got)
		}
	})
	require.NoError(t, post(t.Context(), &options.Notify{Webhook: s.URL + "/hook?key=S3CRET"}, message()))
	require.Equal(t, *message(), got)
}

func TestOnlyAnAnswerOfSuccessIsOne(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusNotFound} {
		s, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		require.ErrorContains(t, post(t.Context(), &options.Notify{Webhook: s.URL}, message()), http.StatusText(status))
	}
}

func TestSlowServerEndsByTimeout(t *testing.T) {
	done := make(chan struct{})
	s, _ := server(t, func(http.ResponseWriter, *http.Request) { <-done })
	defer close(done)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, post(ctx, &options.Notify{Webhook: s.URL}, message()), "no answer within")
}

func TestRedirectsKeepSchemeAndMethod(t *testing.T) {
	target, reached := server(t, func(http.ResponseWriter, *http.Request) {})
	to := func(status int, url string) (*httptest.Server, *atomic.Int32) {
		s, count := server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, status) })
		return s, count
	}
	same, _ := to(http.StatusTemporaryRedirect, target.URL)
	require.NoError(t, post(t.Context(), &options.Notify{Webhook: same.URL}, message()))
	require.EqualValues(t, 1, reached.Load())

	lost, count := to(http.StatusFound, target.URL)
	require.ErrorContains(t, post(t.Context(), &options.Notify{Webhook: lost.URL}, message()), "it redirects in a way")
	require.EqualValues(t, 1, count.Load(), "it is not tried again")

	for _, url := range []string{"https" + strings.TrimPrefix(target.URL, "http"), "file:///etc/passwd", "gopher://x"} {
		other, _ := to(http.StatusTemporaryRedirect, url)
		require.ErrorContains(t, post(t.Context(), &options.Notify{Webhook: other.URL}, message()), "another scheme", url)
	}
	require.EqualValues(t, 1, reached.Load())

	var loop *httptest.Server
	loop, _ = server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
	})
	require.ErrorContains(t, post(t.Context(), &options.Notify{Webhook: loop.URL}, message()), "too many redirects")
}

func TestSecretsOfURLsAreInNoError(t *testing.T) {
	bad, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://%zz/S3CRET")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	host := strings.TrimPrefix(gone.URL, "http://")
	for _, url := range []string{"http://user:S3CRET@" + host, gone.URL + "/S3CRET", gone.URL + "?token=S3CRET",
		bad.URL + "/?S3CRET",
		"ftp://S3CRET@x", "http://S3CRET:%zz@x/", ":S3CRET", "http://[S3CRET"} {
		o := &options.Notify{Webhook: url, Healthcheck: url}
		for _, err := range []error{post(t.Context(), o, message()), ping(t.Context(), o, message())} {
			require.Error(t, err, url)
			require.NotContains(t, err.Error(), "S3CRET")
		}
		require.NotContains(t, receiver(o, Webhook)+receiver(o, Healthcheck), "S3CRET")
	}
}

func TestHealthcheckPings(t *testing.T) {
	paths := make(chan string, 9)
	s, _ := server(t, func(_ http.ResponseWriter, r *http.Request) { paths <- r.Method + " " + r.URL.String() })
	for kind, want := range map[string]string{started: "GET /id/start?a=b", done: "GET /id?a=b",
		failed: "GET /id/fail?a=b", test: "GET /id/log?a=b"} {
		m := message()
		m.Kind = kind
		require.NoError(t, ping(t.Context(), &options.Notify{Healthcheck: s.URL + "/id?a=b"}, m))
		require.Equal(t, want, <-paths)
	}
}

func TestTestReportsEachWay(t *testing.T) {
	s, _ := recorder(Mail, Desktop)
	s[Webhook] = func(context.Context, *options.Notify, *event.Notification) error { return errors.New("no route") }
	o := &options.Notify{Desktop: true, Webhook: "https://u:S3CRET@hooks.example/S3CRET",
		Mail: options.Mail{To: []string{"a@x", "b@x"}}}
	require.Equal(t, []event.NotifyTest{
		{Type: "notify_test", Job: "home", Way: Mail, To: "a@x, b@x"},
		{Type: "notify_test", Job: "home", Way: Webhook, To: "https://hooks.example", Error: "no route"},
		{Type: "notify_test", Job: "home", Way: Desktop, To: "this desktop"},
	}, s.test(t.Context(), o, event.Notification{Job: "home"}))
	require.Empty(t, s.test(t.Context(), &options.Notify{}, event.Notification{}))
}
