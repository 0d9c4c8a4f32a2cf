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

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// openTemp returns a fresh directory and its path.
func openTemp(t testing.TB) (*Dir, string) {
	t.Helper()
	path := t.TempDir()
	return openAt(t, path), path
}

func openAt(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := OpenDir(path)
	require.NoError(t, err)
	t.Cleanup(d.Release)
	return d
}

func write(t testing.TB, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: devices, owners, trusted attributes")
	}
}

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

// owned is a node of ours without anything special.
func owned(name string, typ tree.Type, mode uint32) *tree.Node {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	return &tree.Node{Name: name, Type: typ, Mode: mode, UID: uid, GID: gid, ModTime: tree.Time{Sec: 5}}
}

// nodeOf reads everything that is kept of an entry but its content.
func nodeOf(t *testing.T, d *Dir, name string) *tree.Node {
	t.Helper()
	var st Stat
	require.NoError(t, d.Lstat(name, &st))
	xattrs, err := d.Xattrs(name, st.Type)
	require.NoError(t, err)
	flags, err := d.Flags(name, st.Type)
	require.NoError(t, err)
	n := &tree.Node{
		Name: name, Type: st.Type, Mode: st.Mode, UID: st.UID, GID: st.GID,
		ModTime: st.Mtime, Access: &st.Atime, Device: st.Rdev, Flags: flags, Xattrs: xattrs,
	}
	if st.Type == tree.Symlink {
		n.Target, err = d.Readlink(name)
		require.NoError(t, err)
	}
	return n
}

// withoutProc makes the directories of h believe that there is no /proc.
func withoutProc(h *host) {
	h.procOnce.Do(func() {})
	if h.proc >= 0 {
		_ = unix.Close(h.proc)
		h.proc = -1
	}
}

// openWriter opens an existing file for writing.
func openWriter(d *Dir, name string) (*Writer, error) {
	fd, err := openat(d.fd, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return d.newWriter(fd), nil
}
