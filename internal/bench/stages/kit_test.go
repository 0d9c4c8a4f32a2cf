package stages

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// stage is something to measure.
type stage struct {
	before  func()        // each time, not measured; may be nil
	do      func()        // what is measured
	objects int           // how many objects do goes through
	bytes   int64         // how much data
	counts  func(metrics) // counts further results of the last do; may be nil
	system  bool          // it calls the system so that the calls are worth counting
}

// metrics takes a value with its unit.
type metrics func(value float64, unit string)

// run measures a stage.
func run(b *testing.B, s stage) {
	b.Helper()
	if os.Getenv(childVariable) != "" {
		s.meet()
		return
	}
	if s.bytes > 0 {
		b.SetBytes(s.bytes)
	}
	var before, after runtime.MemStats
	var mallocs, rounds uint64
	for b.Loop() {
		b.StopTimer()
		if s.before != nil {
			s.before()
		}
		runtime.ReadMemStats(&before)
		b.StartTimer()
		s.do()
		b.StopTimer()
		runtime.ReadMemStats(&after)
		mallocs, rounds = mallocs+after.Mallocs-before.Mallocs, rounds+1
		b.StartTimer()
	}
	b.ReportMetric(0, "ns/op") // of a whole stage: says nothing
	if s.objects > 0 {
		all := float64(rounds) * float64(s.objects)
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/obj")
		b.ReportMetric(float64(mallocs)/all, "allocs/obj")
	}
	if s.counts != nil {
		s.counts(b.ReportMetric)
	}
	if s.system {
		s.calls(b)
	}
}

// strace counts system calls while a process of the same program does the stage once. That process prepares itself,
// waits until strace is attached, and reports its end.
const (
	childVariable = "TIDEMARK_STAGE_CHILD"
	dataVariable  = "TIDEMARK_STAGE_DATA"
)

// meet is the child's side.
func (s *stage) meet() {
	parent := os.NewFile(3, "parent")
	word := make([]byte, 1)
	if s.before != nil {
		s.before()
	}
	_, _ = parent.Write([]byte("ready\n"))
	_, _ = os.Stdin.Read(word)
	s.do()
	_, _ = parent.Write([]byte("done\n"))
	_, _ = os.Stdin.Read(word)
}

// calls reports the calls of one do, for each object, and flushes for each GiB. Without strace it reports none.
func (s *stage) calls(b *testing.B) {
	b.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		b.Log("no strace, so calls of the system are not counted")
		return
	}
	count, err := trace(b)
	if err != nil {
		b.Logf("calls of the system are not counted: %v", err)
		return
	}
	all := 0.0
	for name, n := range count {
		if !idle(name) {
			all += n
		}
	}
	per := float64(max(1, s.objects))
	b.ReportMetric(all/per, "calls/obj")
	for unit, names := range map[string][]string{
		"stats/obj": {"statx", "newfstatat", "fstatat", "fstat", "lstat", "stat"},
		"opens/obj": {"openat", "open", "openat2"},
		"reads/obj": {"read", "pread64", "preadv", "readv", "getdents64"},
		"rings/obj": {"io_uring_enter"},
		"xattr/obj": {"listxattr", "llistxattr", "flistxattr", "getxattr", "lgetxattr", "fgetxattr"},
	} {
		if n := sum(count, names); n > 0 {
			b.ReportMetric(n/per, unit)
		}
	}
	if n := sum(count, []string{"fsync", "fdatasync", "syncfs", "sync_file_range"}); n > 0 && s.bytes > 0 {
		b.ReportMetric(n, "fsyncs")
		b.ReportMetric(n*(1<<30)/float64(s.bytes), "fsyncs/GiB")
	}
}

func sum(count map[string]float64, names []string) (n float64) {
	for _, name := range names {
		n += count[name]
	}
	return n
}

// idle reports whether a call belongs to the runtime: how often it is made depends on timing, not on the work.
func idle(name string) bool {
	switch name {
	case "futex", "nanosleep", "sched_yield", "madvise", "mmap", "munmap", "mprotect", "tgkill", "getpid",
		"gettid", "clone",
		"clone3", "restart_syscall", "sigaltstack", "prctl", "rseq", "set_robust_list", "epoll_pwait", "epoll_ctl",
		"epoll_create1", "eventfd2", "timer_create", "timer_settime", "timer_delete", "sched_getaffinity", "clock_gettime",
		"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "getrusage":
		return true
	}
	return false
}

// trace does the stage once more in a child, and returns its calls by name.
func trace(b *testing.B) (map[string]float64, error) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var parts []string
	for part := range strings.SplitSeq(b.Name(), "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	said, say, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^$", "-test.bench="+strings.Join(parts, "/"),
		"-test.benchtime=1x")
	child.Env = append(os.Environ(), childVariable+"=yes", dataVariable+"="+dataDir(b))
	child.ExtraFiles = []*os.File{say}
	start, err := child.StdinPipe()
	if err != nil {
		return nil, err
	}
	err = child.Start()
	_ = say.Close()
	if err != nil {
		return nil, err
	}
	defer func() { _ = child.Wait() }()
	defer stop()
	hear := bufio.NewReader(said)
	if _, err := hear.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the child did not begin: %w", err)
	}
	out := filepath.Join(b.TempDir(), "calls")
	look := exec.CommandContext(ctx, "strace", "-f", "-c", "-o", out, "-p", strconv.Itoa(child.Process.Pid))
	attached, err := look.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := look.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(attached).ReadString('\n')
	if err != nil || !strings.Contains(line, "attached") {
		_ = look.Wait()
		return nil, fmt.Errorf("strace: %s", line)
	}
	if _, err := start.Write([]byte{1}); err != nil {
		return nil, err
	}
	if _, err := hear.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the child did not end: %w", err)
	}
	_ = look.Process.Signal(syscall.SIGINT)
	_, _ = io.Copy(io.Discard, attached)
	_ = look.Wait() // ends by the signal
	_ = start.Close()
	text, err := os.ReadFile(out)
	return parse(string(text)), err
}

// parse reads the table of strace -c: share, seconds, microseconds a call, calls, errors if any, name.
func parse(table string) map[string]float64 {
	count := map[string]float64{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		name := fields[len(fields)-1]
		if n, err := strconv.ParseFloat(fields[3], 64); err == nil && name != "total" {
			count[name] = n
		}
	}
	return count
}

func TestParseReadsTheTableOfStrace(t *testing.T) {
	require.Equal(t, map[string]float64{"futex": 1234, "statx": 10}, parse(""+
		"% time     seconds  usecs/call     calls    errors syscall\n"+
		"------ ----------- ----------- --------- --------- ----------------\n"+
		" 98.11    0.000521           0      1234        12 futex\n"+
		"  1.89    0.000010           1        10           statx\n"+
		"------ ----------- ----------- --------- --------- ----------------\n"+
		"100.00    0.000531           0      1244        12 total\n"))
}
