package peers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// machine is where something was measured, and with which programs.
type machine struct {
	Time       string            `json:"time"`
	System     string            `json:"system"`
	Processor  string            `json:"processor"`
	Processors int               `json:"processors"`
	Memory     string            `json:"memory"`
	FileSystem string            `json:"file_system"` // of repositories and restored trees
	Versions   map[string]string `json:"versions"`
	Load       float64           `json:"load"` // when it began
}

// describe queries the system. Unknown fields stay empty.
func describe(ctx context.Context, dir string, peers []peer) machine {
	m := machine{
		Time: time.Now().UTC().Format("2006-01-02 15:04"), Processors: runtime.NumCPU(), Load: load(),
		Versions: map[string]string{},
		System:   line(ctx, "uname", "-srm"), FileSystem: line(ctx, "stat", "-f", "-c", "%T", dir),
		Processor: entry("/proc/cpuinfo", "model name"), Memory: entry("/proc/meminfo", "MemTotal"),
	}
	for _, t := range peers {
		if len(t.version) > 0 {
			m.Versions[t.name] = line(ctx, t.program, t.version...)
		}
	}
	return m
}

// line returns the first line that a program prints.
func line(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(strings.TrimPrefix(first, filepath.Base(program)+" "))
}

// entry returns the first value of a name in a file of lines "name: value".
func entry(path, name string) string {
	text, err := sysinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// load returns the average load of the last minute, 0 where it is unknown.
func load() (n float64) {
	if text, err := sysinfo.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &n)
	}
	return n
}
