package foreign

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// TestRealProcesses starts a shell that starts another program.
func TestRealProcesses(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & read x; dd if=/dev/zero of=\"$1\" bs=1M count=2 conv=fsync "+
		"2>/dev/null </dev/null; read x", "sh", t.TempDir()+"/file")
	children := func(pid int) []int { return hostProcesses().children(pid, nil) }
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		for _, child := range children(cmd.Process.Pid) { // while it lives: orphans are not found
			if p, err := os.FindProcess(child); err == nil {
				p.Kill()
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
	})
	start := startOf("/proc/" + strconv.Itoa(cmd.Process.Pid))
	require.NotZero(t, start)
	c := newPeerProcesses(nil)
	defer c.Close()
	require.Eventually(t, func() bool { return len(children(cmd.Process.Pid)) == 1 }, time.Minute, time.Millisecond)
	require.Contains(t, children(os.Getpid()), cmd.Process.Pid)
	require.Zero(t, c.poll([]shared.Process{{PID: cmd.Process.Pid, Started: int64(start) + 1}}, time.Now()).Alive,
		"another process with its number")
	peers := []shared.Process{{PID: cmd.Process.Pid, Started: int64(start)}}
	require.Equal(t, 1, c.poll(peers, time.Now()).Alive)
	var b topProcesses
	require.Empty(t, b.update(0, hostTable()))
	in.Write([]byte("\n"))
	require.Eventually(t, func() bool { return c.poll(peers, time.Now()).Dirtied >= 2<<20 }, time.Minute,
		10*time.Millisecond)
	for _, top := range b.update(0, hostTable()) {
		require.NotEqual(t, os.Getpid(), top.PID)
		require.False(t, top.PID == cmd.Process.Pid && top.Bytes >= 1<<20, "it has not moved what its child has: %+v", top)
	}
}
