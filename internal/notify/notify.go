// Package notify reports failures and silence to people: by mail, webhook, desktop and healthcheck pings. It also
// writes the log of the service to the journal or to syslog, and metrics for Prometheus.
//
// The flow of a message: post writes a letter to the outbox, a folder; deliver sends it, in order for each receiver and
// with growing pauses, until the receiver accepts it; then its file is removed. A kill loses none, and may send one
// twice. No receiver delays the service or another receiver.
package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
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
	stalled   = "stalled"
	warned    = "warning"
	summary   = "summary"
	test      = "test"
	started   = "start"
	done      = "done"
)

const (
	closing = 10 * time.Second // how long Close waits for deliveries
	once    = 20 * time.Second // for one attempt to deliver a message
)

// Config is what a Notifier consists of.
type Config struct {
	Of   func(job string) (o options.Notify, known bool) // options of a job
	Jobs func() []string                                 // names of all jobs
	Log  record.Sink                                     // gets a note when a way begins to fail; safe for concurrent use
	Host string                                          // name of this machine
	Dir  string                                          // of the outbox; this process is its only user
	Past []event.Run                                     // runs of the record, for summaries
}

// Notifier is a sink that notifies people. It delivers from the first event on that follows from the options.
type Notifier struct {
	config Config
	senders
	now   func() time.Time
	first time.Duration // wait after the first failure

	mu     sync.Mutex
	box    outbox
	lanes  map[string]*lane
	failed map[string]bool // by way and job: a failure was noted
	week   []event.Run     // runs of the last days, without their steps

	wake     chan struct{} // nil: begin was not called
	stop     context.CancelFunc
	ended    chan struct{}
	attempts sync.WaitGroup
}

// New returns a Notifier.
func New(c Config) *Notifier { return newNotifier(c, newSenders()) }

func newNotifier(c Config, s senders) *Notifier {
	n := &Notifier{config: c, senders: s, now: time.Now, first: firstWait, box: outbox{dir: c.Dir},
		lanes: map[string]*lane{}, failed: map[string]bool{}}
	for i := range c.Past {
		n.count(&c.Past[i])
	}
	return n
}

// Event notifies of the alerts and warnings of runs, of silence and of steps without progress. Healthchecks get the
// start and the end of each run; all but a complete run is a failure for them.
func (n *Notifier) Event(e *record.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch e.Kind {
	case record.Loaded:
		n.begin()
		n.nudge() // the options may be other ones
	case record.Started:
		n.post(e, started, Healthcheck)
	case record.Silent:
		n.post(e, silent, Mail, Webhook, Desktop)
	case record.Invalid:
		n.post(e, invalid, Mail, Webhook, Desktop)
	case record.Stalled:
		n.post(e, stalled, Mail, Webhook, Desktop)
	case record.Warned:
		if e.Alert != "" {
			n.post(e, e.Alert, Mail, Webhook, Desktop)
		}
	case record.Finished:
		n.finished(e)
	}
}

func (n *Notifier) finished(e *record.Event) {
	if e.Run == nil {
		return
	}
	n.count(e.Run)
	if e.Alert != "" {
		n.post(e, e.Alert, Mail, Webhook, Desktop)
	}
	if e.Run.Outcome == record.Done {
		n.post(e, done, Healthcheck)
	} else {
		n.post(e, failed, Healthcheck)
	}
}

// post writes the letters of a message, for those ways that the options of the job name. A newer message of a job
// replaces its older pings that the receiver did not accept in time. The end of a run replaces the messages that
// notify-limit holds back, except warnings, and another message those of its kind: they are not true any more.
func (n *Notifier) post(e *record.Event, kind string, ways ...string) {
	n.begin()
	o, _ := n.config.Of(e.Job)
	line, _ := record.Line(e)
	if kind == recovered {
		line.Text = "Backups succeed again"
	}
	m := event.Notification{Type: "notification", Kind: kind, Host: n.config.Host, Job: e.Job, Time: e.At,
		Text: line.Text, Run: e.Run}
	ways = slices.DeleteFunc(ways, func(way string) bool { return !uses(&o, way) })
	if len(ways) == 0 {
		return
	}
	now := n.now()
	ping, held := ways[0] == Healthcheck, false
	n.box.remove(func(l *letter) bool {
		if l.Message.Job != e.Job {
			return false
		}
		late := ping && l.Way == Healthcheck && !l.sending && n.lane(l, &o).failures > 0
		ends := (kind == recovered || failure(kind)) && l.Message.Kind != warned
		waits := !ping && l.After.After(now) && (ends || l.Message.Kind == kind)
		held = held || waits
		return late || waits
	})
	if kind == recovered && held && !n.box.past.Failing[e.Job] {
		return // the failure was not reported
	}
	var after time.Time
	if !ping {
		if kind != recovered { // the end of each failure that was reported is reported too
			after = n.box.admit(e.Job+" "+kind, now, o.Limit)
		}
		m.Text += n.limited(&m, now, after, o.Limit)
		if after.IsZero() {
			n.box.said(&m)
		}
		n.keep(e.Job, n.box.save())
	}
	for _, way := range ways {
		n.keep(e.Job, n.box.add(&letter{Way: way, Message: m, After: after}))
	}
	n.nudge()
}

