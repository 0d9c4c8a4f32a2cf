package foreign

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// fakeProc is a proc file system: of each process its own bytes by thread, and those of its ended threads and children.
type fakeProc struct {
	t    *testing.T
	root string
}

func (f fakeProc) write(text string, path ...string) {
	name := filepath.Join(append([]string{f.root}, path...)...)
	require.NoError(f.t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(f.t, os.WriteFile(name, []byte(text), 0o644))
}

func (f fakeProc) process(pid, name string, flags, faults, start, total uint64, threads map[string]uint64) {
	counters := func(bytes uint64) string {
		return fmt.Sprintf("rchar: 77\nwchar: 7\nsyscr: 1\nsyscw: 1\nread_bytes: %d\nwrite_bytes: "+
			"512\ncancelled_write_bytes: 0\n", bytes-512)
	}
	f.write(name+"\n", pid, "comm")
	f.write(counters(total), pid, "io")
	f.write(fmt.Sprintf("%s (%s) S 1 1 1 0 -1 %d 100 %d 0 0 1 1 0 0 20 0 1 0 %d 0 0\n", pid, name, flags, faults, start),
		pid, "stat")
	require.NoError(f.t, os.RemoveAll(filepath.Join(f.root, pid, "task")))
	for tid, bytes := range threads {
		f.write(counters(bytes), pid, "task", tid, "io")
	}
}

func TestScan(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	f.process("1", "odd) name (", 0, 5, 10, 100000, map[string]uint64{"1": 1000, "11": 2000})
	f.process("2", "kworker/0:1", kernelThread|0x40, 0, 20, 600, map[string]uint64{"2": 600})
	f.process("3", "self", 0, 0, 30, 600, map[string]uint64{"3": 600})
	f.write("not a process", "uptime")
	c := procTable{proc(f.root), 3}
	first := c.scan(nil)
	require.Len(t, first, 2)
	require.Zero(t, first[1].rose)
	require.False(t, first[1].kernel)
	require.True(t, first[2].kernel)
	require.Equal(t, "odd) name (", c.name(1))

	require.NoError(t, os.RemoveAll(filepath.Join(f.root, "1/task")))
	second := c.scan(first)
	require.Zero(t, second[1].rose)
	require.Len(t, second[1].threads, 2, "whose total is as before is not looked at")

	f.process("1", "sh", 0, 9, 10, 900000, map[string]uint64{"1": 1100, "11": 2000, "12": 1024})
	f.process("2", "kworker/0:1", kernelThread|0x40, 0, 20, 800, map[string]uint64{"2": 800})
	f.process("4", "new", 0, 0, 40, 4096, map[string]uint64{"4": 1024})
	third := c.scan(second)
	require.EqualValues(t, 100+1024, third[1].rose)
	require.EqualValues(t, 200, third[2].rose)
	require.EqualValues(t, 4096, third[4].rose)
	require.Zero(t, c.scan(third)[1].rose)
}

func anyDevice(uint64) (here, known bool) { return false, false }

// TestBlame has processes that move so much more each time.
func TestBlame(t *testing.T) {
	f := fakeProc{t, t.TempDir()}
	here := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(here, nil, 0o600))
	const elsewhere = "/proc/version"
	b := topProcesses{onDevice: func(dev uint64) (bool, bool) {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(here, &st))
		return dev == uint64(unix.Major(st.Dev))<<32|uint64(unix.Minor(st.Dev)), true
	}}
	names := map[int]string{1: "init", 2: "fio", 3: "tidemark", 4: "rsync", 90: "kworker"}
	total := map[int]uint64{}
	ask := func(foreignBytes uint64, rose map[int]uint64, places map[int]string) []report.Process {
		t.Helper()
		require.NoError(t, os.RemoveAll(f.root))
		for pid, name := range names {
			flags, id := uint64(0), strconv.Itoa(pid)
			if pid == 90 {
				flags = kernelThread
			}
			total[pid] = max(512, total[pid]) + rose[pid]
			f.process(id, name, flags, 0, uint64(pid), total[pid], map[string]uint64{id: total[pid]})
			if place, open := places[pid]; open {
				require.NoError(t, os.Mkdir(filepath.Join(f.root, id, "fd"), 0o700))
				require.NoError(t, os.Symlink(place, filepath.Join(f.root, id, "fd", "3")))
			}
		}
		return b.update(foreignBytes, procTable{proc(f.root), 0})
	}
	fio := report.Process{PID: 2, Name: "fio", Bytes: 900}
	busy := map[int]uint64{2: 900, 3: 93, 90: 400}
	require.Empty(t, ask(500, busy, nil), "the first only begins")
	require.Equal(t, []report.Process{
		{Name: unnamed, Bytes: 5000 - 900 - 93 - 400}, fio, {Name: kernel, Bytes: 400},
		{PID: 3, Name: "tidemark", Bytes: 93},
	}, ask(5500, busy, nil))

	// Less was seen at the device: then the kernel's bytes are those of the others once more.
	require.Equal(t, []report.Process{fio, {Name: kernel, Bytes: 50}},
		ask(6450, map[int]uint64{2: 900, 90: 400}, nil))

	// A process that has opened something elsewhere only does not count until it opens something here. A process with
	// nothing open stays as it was.
	moved := map[int]uint64{2: 900, 4: 5000}
	require.Equal(t, []report.Process{fio}, ask(6450, moved, map[int]string{2: here, 4: elsewhere}))
	require.Equal(t, []report.Process{fio}, ask(6450, moved, nil))
	require.Equal(t, []report.Process{{PID: 4, Name: "rsync", Bytes: 5000}},
		ask(6450, moved, map[int]string{2: elsewhere, 4: here}))
	require.Empty(t, ask(6450, nil, nil))
}

