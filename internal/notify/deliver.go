package notify

import (
	"context"
	"time"

	"github.com/tidemark-backup/tidemark/internal/options"
)

const (
	day       = 24 * time.Hour
	firstWait = 15 * time.Second // after a failure; it doubles with each one
	longWait  = time.Hour
	expires   = 30 * day // of a letter whose job is gone
	doneAfter = day      // a success is not reported to a healthcheck later than this
)

// lane is a receiver. Its letters are sent one after the other, in order.
type lane struct {
	busy     bool
	failures int
	next     time.Time // zero, or when the next attempt begins
}

// begin reads the letters of an earlier service and starts to deliver. The options of the jobs are known by then.
func (n *Notifier) begin() {
	if n.wake != nil {
		return
	}
	if err := n.box.open(); err != nil {
		n.note("", n.now(), err.Error())
	}
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	n.wake, n.ended = make(chan struct{}, 1), make(chan struct{})
	go n.run(ctx)
}

// run delivers until ctx ends.
func (n *Notifier) run(ctx context.Context) {
	defer close(n.ended)
	for {
		n.mu.Lock()
		pause := n.deliver(ctx)
		n.mu.Unlock()
		select {
		case <-n.wake:
		case <-time.After(pause):
		case <-ctx.Done():
			n.attempts.Wait()
			return
		}
	}
}

// deliver begins the attempts that are due and returns when to look again. n.mu is held.
func (n *Notifier) deliver(ctx context.Context) (pause time.Duration) {
	now := n.now()
	n.summarize(now)
	pause = longWait
	n.box.remove(func(l *letter) bool { return n.obsolete(l, now) })
	waits := map[*lane]bool{} // an earlier letter waits
	for _, l := range n.box.letters {
		o, _ := n.config.Of(l.Message.Job)
		if !uses(&o, l.Way) { // the stanza has a mistake now
			continue
		}
		if l.After.Sub(now) > day { // the clock was set back
			l.After = time.Time{}
		}
		to := n.lane(l, &o)
		switch until := latest(l.After, to.next); {
		case waits[to]:
		case l.After.After(now): // it holds back no other one
			pause = min(pause, l.After.Sub(now))
		case until.After(now):
			waits[to], pause = true, min(pause, until.Sub(now))
		case to.busy:
			waits[to] = true
		default:
			waits[to], to.busy, l.sending = true, true, true
			n.attempts.Go(func() { n.attempt(ctx, to, l, &o) })
		}
	}
	return max(pause, time.Millisecond)
}

// lane returns the lane of a letter.
func (n *Notifier) lane(l *letter, o *options.Notify) *lane {
	address := map[string]string{Mail: o.Mail.Server + receiver(o, Mail), Webhook: o.Webhook, Healthcheck: o.Healthcheck}
	key := l.Way + " " + address[l.Way]
	if n.lanes[key] == nil {
		n.lanes[key] = &lane{}
	}
	return n.lanes[key]
}

// obsolete reports whether a letter is not to be sent any more.
func (n *Notifier) obsolete(l *letter, now time.Time) bool {
	o, known := n.config.Of(l.Message.Job)
	age := now.Sub(l.Message.Time)
	return known && !uses(&o, l.Way) || !known && age > expires ||
		l.Way == Healthcheck && l.Message.Kind == done && age > doneAfter
}

// attempt sends a letter once.
func (n *Notifier) attempt(ctx context.Context, to *lane, l *letter, o *options.Notify) {
	err := n.senders[l.Way](ctx, o, &l.Message)
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	to.busy, l.sending = false, false
	if err == nil {
		to.failures, to.next = 0, time.Time{}
		if !l.After.IsZero() {
			n.box.said(&l.Message)
			n.keep(l.Message.Job, n.box.save())
		}
		n.box.remove(func(other *letter) bool { return other == l })
	} else {
		wait := longWait
		if to.failures < 8 { // 15 s, ... 32 min
			wait = n.first << to.failures
		}
		to.failures++
		to.next = now.Add(wait)
	}
	if ctx.Err() == nil {
		n.report(l, now, err)
	}
	n.nudge()
}

// nudge has run look at the letters. n.mu is held, or the caller is the only user.
func (n *Notifier) nudge() {
	select {
	case n.wake <- struct{}{}:
	default: // it will
	}
}

// idle reports whether each receiver has got its letters, or has failed. n.mu is held.
func (n *Notifier) idle(now time.Time) bool {
	for _, l := range n.box.letters {
		o, _ := n.config.Of(l.Message.Job)
		if !uses(&o, l.Way) || l.After.After(now) {
			continue
		}
		if to := n.lane(l, &o); to.busy || to.failures == 0 {
			return false
		}
	}
	return true
}
