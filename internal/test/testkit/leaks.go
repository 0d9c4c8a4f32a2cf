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
// its cleanup runs last. Goroutines have a minute to end. A parallel test fails: the resources of the others would
// count.
func NoLeaks(t testing.TB) {
	t.Helper()
	t.Setenv("TIDEMARK_TEST_COUNTS_LEAKS", "1") // which a parallel test must not
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

// inventory lists the resources of a process: goroutines by number, descriptors by number and target.
type inventory struct {
	goroutines map[string]string // stack by "goroutine 7"
	files      map[string]string // target by descriptor
}

func takeInventory() inventory {
	return inventory{goroutines: goroutines(), files: openFiles()}
}

// leaks describes the resources held now but not in before. It polls until none is left or patience ends.
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

// stacks returns the stacks of all goroutines, the caller's first.
func stacks() string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			return string(buf[:n])
		}
		buf = make([]byte, 2*len(buf))
	}
}

// goroutines returns the stacks of all goroutines except the caller's and those of the runtime and the testing package.
func goroutines() map[string]string {
	all := map[string]string{}
	for i, stack := range strings.Split(stacks(), "\n\n") {
		own := i == 0 || strings.Contains(stack, "testing.(*T).Run(") || strings.Contains(stack, "testing.runTests(") ||
			strings.Contains(stack, "os/signal.loop(") || strings.Contains(stack, "testing.(*M).")
		if id, _, found := strings.Cut(stack, " ["); found && !own {
			all[id] = stack
		}
	}
	return all
}

// openFiles returns the target of each open descriptor. It leaves out the runtime's own for polling, which are opened
// at first use.
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
				continue // the directory that is being read
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
