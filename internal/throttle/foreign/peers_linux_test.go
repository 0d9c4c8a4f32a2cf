package foreign

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// bytes sets what a process has read and made dirty.
func (f fakeProc) bytes(pid, read, dirtied int) {
	f.write(fmt.Sprintf("rchar: 7\nread_bytes: %d\nwrite_bytes: %d\n", read, dirtied), strconv.Itoa(pid), "io")
}

// born starts a process, which takes the number of one that has ended.
func (f fakeProc) born(pid, start, read int) {
	require.NoError(f.t, os.RemoveAll(filepath.Join(f.root, strconv.Itoa(pid))))
	f.write(fmt.Sprintf("%d (x) S 1 1 1 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 %d 0 0\n", pid, start), strconv.Itoa(pid), "stat")
	f.bytes(pid, read, 0)
}

// ends ends a process: its counters cannot be read any more.
func (f fakeProc) ends(pid int) { f.write("", strconv.Itoa(pid), "io") }

func (f fakeProc) children(pid int, children string) {
	f.write(children, strconv.Itoa(pid), "task", strconv.Itoa(pid), "children")
}

// open returns how many descriptors of the counters of a process are open, also of one that had its number before.
func (f fakeProc) open(pid int) (n int) {
	const own = "/proc/self/fd"
	names, err := os.ReadDir(own)
	require.NoError(f.t, err)
	for _, e := range names {
		to, _ := os.Readlink(filepath.Join(own, e.Name()))
		if strings.TrimSuffix(to, " (deleted)") == filepath.Join(f.root, strconv.Itoa(pid), "io") {
			n++
		}
	}
	return n
}

func pass(d time.Duration) time.Time {
	time.Sleep(d)
	return time.Now()
}

func TestCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := fakeProc{t, t.TempDir()}
		people.born(7, 3, 1000)
		people.bytes(7, 1000, 50)
		c := &peerProcesses{processes: proc(people.root)}
		peer := shared.Process{PID: 7, Started: 3, Tier: 2}
		k := c.poll([]shared.Process{peer}, pass(0))
		require.Equal(t, diskwatch.PeerIO{Alive: 1, Changed: true}, k, "what was before does not count")
		people.bytes(7, 1100, 50)
		require.Equal(t, 1, people.open(7))
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 100, k.Read)
		require.False(t, k.Changed)
		require.Equal(t, [4]bool{2: true}, k.Rose)
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.Equal(t, [4]bool{}, k.Rose)

		// It starts a child, which counts from its birth, and one of that.
		people.born(8, 4, 30)
		people.born(9, 5, 4)
		people.children(7, "8 ")
		people.children(8, "9 ")
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 134, k.Read)

		// The child ends. Its parent has waited for it, so that it is counted twice and never missed.
		people.ends(8)
		people.children(7, "")
		people.bytes(7, 1140, 50)
		k = c.poll([]shared.Process{peer}, pass(10*time.Millisecond))
		require.EqualValues(t, 174, k.Read)
		require.True(t, k.Changed)
		require.Zero(t, people.open(8))

		// What it has read offDevice is not for this device.
		peer.Elsewhere.Read = 25
		people.bytes(7, 1165, 50)
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 174, k.Read)

		// It writes, so late writes are attributed to it.
		tier, known := c.WriterTier(pass(0))
		require.True(t, known)
		require.Zero(t, tier)
		people.bytes(7, 1165, 50+4096)
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 4096, k.Dirtied)
		tier, known = c.WriterTier(pass(40 * time.Second))
		require.True(t, known)
		require.EqualValues(t, 2, tier)
		tier, _ = c.WriterTier(pass(2 * time.Second))
		require.Zero(t, tier)

		// It ends, and another gets its number: what was done stays done.
		people.ends(7)
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 174, k.Read)
		require.True(t, k.Changed)
		require.Zero(t, k.Alive)
		people.born(7, 4, 1<<30)
		k = c.poll([]shared.Process{peer}, pass(time.Second))
		require.EqualValues(t, 174, k.Read)
		require.Zero(t, k.Alive)
		require.Zero(t, people.open(7))
		c.Close()
		require.Zero(t, people.open(9))
	})
}

func TestPassivePeerIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := fakeProc{t, t.TempDir()}
		people.born(7, 1, 0)
		c := &peerProcesses{processes: proc(people.root)}
		peer := []shared.Process{{PID: 7, Tier: 0, Policy: iopolicy.Passive}}
		c.poll(peer, pass(0))
		people.bytes(7, 0, 4096)
		k := c.poll(peer, pass(time.Second))
		require.Equal(t, [4]bool{}, k.Rose)
		_, known := c.WriterTier(pass(0))
		require.False(t, known)
		k = c.poll(nil, pass(time.Second))
		require.EqualValues(t, 4096, k.Dirtied, "it was let go, and what it did stays")
		require.Zero(t, people.open(7))
	})
}

func TestNewChildIsFoundAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := fakeProc{t, t.TempDir()}
		people.born(7, 1, 0)
		c := &peerProcesses{processes: proc(people.root)}
		peer := []shared.Process{{PID: 7, Tier: 3}}
		c.poll(peer, pass(0))
		people.bytes(7, 10, 0)
		c.poll(peer, pass(100*time.Millisecond))
		people.children(7, "8 ")
		people.born(8, 2, 77)
		k := c.Recount(pass(time.Millisecond))
		require.EqualValues(t, 87, k.Read)
		require.True(t, k.Rose[3])
		people.children(8, "9 ")
		people.born(9, 3, 1)
		require.EqualValues(t, 87, c.Recount(pass(time.Millisecond)).Read, "but not at every look")
		require.EqualValues(t, 88, c.Recount(pass(20*time.Millisecond)).Read)
	})
}

// TestRealProcesses starts a shell that starts another program.
func TestRealProcesses(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & read x; dd if=/dev/zero of=\"$1\" bs=1M count=2 conv=fsync "+
		"2>/dev/null </dev/null; read x", "sh", t.TempDir()+"/file")
	children := func(pid int) []int { return host.children(pid, nil) }
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
