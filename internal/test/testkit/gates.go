package testkit

import (
	"regexp"
	"runtime"
	"strings"
	"time"
)

const (
	// gatePoll is the time between two looks at the stacks of all goroutines.
	gatePoll = time.Second
	// gateCollections is how many polls there are for each garbage collection, by which the runtime measures waits.
	gateCollections = 10
)

// WatchGates ends the process with a panic if a goroutine enters a gate of the I/O policy twice, which blocks it for
// good, or waits for one for a minute. It prints the chain of calls. TestMain of packages whose tests use gates
// concurrently calls it.
func WatchGates() {
	go func() {
		for n := 1; ; n++ {
			time.Sleep(gatePoll)
			if n%gateCollections == 0 {
				runtime.GC()
			}
			if found := stuckGates(stacks()); len(found) > 0 {
				panic("\n" + strings.Join(found, "\n\n") + "\n")
			}
		}
	}()
}

// stuckGates returns the stacks of goroutines that wait for the lock of a gate although they hold one, or for a minute.
// A goroutine holds one if a gate has called something outside its package, such as a watcher, which called a gate.
func stuckGates(all string) (found []string) {
	waits := regexp.MustCompile(`^goroutine \d+ \[sync\.(Mutex\.Lock|RWMutex\.R?Lock)(, \d+ minutes)?`)
	for stack := range strings.SplitSeq(all, "\n\n") {
		lines := strings.Split(stack, "\n")
		state := waits.FindStringSubmatch(lines[0])
		if state == nil {
			continue
		}
		// The parts of the stack, from the newest call: 'g' for one in a gate, 'o' for one outside its package.
		parts := ""
		for _, call := range lines[1:] {
			part := "o"
			switch {
			case strings.HasPrefix(call, "\t"), strings.HasPrefix(call, "sync."), strings.HasPrefix(call, "internal/sync."):
				continue
			case strings.Contains(call, "/iopolicy.(*Gate)."):
				part = "g"
			case strings.Contains(call, "/iopolicy."):
				continue
			}
			if !strings.HasSuffix(parts, part) {
				parts += part
			}
		}
		switch {
		case strings.HasPrefix(parts, "gog"):
			found = append(found, "a goroutine enters a gate twice:\n"+stack)
		case strings.HasPrefix(parts, "g") && state[2] != "":
			found = append(found, "this goroutine waits for a gate that stays locked:\n"+stack)
		}
	}
	return found
}
