package localfs

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A path is looked up on the thread whose directory was changed, and not at all if that failed. A thread whose
// directory was not reset is never used again.
func TestCallsInsideADirectory(t *testing.T) {
	var went []int
	threads := map[int]bool{}
	chdir := func(fd int) error {
		went, threads[unix.Gettid()] = append(went, fd), true
		return nil
	}
	calls := 0
	require.ErrorIs(t, inside(chdir, 7, func() error {
		threads[unix.Gettid()] = true
		if calls++; calls == 1 {
			return unix.EINTR
		}
		return unix.ENODATA
	}), unix.ENODATA)
	require.Equal(t, []any{[]int{7, -1}, 2, 1}, []any{went, calls, len(threads)})

	require.ErrorIs(t, inside(func(int) error { return unix.EBADF }, 7, func() error {
		calls = -1
		return nil
	}), unix.EBADF)
	require.Equal(t, 2, calls)

	stuck := 0
	require.NoError(t, inside(func(fd int) error {
		if fd == -1 {
			stuck = unix.Gettid()
			return errors.New("still there")
		}
		return nil
	}, 7, func() error { return nil }))
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() { // on a thread of its own, since the call does not return to the scheduler
			assert.NotEqual(t, stuck, unix.Gettid())
			assert.NoError(t, unix.Nanosleep(&unix.Timespec{Nsec: 20e6}, nil))
		})
	}
	group.Wait()
}
