package testkit

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// NoLeaks makes the test fail if goroutines or descriptors that it opened are left at its end. Call it first, so that
// it looks last, after every other cleanup. Goroutines that are about to end are given a minute. It cannot serve tests
// that run in parallel with others: theirs would be counted.
func NoLeaks(t testing.TB) {
	t.Helper()
	noLeaks(t, time.Minute)
}

func noLeaks(t testing.TB, patience time.Duration) {
	before := takeInventory()
	t.Cleanup(func() {
		t.Helper()
		for _, leak := range before.leaks(patience) {
			t.Errorf("leaked %s", leak)
		}
	})
}

// inventory is what a process holds: goroutines by number, descriptors by number and what they stand for.
type inventory struct {
	goroutines map[string]string // stack by "goroutine 7"
	files      map[string]string // target by descriptor
}

func takeInventory() inventory {
	return inventory{goroutines: goroutines(), files: openFiles()}
}

// leaks describes what is held now and was not held in before. It looks again until nothing is left or patience ends.
func (before inventory) leaks(patience time.Duration) []string {
	for wait, deadline := time.Millisecond, time.Now().Add(patience); ; wait = min(2*wait, 100*time.Millisecond) {
		now := takeInventory()
		var found []string
		for _, id := range slices.Sorted(maps.Keys(now.goroutines)) {
			if _, old := before.goroutines[id]; !old {
				found = append(found, now.goroutines[id])
			}
		}
		for _, fd := range slices.Sorted(maps.Keys(now.files)) {
			if target := now.files[fd]; before.files[fd] != target {
				found = append(found, fmt.Sprintf("descriptor %s: %s", fd, target))
			}
		}
		if len(found) == 0 || time.Now().After(deadline) {
			return found
		}
		time.Sleep(wait)
	}
}

// goroutines returns the stacks of all goroutines but the caller's and those of the runtime and the testing package.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := map[string]string{}
	for i, stack := range strings.Split(string(buf), "\n\n") {
		own := i == 0 || strings.Contains(stack, "testing.(*T).Run(") || strings.Contains(stack, "testing.runTests(") ||
			strings.Contains(stack, "os/signal.loop(") || strings.Contains(stack, "testing.(*M).")
		if id, _, found := strings.Cut(stack, " ["); found && !own {
			all[id] = stack
		}
	}
	return all
}

// openFiles returns what each open descriptor stands for. The runtime's own, for polling, are left out: it opens them
// when they are first needed.
func openFiles() map[string]string {
	dir := "/proc/self/fd"
	if runtime.GOOS == "darwin" {
		dir = "/dev/fd"
	}
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return all
	}
	for _, e := range entries {
		target, err := os.Readlink(dir + "/" + e.Name())
		if err != nil {
			if _, err := os.Lstat(dir + "/" + e.Name()); err != nil {
				continue // the directory just read
			}
			target = "open"
		}
		poller := target == "anon_inode:[eventpoll]" || target == "anon_inode:[eventfd]"
		if own := strings.HasPrefix(target, "/proc/") && strings.HasSuffix(target, "/fd"); !poller && !own {
			all[e.Name()] = target
		}
	}
	return all
}
