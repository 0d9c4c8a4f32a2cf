package foreign

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// proc is a mounted proc file system.
type proc string

// host is that of this machine.
const host proc = "/proc"

// open opens the counters of a process. A start of 0 matches any. The kernel binds the file to the process and not to
// its ID: reading fails once it has ended.
func (root proc) open(pid int, start uint64) (*other, error) {
	dir := filepath.Join(string(root), strconv.Itoa(pid))
	f, err := os.Open(filepath.Join(dir, "io"))
	if err != nil {
		return nil, err
	}
	p := &other{file: f}
	if _, _, ok := p.bytes(); !ok || start != 0 && startOf(dir) != start {
		f.Close()
		return nil, errors.New("the process has ended")
	}
	return p, nil
}

// startOf returns the time of the start of a process, in ticks since boot; 0: not known.
func startOf(dir string) uint64 {
	text, err := sysinfo.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0
	}
	_, _, start := parseStat(text)
	return start
}

// children appends the children of pid that were not waited for yet. The kernel lists them by the thread that started
// them.
func (root proc) children(pid int, to []int) []int {
	tasks := filepath.Join(string(root), strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return to
	}
	for _, t := range threads {
		text, err := sysinfo.ReadFile(filepath.Join(tasks, t.Name(), "children"))
		if err != nil {
			continue
		}
		for field := range bytes.FieldsSeq(text) {
			if v, rest := diskwatch.Number(field); rest != nil {
				to = append(to, int(v))
			}
		}
	}
	return to
}

// other is another process.
type other struct {
	file *os.File
	buf  [512]byte
}

// bytes returns what it and its ended children have read and made dirty; !ok: it has ended.
func (p *other) bytes() (read, dirtied uint64, ok bool) {
	n, _ := p.file.ReadAt(p.buf[:], 0)
	return parseIO(p.buf[:n])
}

func (p *other) close() { p.file.Close() }

// parseIO reads /proc/PID/io.
func parseIO(text []byte) (read, dirtied uint64, ok bool) {
	_, text, _ = bytes.Cut(text, []byte("\nread_bytes: "))
	read, text = diskwatch.Number(text)
	_, text, _ = bytes.Cut(text, []byte("\nwrite_bytes: "))
	dirtied, text = diskwatch.Number(text)
	return read, dirtied, text != nil
}
