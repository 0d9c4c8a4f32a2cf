package others

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// scanProcesses reads what every other process has moved that may be looked at.
func scanProcesses() map[int]used { return proc("/proc").scan(os.Getpid()) }

func (root proc) scan(self int) map[int]used {
	entries, err := os.ReadDir(string(root))
	if err != nil {
		return map[int]used{}
	}
	out := make(map[int]used, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == self {
			continue
		}
		dir := filepath.Join(string(root), e.Name())
		text, err := os.ReadFile(filepath.Join(dir, "io"))
		if err != nil {
			continue
		}
		read, dirtied, ok := parseIO(text)
		if !ok {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		out[pid] = used{strings.TrimSpace(string(name)), startOf(dir), read + dirtied}
	}
	return out
}
