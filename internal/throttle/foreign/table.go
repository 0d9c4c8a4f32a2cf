package foreign

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// kernelThread is PF_KTHREAD of the kernel's include/linux/sched.h.
const kernelThread = 0x00200000

func hostTable() procTable { return procTable{host, os.Getpid()} }

// procTable is a proc file system without one process.
type procTable struct {
	proc
	self int
}

// scan measures all processes: it reads one file of each, and more of those with new I/O. One whose total has not
// changed keeps its previous usage with rose = 0. On the first scan, before is nil and rose is 0 for all.
func (c procTable) scan(before map[int]usage) map[int]usage {
	root, err := os.Open(string(c.proc))
	if err != nil {
		return map[int]usage{}
	}
	defer root.Close()
	names, _ := root.Readdirnames(-1)
	out := make(map[int]usage, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == c.self {
			continue
		}
		dir := string(c.proc) + "/" + name
		total, ok := total(dir)
		if !ok {
			continue
		}
		old, known := before[pid]
		if known && old.total == total {
			old.rose = 0
			out[pid] = old
			continue
		}
		u, ok := measure(dir)
		if !ok {
			continue
		}
		if before != nil {
			u.since(old, known)
		}
		out[pid] = u
	}
	return out
}

// total reads the I/O of a process or thread.
func total(dir string) (sum uint64, ok bool) {
	var buf [512]byte
	read, dirtied, ok := parseIO(load(dir+"/io", buf[:]))
	return read + dirtied, ok
}

// load reads the start of a file of /proc in half the time of os.ReadFile; nothing if it cannot be read.
func load(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// measure reads the usage of a process: the threads, then the total, with the faults before and after.
func measure(dir string) (u usage, ok bool) {
	var buf [1024]byte
	flags, faults, start := parseStat(load(dir+"/stat", buf[:]))
	u = usage{start: start, kernel: flags&kernelThread != 0, faults: faults, threads: map[int]uint64{}}
	tasks := dir + "/task"
	entries, err := os.ReadDir(tasks)
	if err != nil {
		return u, false
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if moved, ok := total(tasks + "/" + e.Name()); ok {
			u.threads[tid] = moved
		}
	}
	if u.total, ok = total(dir); !ok {
		return u, false
	}
	_, faults, start = parseStat(load(dir+"/stat", buf[:]))
	u.settled = faults == u.faults && u.start != 0
	return u, start == u.start
}

// parseStat reads columns 9, 11 and 22 of /proc/PID/stat. The name in parentheses may contain anything; column 3
// follows it.
func parseStat(text []byte) (flags, faults, start uint64) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, 0
	}
	flags, _ = diskwatch.Number(fields[6])
	faults, _ = diskwatch.Number(fields[8])
	start, _ = diskwatch.Number(fields[19])
	return flags, faults, start
}

func (c procTable) name(pid int) string {
	var buf [64]byte // 15 bytes, some more for a kernel thread
	return strings.TrimSpace(string(load(filepath.Join(string(c.proc), strconv.Itoa(pid), "comm"), buf[:])))
}

// where reports where a process works, by its open files, directories and block devices. Files on unknown device
// numbers and processes of other users give no evidence.
func (c procTable) where(pid int, on OnDevice) location {
	dir, err := os.Open(filepath.Join(string(c.proc), strconv.Itoa(pid), "fd"))
	if err != nil {
		return unknownLocation
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxOpenFiles)
	seen := unknownLocation
	pollInterval := map[uint64]bool{}
	for _, name := range names {
		dev, ok := deviceOf(int(dir.Fd()), name)
		if !ok || pollInterval[dev] {
			continue
		}
		pollInterval[dev] = true
		switch is, known := on(dev); {
		case known && is:
			return onDevice
		case known:
			seen = offDevice
		}
	}
	if len(names) == maxOpenFiles && seen == offDevice { // the rest may be on the device
		return unknownLocation
	}
	return seen
}
