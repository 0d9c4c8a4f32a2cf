package gatehouse

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
	"github.com/tidemark-backup/tidemark/internal/pressure"
	"github.com/tidemark-backup/tidemark/internal/testkit"
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
	undo("losetup", "--detach", loop) // when nobody has it open any more, and be it because this process was killed
	require.NoError(t, err)
	t.Cleanup(func() { hold.Close() })
	// What lies in memory has no gate, unless somebody says that it is a disk.
	require.NoError(t, os.WriteFile(filepath.Join("/sys/block", filepath.Base(loop), "queue/rotational"), []byte("1"), 0o644))
	tool("mkfs.ext4", "-q", loop)
	point := t.TempDir()
	tool("mount", loop, point)
	t.Cleanup(func() { undo("umount", point) })
	return point
}

// TestMain is also a program that writes to a file each time it is told to, and keeps that open.
func TestMain(m *testing.M) {
	path := os.Getenv("GATEHOUSE_WRITES")
	if path == "" {
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
	cmd.Env = append(os.Environ(), "GATEHOUSE_WRITES="+path)
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

// TestOnlyWhoWorksHereIsBlamed has two processes write to two disks.
func TestOnlyWhoWorksHereIsBlamed(t *testing.T) {
	one, two := onDisk(t), ofAnother(t)
	h := house(t, Config{}, one, two)
	require.Len(t, h.Gates(), 2)
	atOne, writeOne := writer(t, filepath.Join(one, "file"))
	atTwo, writeTwo := writer(t, filepath.Join(two, "file"))
	for _, r := range h.all() {
		require.Empty(t, r.watch.Blame())
	}
	for i, pid := range []int{atOne, atTwo} {
		// On a busy machine there are others at the first disk, so many perhaps that ours are not among those that are named.
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			writeOne()
			writeTwo()
			found := h.all()[i].watch.Blame()
			var ours []int
			for _, culprit := range found {
				if culprit.PID == atOne || culprit.PID == atTwo {
					ours = append(ours, culprit.PID)
					assert.GreaterOrEqual(t, culprit.Bytes, uint64(4<<20))
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
	h := house(t, Config{}, one, two)
	dev := func(path string) uint64 {
		d, err := localfs.OpenDir(path)
		require.NoError(t, err)
		defer d.Release()
		st, err := d.Fstat()
		require.NoError(t, err)
		return st.Dev
	}
	first, second := h.numbers(h.all()[0]), h.numbers(h.all()[1])
	for range 2 { // the second time from memory
		for _, c := range []struct {
			ask         pressure.Here
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
	// A walk that has come through tells of numbers that nobody else knows.
	h.byDev[4000] = h.all()[0]
	here, known := first(4000)
	require.True(t, here && known)
	here, known = second(4000)
	require.True(t, !here && known)
	unknown := h.numbers(&room{})
	_, known = unknown(dev(one))
	require.False(t, known, "nothing to compare with")
}

// A disk of which the kernel says that it turns does so, unless the user says otherwise.
func TestTurns(t *testing.T) {
	place := ofAnother(t)
	for medium, turns := range map[string]bool{"": true, "auto": true, "hdd": true, "ssd": false, "remote": false, "memory": false} {
		h := house(t, Config{Medium: medium}, place)
		require.Equal(t, turns, h.Turns(h.Path(place)), medium)
		require.False(t, h.Turns(nil))
		require.False(t, h.Turns(h.Remote("nas")))
		require.False(t, house(t, Config{}).Turns(h.Path(place)), "that is another's")
	}
}
