package localfs

import (
	"os"
	"os/exec"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs/ring"
)

// forbidRings makes the kernel answer io_uring_setup with errno, for good and for all threads of this process.
func forbidRings(t *testing.T, errno unix.Errno) {
	t.Helper()
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_IO_URING_SETUP},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	require.Zero(t, failed)
}

// Container runtimes forbid io_uring, and old kernels do not have it: then files are read one after the other.
func TestBatchWhereRingsAreForbidden(t *testing.T) {
	const child = "TIDEMARK_TEST_FORBIDDEN"
	answers := map[string]unix.Errno{"EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS}
	errno, here := answers[os.Getenv(child)]
	if !here {
		for name := range answers {
			cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
			cmd.Env = append(os.Environ(), child+"="+name, "GOCOVERDIR=")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS: "+t.Name())
		}
		return
	}
	forbidRings(t, errno)
	_, err := ring.New(8)
	require.ErrorIs(t, err, ring.ErrMissing)
	require.ErrorIs(t, err, errno)
	b := NewBatch(true)
	require.Equal(t, 1, b.MaxFiles())
	d, path := openTemp(t)
	write(t, path+"/a", "first")
	write(t, path+"/b", "second")
	got := readNamed(t, b, d, []string{"a", "b", "c"}, asOpened, nil)
	require.Equal(t, "first", got["a"].content)
	require.Equal(t, "second", got["b"].content)
	require.Contains(t, got["c"].err, ErrVanished.Error())
	require.NoError(t, b.Close())
}
