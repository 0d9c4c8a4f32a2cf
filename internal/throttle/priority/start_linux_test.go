package priority

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestWorkNeverRunsOnTheMainThread(t *testing.T) {
	for range 2000 {
		onOwnThread(func() { require.NotEqual(t, os.Getpid(), unix.Gettid()) })
		runtime.Gosched()
	}
}