// failure reports whether messages of a kind are of a run that failed or was incomplete.
func failure(kind string) bool { return kind == failed || kind == record.Incomplete }

// limited returns what a message says of notify-limit. The last failure that is sent within a day says so, and the end
// of a failure while another one would wait: silence does not mean then that backups succeed.
func (n *Notifier) limited(m *event.Notification, now, after time.Time, most int) string {
	const minutes = "2006-01-02 15:04"
	if !after.IsZero() {
		return " (held back since " + m.Time.Format(minutes) + " by NOTIFYLIMIT)"
	}
	kinds := []string{m.Kind}
	if m.Kind == recovered {
		kinds = []string{failed, record.Incomplete}
	}
	var until time.Time
	for _, kind := range kinds {
		if failure(kind) {
			until = latest(until, n.box.full(m.Job+" "+kind, now, most))
		}
	}
	if until.IsZero() {
		return ""
	}
	return "; further failures are not reported before " + until.Format(minutes) + " (NOTIFYLIMIT)"
}

// keep notes an error of the outbox.
func (n *Notifier) keep(job string, err error) {
	if err != nil {
		n.note(job, n.now(), err.Error())
	}
}

func (n *Notifier) note(job string, at time.Time, text string) {
	n.config.Log(&record.Event{At: at, Kind: record.Note, Job: job, Text: text})
}

// report writes a note to the log when a way begins to fail for a job.
func (n *Notifier) report(l *letter, at time.Time, err error) {
	job := l.Message.Job
	key := l.Way + " " + job
	before := n.failed[key]
	if n.failed[key] = err != nil; err != nil && !before {
		n.note(job, at, fmt.Sprintf("Notification by %s failed: %v; it is kept and sent again; "+
			"'tidemark job test-notify %s' tries it", l.Way, err, job))
	}
}

// Close waits for a short time until each receiver has got its messages or has failed. What is left waits for the next
// service.
func (n *Notifier) Close() error {
	n.mu.Lock()
	begun := n.wake != nil
	n.mu.Unlock()
	if !begun {
		return nil
	}
	for deadline := time.Now().Add(closing); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		n.mu.Lock()
		idle := n.idle(n.now())
		n.mu.Unlock()
		if idle {
			break
		}
	}
	n.stop()
	<-n.ended
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

// senders deliver one message, each in its way. Their errors have no secrets.
type senders map[string]func(ctx context.Context, o *options.Notify, m *event.Notification) error

func newSenders() senders {
	return senders{Mail: (&mailer{sendmail: findSendmail}).send, Webhook: post, Healthcheck: ping, Desktop: notifyDesktop}
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

// subject is the first line of a message.
func subject(m *event.Notification) string {
	what := map[string]string{failed: "backup failed", record.Incomplete: "backup incomplete",
		silent: "no backup for too long", invalid: "a mistake in the option file",
		recovered: "backups succeed again", stalled: "no progress", warned: "a warning", summary: "the last week",
		test: "test message"}[m.Kind]
	return fmt.Sprintf("tidemark: %s on %s: %s", m.Job, m.Host, what)
}

// text is the body of a message for people.
func text(m *event.Notification) string {
	return fmt.Sprintf("%s\n\nJob:  %s\nHost: %s\nTime: %s\n\n'tidemark log --job %s' shows more.\n", m.Text, m.Job,
		m.Host,
		m.Time.Format(time.RFC1123Z), m.Job)
}

// summarized is the time that a summary covers, and that between two of them.
const summarized = 7 * day

// count remembers a run for the next summary.
func (n *Notifier) count(r *event.Run) {
	n.week = append(n.week, event.Run{Job: r.Job, Outcome: r.Outcome, End: r.End})
}

// summarize posts the summaries that are due.
func (n *Notifier) summarize(now time.Time) {
	if n.config.Jobs == nil {
		return
	}
	n.week = slices.DeleteFunc(n.week, func(r event.Run) bool { return now.Sub(r.End) > summarized })
	for _, job := range n.config.Jobs() {
		o, _ := n.config.Of(job)
		last := n.box.past.Summaries[job]
		if !o.Summary || now.Sub(last) < summarized && !last.After(now) {
			continue
		}
		n.box.past.Summaries[job] = now
		if last.IsZero() || last.After(now) { // a week after it was asked for, or the clock was set back
			n.keep(job, n.box.save())
			continue
		}
		n.post(&record.Event{At: now, Kind: record.Note, Job: job, Text: n.summary(job)}, summary, Mail, Webhook, Desktop)
	}
}

func (n *Notifier) summary(job string) string {
	outcomes := map[string]uint64{}
	runs := uint64(0)
	whole := "none"
	for _, r := range n.week {
		if r.Job != job {
			continue
		}
		runs++
		outcomes[r.Outcome]++
		if r.Outcome == record.Done {
			whole = r.End.Format("2006-01-02 15:04")
		}
	}
	return fmt.Sprintf("In the last 7 days: %s, %d complete, %d incomplete, %d failed, %d stopped; last complete run: %s",
		human.Plural(runs, "run"), outcomes[record.Done], outcomes[record.Incomplete], outcomes[record.Failed],
		outcomes[record.Stopped], whole)
}
