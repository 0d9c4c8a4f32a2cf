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
	ctx, stop := untilSignal(t.Context())
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
