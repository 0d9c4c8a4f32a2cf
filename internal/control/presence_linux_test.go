package control

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// locked makes a state folder that looks as if a process held its lock.
func locked(t *testing.T, pid int) string {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, LockFile))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = f.WriteString(strconv.Itoa(pid) + "\n")
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return dir
}

func TestThePresenceOfTheService(t *testing.T) {
	dir := place(t)
	s := Daemon(dir)
	find := func(state string) event.Overview {
		t.Helper()
		o, err := s.Find(t.Context(), state)
		require.NoError(t, err)
		require.Equal(t, o.State == event.ServiceRuns, o.Service != nil)
		return o
	}
	absent := find(t.TempDir())
	require.Contains(t, []event.ServiceState{event.ServiceAbsent, event.ServiceOfOther}, absent.State)
	held := locked(t, os.Getpid())
	require.Equal(t, event.Overview{State: event.ServiceUnreachable, PID: os.Getpid()}, find(held))

	sleep := exec.Command("sleep", "600")
	require.NoError(t, sleep.Start())
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	require.NoError(t, sleep.Process.Signal(syscall.SIGSTOP))
	stopped := locked(t, sleep.Process.Pid)
	require.Eventually(t, func() bool { return find(stopped).State == event.ServiceStopped }, time.Minute,
		10*time.Millisecond)

	end, err := ServeDaemon(t.Context(), dir, func(Command) (event.Daemon, error) { return event.Daemon{PID: 7}, nil })
	require.NoError(t, err)
	defer end()
	runs := find(held)
	require.Equal(t, event.Overview{Service: runs.Service, State: event.ServiceRuns}, runs)
	require.Equal(t, 7, runs.Service.PID)
}

func TestAServiceOfAnotherUserIsFound(t *testing.T) {
	proc := t.TempDir()
	for pid, command := range map[string]string{"12": "/usr/bin/tidemark\x00backup\x00daemon\x00", "13": "sh\x00",
		"14": "", "77": "/usr/bin/tidemark\x00daemon\x00--once\x00"} {
		require.NoError(t, os.Mkdir(filepath.Join(proc, pid), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(proc, pid, "cmdline"), []byte(command), 0o644))
	}
	_, pid := foreign(proc, os.Geteuid())
	require.Zero(t, pid, "it is of this user")
	name, pid := foreign(proc, os.Geteuid()+1)
	require.Equal(t, 77, pid)
	require.NotEmpty(t, name)
}
