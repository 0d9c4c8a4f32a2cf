package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/governor"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// letRun gives other processes time: the start of a command has moments that no event marks.
func letRun(d time.Duration) { time.Sleep(d) }

// TestNoCommandOutlivesTheBackup: a signal can come at any time, also while the command is being started. When the
// backup has ended, so has the command.
func TestNoCommandOutlivesTheBackup(t *testing.T) {
	dir := t.TempDir()
	started := 0
	rounds := testkit.Rounds(20, 100, 1000)
	for i := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		file := filepath.Join(dir, strconv.Itoa(i))
		a := &app{governor: governor.New(governor.Config{})}
		a.Err = io.Discard
		f, job := &backupFlags{}, &backup.Job{}
		f.streamName, f.stdinByCommand = "out", true
		require.NoError(t, a.fromStdin(ctx, f, []string{"/bin/sh", "-c", "echo $$ >" + file + "; exec sleep 600"}, job))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = job.Stdin.Reader.Read(make([]byte, 1))
		}()
		letRun(time.Duration(i%20) * 100 * time.Microsecond)
		cancel()
		_ = job.Stdin.Close()
		<-done
	}
	letRun(200 * time.Millisecond) // a shell that goes on would write its file now
	for i := range rounds {
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil || len(text) == 0 {
			continue
		}
		started++
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		if syscall.Kill(pid, 0) == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Errorf("round %d: process %d goes on", i, pid)
		}
	}
	require.NotZero(t, started, "no command was started in time")
}
