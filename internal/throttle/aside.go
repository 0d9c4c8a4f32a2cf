package throttle

import (
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/throttle/priority"
)

// asideInterval is the time between two choices of processors: long enough for /proc/stat, which counts 10 ms each.
const asideInterval = 500 * time.Millisecond

// aside keeps this process off the processors that others use while it gets only a part of a disk: it uses no more than
// that part of the processors. A thread that runs beside others delays them even at the lowest priority. docs/adr/0021
// has the figures.
type aside struct {
	share      func() float64 // the smallest part that one of the gates grants
	processors priority.Processors

	mu    sync.Mutex
	at    time.Time          // of the last choice
	other func(part float64) // also called with the share; nil: nothing
}

// follow chooses processors, if that is due.
func (a *aside) follow(now time.Time) {
	if !a.mu.TryLock() {
		return
	}
	if now.Sub(a.at) < asideInterval {
		a.mu.Unlock()
		return
	}
	a.at = now
	go func() { // the gate that asks holds its lock
		defer a.mu.Unlock()
		part := a.share()
		a.processors.Use(part)
		if a.other != nil {
			a.other(part)
		}
	}()
}

// end gives this process all its processors.
func (a *aside) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.processors.Use(1)
}
