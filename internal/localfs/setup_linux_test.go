package localfs

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const nobody = 65534

// asNobody runs the calling test once more in a process without any privilege and returns true there. As root it starts
// that process; when the tests are not run as root, this process is it.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	dir, err := os.MkdirTemp("", "localfs")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	in, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer in.Close()
	program := filepath.Join(dir, "test")
	out, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o700))
	require.NoError(t, os.Chown(filepath.Join(dir, "tmp"), nobody, nobody))
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"), "GOCOVERDIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.Contains(t, string(text), "--- PASS: "+t.Name())
	return false
}

// descriptors returns what every open descriptor of this process leads to.
func descriptors(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	var open []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			open = append(open, to)
		}
	}
	return open
}

// withoutProc makes the directories of h believe that there is no /proc.
func withoutProc(h *host) {
	h.procOnce.Do(func() {})
	if h.proc >= 0 {
		_ = unix.Close(h.proc)
		h.proc = -1
	}
}
