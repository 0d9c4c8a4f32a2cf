package cli

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// timeout(1) sends a signal twice. The second must not kill a program that has begun to end in good order.
func TestASignalThatComesTwiceIsOne(t *testing.T) {
	ctx, e, stop := untilSignal(t.Context())
	e.onExit(func() {})
	defer stop()
	runtime.LockOSThread() // which handles a signal of its own before it goes on
	defer runtime.UnlockOSThread()
	for range 3 {
		// Kills the test, if it has its usual effect.
		require.NoError(t, syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGTERM))
		<-ctx.Done()
	}
	require.ErrorIs(t, context.Cause(ctx), errInterrupted)
}

func TestASignalLaterHasItsUsualEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		signals := make(chan os.Signal, 1)
		var usual atomic.Bool
		signals <- os.Interrupt
		onSignal(ctx, signals, cancel, func() { usual.Store(true) })
		require.ErrorIs(t, context.Cause(ctx), errInterrupted)
		time.Sleep(signalGrace - time.Nanosecond)
		require.False(t, usual.Load())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.True(t, usual.Load())
	})
}

// A run that does not end is ended, but not while something must be done first.
func TestARunThatDoesNotEndIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		e := &ending{over: make(chan struct{}), exit: func() { ended.Store(true) }}
		release := e.hold()
		e.begin()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.False(t, ended.Load())
		<-e.over
		release()
		time.Sleep(lastTime)
		synctest.Wait()
		require.True(t, ended.Load())
	})
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		e := &ending{over: make(chan struct{}), exit: func() { ended.Store(true) }}
		e.hold()()
		e.begin()
		time.Sleep(endTime - time.Nanosecond)
		synctest.Wait()
		require.False(t, ended.Load())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.True(t, ended.Load())
	})
}