// actorMain runs this test as another process, which writes to a file and keeps it open, itself or through a child.
func actorMain(role string) {
	if role == "parent" {
		os.Setenv("TIDEMARK_TEST_ACTOR", "child")
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		child := exec.Command(os.Args[0], os.Args[1:]...)
		child.Stdin = bytes.NewReader([]byte(line))
		if err := child.Run(); err != nil {
			fmt.Println(err)
		}
	} else {
		act(os.Args[1])
	}
	fmt.Println("done")
	io.Copy(io.Discard, os.Stdin)
}

const wrote = 4 << 20

func act(path string) {
	f, err := os.Create(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	f.Write(make([]byte, wrote))
}

type actor struct {
	t   *testing.T
	pid int
	in  io.Writer
	out *bufio.Reader
}

func newActor(t *testing.T, role, path string) actor {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, path)
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_ACTOR="+role)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return actor{t, cmd.Process.Pid, in, bufio.NewReader(out)}
}

func (a actor) act() {
	_, err := a.in.Write([]byte("go\n"))
	require.NoError(a.t, err)
	line, err := a.out.ReadString('\n')
	require.NoError(a.t, err)
	require.Equal(a.t, "done\n", line)
}

// onDisk returns a folder of a file system that counts dirtied pages, and its device number.
func onDisk(t *testing.T) (dir string, dev uint64) {
	dir = t.TempDir()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(dir, &st))
	if unix.Major(st.Dev) == 0 {
		t.Skip("needs a temporary folder on a block device")
	}
	return dir, uint64(unix.Major(st.Dev))<<32 | uint64(unix.Minor(st.Dev))
}

func TestParentIsNotBlamedForItsChild(t *testing.T) {
	dir, _ := onDisk(t)
	parent, worker := newActor(t, "parent", dir+"/a"), newActor(t, "worker", dir+"/b")
	require.Eventually(t, func() bool { _, err := os.Stat(dir + "/b"); return err == nil }, time.Minute, time.Millisecond)
	c := hostTable()
	before := c.scan(nil)
	parent.act()
	worker.act()
	after := c.scan(before)
	require.GreaterOrEqual(t, after[parent.pid].total, uint64(wrote), "the kernel counts the child with its parent")
	require.Less(t, after[parent.pid].rose, uint64(wrote/4))
	require.GreaterOrEqual(t, after[worker.pid].rose, uint64(wrote))
	require.Less(t, after[worker.pid].rose, uint64(2*wrote))
}

func TestWhere(t *testing.T) {
	dir, dev := onDisk(t)
	worker := newActor(t, "worker", dir+"/b")
	worker.act()
	c := hostTable()
	on := func(answer func(dev uint64) (bool, bool)) location { return c.where(worker.pid, answer) }
	require.Equal(t, onDevice, on(func(d uint64) (bool, bool) { return d == dev, true }))
	require.Equal(t, offDevice, on(func(d uint64) (bool, bool) { return d != dev, d == dev }))
	require.Equal(t, unknownLocation, on(anyDevice))
	require.Equal(t, unknownLocation, c.where(1<<30, func(uint64) (bool, bool) { return true, true }), "not there")
	exe, err := os.Executable()
	require.NoError(t, err)
	name := filepath.Base(exe)
	require.Equal(t, name[:min(len(name), 15)], c.name(worker.pid), "the kernel keeps so much of a name")
}

func TestWhereCountsOpenBlockDevices(t *testing.T) {
	const disk = 7 << 32
	f, err := os.Open("/dev/loop0")
	if err != nil {
		t.Skip("needs to open a block device: ", err)
	}
	defer f.Close()
	at := procTable{"/proc", 0}.where(os.Getpid(), func(d uint64) (bool, bool) { return d == disk, true })
	require.Equal(t, onDevice, at)
}

func TestKernelThreads(t *testing.T) {
	text, err := os.ReadFile("/proc/2/comm")
	if err != nil || string(text) != "kthreadd\n" || os.Geteuid() != 0 {
		t.Skip("needs root, outside a container that hides the kernel's threads")
	}
	u, ok := measure("/proc/2")
	require.True(t, ok)
	require.True(t, u.kernel)
	u, ok = measure("/proc/" + strconv.Itoa(os.Getpid()))
	require.True(t, ok)
	require.False(t, u.kernel)
}
