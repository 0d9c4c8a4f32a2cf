// Package notify reports failures and silence to people: by mail, webhook, desktop and healthcheck pings. It also
// writes the log of the service to the journal or to syslog, and metrics for Prometheus. Each receiver has a goroutine
// and a bounded queue, so that one that does not answer never delays the service.
package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// The ways of a notification.
const (
	Mail        = "mail"
	Webhook     = "webhook"
	Healthcheck = "healthcheck"
	Desktop     = "desktop"
)

// The kinds of notifications, as in event.Notification. A start is for healthchecks only, and so is a run that ended
// well.
const (
	failed    = record.Failed
	silent    = "silent"
	invalid   = "invalid"
	recovered = record.Recovered
	test      = "test"
	started   = "start"
	done      = "done"
)

const (
	queued  = 32               // notifications that may wait for one way
	closing = 10 * time.Second // how long Close waits for them
	once    = 20 * time.Second // for one attempt to deliver one
)

// Config is what a Notifier consists of.
type Config struct {
	Of   func(job string) options.Notify // options of a job
	Log  record.Sink                     // gets a note when a way begins to fail; it must be safe for concurrent use
	Host string                          // name of this machine
}

// Notifier is a sink that notifies people.
type Notifier struct {
	config Config
	senders
	queues map[string]*queue[delivery]
	errors map[string]*complaints
}

// delivery is a message on its way.
type delivery struct {
	message event.Notification
	options options.Notify
}

// New returns a Notifier.
func New(c Config) *Notifier { return newNotifier(c, newSenders()) }

func newNotifier(c Config, s senders) *Notifier {
	n := &Notifier{config: c, senders: s, queues: map[string]*queue[delivery]{}, errors: map[string]*complaints{}}
	for way, send := range s {
		errs := &complaints{log: c.Log, way: way, failed: map[string]bool{}}
		n.errors[way] = errs
		n.queues[way] = newQueue(queued, func(ctx context.Context, d delivery) {
			errs.report(d.message.Job, d.message.Time, send(ctx, &d.options, &d.message))
		})
	}
	return n
}

// Event notifies of the alerts of runs, and of silence. Healthchecks get the start and the end of each run; an
// incomplete run is a failure for them.
func (n *Notifier) Event(e *record.Event) {
	switch e.Kind {
	case record.Started:
		n.post(e, started, Healthcheck)
	case record.Silent:
		n.post(e, silent, Mail, Webhook, Desktop)
	case record.Invalid:
		n.post(e, invalid, Mail, Webhook, Desktop)
	case record.Finished:
		n.finished(e)
	}
}

func (n *Notifier) finished(e *record.Event) {
	if e.Run == nil || e.Run.Outcome == record.Stopped {
		return
	}
	if e.Alert != "" {
		n.post(e, e.Alert, Mail, Webhook, Desktop)
	}
	if e.Run.Outcome == record.Done {
		n.post(e, done, Healthcheck)
	} else {
		n.post(e, failed, Healthcheck)
	}
}

// post puts a message into the queues of those ways that the options of the job name.
func (n *Notifier) post(e *record.Event, kind string, ways ...string) {
	o := n.config.Of(e.Job)
	line, _ := record.Line(e)
	if kind == recovered {
		line.Text = "Backups succeed again"
	}
	d := delivery{event.Notification{Type: "notification", Kind: kind, Host: n.config.Host, Job: e.Job, Time: e.At,
		Text: line.Text, Run: e.Run}, o}
	for _, way := range ways {
		if uses(&o, way) && !n.queues[way].put(d) {
			n.errors[way].report(e.Job, e.At, errFull)
		}
	}
}

// Close waits for a short time until all is delivered, and gives up the rest.
func (n *Notifier) Close() error {
	var all sync.WaitGroup
	for _, q := range n.queues {
		all.Go(func() { q.close(closing) })
	}
	all.Wait()
	return nil
}

// Test sends a test message in each way that the options name and returns the results.
func Test(ctx context.Context, o *options.Notify, host, job string, at time.Time) []event.NotifyTest {
	return newSenders().test(ctx, o, event.Notification{Type: "notification", Kind: test, Host: host, Job: job, Time: at,
		Text: "This is a test message"})
}

func (s senders) test(ctx context.Context, o *options.Notify, m event.Notification) (all []event.NotifyTest) {
	for _, way := range []string{Mail, Webhook, Healthcheck, Desktop} {
		if !uses(o, way) {
			continue
		}
		result := event.NotifyTest{Type: "notify_test", Job: m.Job, Way: way, To: receiver(o, way)}
		switch err := s[way](ctx, o, &m); {
		case errors.Is(err, errDesktop):
			result.Skipped = err.Error()
		case err != nil:
			result.Error = err.Error()
		}
		all = append(all, result)
	}
	return all
}

// sender delivers one message. Its errors have no secrets.
type sender func(ctx context.Context, o *options.Notify, m *event.Notification) error

// senders are the senders by way.
type senders map[string]sender

func newSenders() senders {
	w := &web{client: newClient(), pause: pause}
	return senders{Mail: (&mailer{sendmail: findSendmail}).send, Webhook: w.post, Healthcheck: w.ping,
		Desktop: notifyDesktop}
}

func uses(o *options.Notify, way string) bool {
	switch way {
	case Mail:
		return len(o.Mail.To) > 0
	case Webhook:
		return o.Webhook != ""
	case Healthcheck:
		return o.Healthcheck != ""
	}
	return o.Desktop
}

// receiver names a receiver without secrets.
func receiver(o *options.Notify, way string) string {
	switch way {
	case Mail:
		return strings.Join(o.Mail.To, ", ")
	case Webhook:
		return hidden(o.Webhook)
	case Healthcheck:
		return hidden(o.Healthcheck)
	}
	return "this desktop"
}

// complaints writes a note to the log when a way begins to fail for a job.
type complaints struct {
	log    record.Sink
	way    string
	mu     sync.Mutex
	failed map[string]bool
}

func (c *complaints) report(job string, at time.Time, err error) {
	c.mu.Lock()
	before := c.failed[job]
	c.failed[job] = err != nil
	c.mu.Unlock()
	if err != nil && !before {
		c.log.Event(&record.Event{At: at, Kind: record.Note, Job: job,
			Text: fmt.Sprintf("Notification by %s failed: %v; 'tidemark job test-notify %s' tries it", c.way, err, job)})
	}
}

// subject is the first line of a message.
func subject(m *event.Notification) string {
	what := map[string]string{failed: "backup failed", record.Incomplete: "backup incomplete",
		silent:    "no backup for too long",
		recovered: "backups succeed again",
		test:      "test message"}[m.Kind]
	return fmt.Sprintf("tidemark: %s on %s: %s", m.Job, m.Host, what)
}

// text is the body of a message for people.
func text(m *event.Notification) string {
	return fmt.Sprintf("%s\n\nJob:  %s\nHost: %s\nTime: %s\n\n'tidemark log --job %s' shows more.\n", m.Text, m.Job,
		m.Host,
		m.Time.Format(time.RFC1123Z), m.Job)
}
