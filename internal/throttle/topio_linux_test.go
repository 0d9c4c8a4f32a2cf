package throttle

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/internal/throttle/foreign"
)

// ofAnother is a folder on a disk that shares nothing with those of the machine: a loop device of a file in memory.
func ofAnother(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	image, err := os.CreateTemp("/dev/shm", "tidemark-*")
	if err != nil {
		t.Skip("needs /dev/shm: ", err)
	}
	defer os.Remove(image.Name())
	require.NoError(t, image.Truncate(64<<20))
	require.NoError(t, image.Close())
	tool := func(args ...string) string {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Skipf("%v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	undo := func(args ...string) {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	loop := tool("losetup", "--find", "--show", image.Name())
	hold, err := os.Open(loop)
	undo("losetup", "--detach", loop) // at its last close, also if this process is killed
	require.NoError(t, err)
	t.Cleanup(func() { hold.Close() })
	// Memory has no gate, unless its flag declares it a disk.
	require.NoError(t, os.WriteFile(filepath.Join("/sys/block", filepath.Base(loop), "queue/rotational"),
		[]byte("1"), 0o644))
	tool("mkfs.ext4", "-q", loop)
	point := t.TempDir()
	tool("mount", loop, point)
	t.Cleanup(func() { undo("umount", point) })
	return point
}

// TestMain is also a program that writes to a file at each line of input, and keeps it open.
func TestMain(m *testing.M) {
	path := os.Getenv("TIDEMARK_TEST_WRITES")
	if path == "" {
		testkit.WatchGates()
		os.Exit(testkit.RunWithOwnMounts(m))
	}
	f, err := os.Create(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	for in := bufio.NewReader(os.Stdin); ; {
		fmt.Println("ready")
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		f.Write(make([]byte, 4<<20))
	}
}

// writer starts that program. write makes it write.
func writer(t *testing.T, path string) (pid int, write func()) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_WRITES="+path)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	lines := bufio.NewReader(out)
	ready := func() {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready", strings.TrimSpace(line))
	}
	ready()
	return cmd.Process.Pid, func() {
		_, err := io.WriteString(in, "go\n")
		require.NoError(t, err)
		ready()
	}
}

// TestTopProcessesOfEachDevice has two processes write to two disks.
func TestTopProcessesOfEachDevice(t *testing.T) {
	testkit.Slow(t)
	one, two := onDisk(t), ofAnother(t)
	m := newManager(t, Config{}, one, two)
	require.Len(t, m.Gates(), 2)
	atOne, writeOne := writer(t, filepath.Join(one, "file"))
	atTwo, writeTwo := writer(t, filepath.Join(two, "file"))
	for _, r := range m.all() {
		require.Empty(t, r.watch.TopProcesses())
	}
	for i, pid := range []int{atOne, atTwo} {
		// On a busy machine there are others at the first disk, so many perhaps that ours are not among those that are
		// maxNamed.
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			writeOne()
			writeTwo()
			found := m.all()[i].watch.TopProcesses()
			var ours []int
			for _, process := range found {
				if process.PID == atOne || process.PID == atTwo {
					ours = append(ours, process.PID)
					assert.GreaterOrEqual(t, process.Bytes, uint64(4<<20))
				}
			}
			if !assert.Contains(c, ours, pid, "%+v", found) {
				return
			}
			assert.Equal(t, []int{pid}, ours, "%+v", found)
		}, time.Minute, 50*time.Millisecond)
	}
}

func TestNumbers(t *testing.T) {
	one, two := onDisk(t), ofAnother(t)
	m := newManager(t, Config{}, one, two)
	dev := func(path string) uint64 {
		d, err := localfs.OpenDir(path)
		require.NoError(t, err)
		defer d.Release()
		st, err := d.Fstat()
		require.NoError(t, err)
		return st.Dev
	}
	first, second := m.onDevice(m.all()[0]), m.onDevice(m.all()[1])
	for range 2 { // the second time from memory
		for _, c := range []struct {
			ask         foreign.OnDevice
			dev         uint64
			here, known bool
		}{
			{first, dev(one), true, true},
			{first, dev(two), false, true},
			{second, dev(one), false, true},
			{second, dev(two), true, true},
			{first, dev("/dev/shm"), false, true},
			{first, 4000, false, false},
		} {
			here, known := c.ask(c.dev)
			require.Equal(t, c.here, here, "%x", c.dev)
			require.Equal(t, c.known, known, "%x", c.dev)
		}
	}
	// A walk through a file system makes its anonymous number known.
	m.byDev[4000] = m.all()[0]
	here, known := first(4000)
	require.True(t, here && known)
	here, known = second(4000)
	require.True(t, !here && known)
	unknown := m.onDevice(&entry{})
	_, known = unknown(dev(one))
	require.False(t, known, "nothing to compare with")
}

// TestRotational: the kernel's flag holds, unless --medium replaces it.
func TestRotational(t *testing.T) {
	place := ofAnother(t)
	for medium, turns := range map[device.Medium]bool{device.Unknown: true, device.HDD: true, device.SSD: false,
		device.Remote: false, device.Memory: false} {
		m := newManager(t, Config{Medium: medium}, place)
		require.Equal(t, turns, m.Rotational(m.Path(place)), medium)
		require.False(t, m.Rotational(nil))
		require.False(t, m.Rotational(m.Remote("nas")))
		require.False(t, newManager(t, Config{}).Rotational(m.Path(place)), "that is another's")
	}
}
