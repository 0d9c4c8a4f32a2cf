package notify

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// listenAt returns the datagrams that arrive at a path below /run, where an empty file system hides what the machine
// has. Only processes with the mounts of these tests see it.
func listenAt(t *testing.T, path string) func() string {
	testkit.RequireRoot(t)
	if out, err := exec.Command("mount", "-t", "tmpfs", "tmpfs", "/run").CombinedOutput(); err != nil {
		t.Skipf("needs a mount: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", "/run").Run() })
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	return func() string {
		data := make([]byte, 64<<10)
		n, err := c.Read(data)
		require.NoError(t, err)
		return string(data[:n])
	}
}

func TestLogGoesToTheJournal(t *testing.T) {
	next := listenAt(t, "/run/systemd/journal/socket")
	log, err := OpenLog("auto")
	require.NoError(t, err)
	require.NotNil(t, log, "there is a journal")
	log.Event(ended(record.Failed))
	log.Event(&record.Event{At: noon(), Kind: record.Loaded, Text: "two jobs"})
	require.NoError(t, log.Close())
	fields := strings.Split(strings.TrimSpace(next()), "\n")
	require.ElementsMatch(t, []string{"PRIORITY=3", "MESSAGE=home: Backup failed: disk full", "TIDEMARK_JOB=home",
		"TIDEMARK_RUN=r1",
		"SYSLOG_IDENTIFIER=tidemark"}, fields)
	require.ElementsMatch(t, []string{"PRIORITY=6", "MESSAGE=Read the options: two jobs", "SYSLOG_IDENTIFIER=tidemark"},
		strings.Split(strings.TrimSpace(next()), "\n"))
}

func TestLogGoesToSyslog(t *testing.T) {
	next := listenAt(t, "/run/syslog")
	if _, err := os.Lstat("/dev/log"); err == nil {
		t.Skip("this machine has a syslog at /dev/log")
	}
	log, err := OpenLog("syslog")
	if err != nil {
		t.Skipf("syslog is looked for elsewhere: %v", err)
	}
	log.Event(ended(record.Failed))
	require.NoError(t, log.Close())
	require.Regexp(t, `^<27>.* tidemark\[[0-9]+\]: home: Backup failed: disk full\n?$`, next())
}

func TestNoLog(t *testing.T) {
	log, err := OpenLog("off")
	require.NoError(t, err)
	require.Nil(t, log)
}
