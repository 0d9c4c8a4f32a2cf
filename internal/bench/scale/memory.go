package scale

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// watchEvery is the interval at which the memory of a process is sampled.
const watchEvery = 20 * time.Millisecond

// memory is the maximum resident set of a process, in bytes; zero where the system does not report it.
type memory struct {
	Peak int64 `json:"peak"` // the kernel's high-water mark of all of it
	Anon int64 `json:"anon"` // of that, its own memory, as sampled; the most of each need not be of one moment
	File int64 `json:"file"` // pages of mapped files: the local cache, the program itself
}

// watchMemory samples a process until the returned function is called. The maximum that wait(2) reports is not used: it
// begins with that of the process that forked.
func watchMemory(pid int) (stop func() memory) {
	quit, done := make(chan struct{}), make(chan memory)
	go func() {
		var most memory
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			if text, err := sysinfo.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
				now := parseStatus(text)
				most = memory{max(most.Peak, now.Peak), max(most.Anon, now.Anon), max(most.File, now.File)}
			}
			select {
			case <-tick.C:
			case <-quit:
				done <- most
				return
			}
		}
	}()
	return func() memory { close(quit); return <-done }
}

// parseStatus reads /proc/PID/status.
func parseStatus(text []byte) (m memory) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		words := strings.Fields(value)
		if len(words) != 2 || words[1] != "kB" {
			continue
		}
		n, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "VmHWM":
			m.Peak = n << 10
		case "RssAnon":
			m.Anon = n << 10
		case "RssFile", "RssShmem": // a file in memory, such as a cache in /dev/shm, counts as the latter
			m.File += n << 10
		}
	}
	return m
}
