package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	// signalGrace is how long further signals count as the first one: timeout(1) signals the program and its process
	// group, and a terminal sends Ctrl-C to the whole group, whose members may pass it on.
	signalGrace = time.Second
	// endTime is how long an orderly end may take after a signal. With the end of the service, which waits for its steps,
	// it makes less than 5 seconds.
	endTime = 4 * time.Second
	// lastTime is how long the rest may take after what the end had to wait for.
	lastTime = 500 * time.Millisecond
)

// untilSignal returns a context that the first signal cancels, and what ends the process if the orderly end takes too
// long. A later signal kills the process, since signals then have their default effect again.
func untilSignal(parent context.Context) (context.Context, *ending, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	usual := func() { signal.Stop(signals) }
	e := &ending{over: make(chan struct{}), exit: func() { os.Exit(exitInterrupted) }}
	go onSignal(ctx, signals, func(cause error) { e.begin(); cancel(cause) }, usual)
	return ctx, e, func() { usual(); cancel(nil) }
}

// onSignal cancels ctx at a signal, and restores the default effect of signals after signalGrace.
func onSignal(ctx context.Context, signals <-chan os.Signal, cancel context.CancelCauseFunc, usual func()) {
	select {
	case <-signals:
		cancel(errInterrupted)
		time.AfterFunc(signalGrace, usual)
	case <-ctx.Done():
	}
}

// ending ends the process some time after a signal, whatever waits: a read that is not answered, a pipe that is full.
// What is left behind is what a killed run leaves. The zero value never does.
type ending struct {
	over chan struct{} // closed endTime after the signal; nil: no signal ends the process

	mu    sync.Mutex
	holds int
	late  bool // over is closed
	exit  func()
}

// begin is called at the signal.
func (e *ending) begin() {
	time.AfterFunc(endTime, func() {
		e.mu.Lock()
		e.late = true
		exit := e.exit
		free := e.holds == 0
		close(e.over)
		e.mu.Unlock()
		if free {
			exit()
		}
	})
}

// hold keeps the process from being ended until release is called.
func (e *ending) hold() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holds++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.holds--; e.late && e.holds == 0 {
			time.AfterFunc(lastTime, e.exit)
		}
	}
}

// within calls end. After a signal it returns when the orderly end has taken too long, though end has not returned.
func (e *ending) within(end func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end()
	}()
	select {
	case <-ended:
	case <-e.over:
	}
}

// onExit replaces what ends the process.
func (e *ending) onExit(exit func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.exit = exit
}

// endNow ends the process with the message and the exit code of an interruption. The message may not be taken: then the
// process ends without it.
func (a *app) endNow() {
	said := make(chan struct{})
	go func() {
		defer close(said)
		a.print.Fail(a.code(errInterrupted), message(errInterrupted), false)
	}()
	select {
	case <-said:
	case <-time.After(lastTime / 4):
	}
	os.Exit(a.code(errInterrupted))
}
