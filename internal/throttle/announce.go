package throttle

import (
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// Announcement publishes the policy of a program without gates of its own to the processes that share its devices.
type Announcement struct{ states []*shared.State }

// Announce publishes the policy of process pid on the devices of some paths. I/O of the process and its children then
// counts at that tier, and not as foreign I/O of tier 0. An error concerns some devices; the others are announced.
func Announce(runtime string, pid int, p iopolicy.Policy, paths ...string) (*Announcement, error) {
	a := &Announcement{}
	var errs []error
	known, devices := map[string]bool{"": true}, device.NewFinder()
	for _, path := range paths {
		info, err := devices.Of(path)
		if err != nil || known[info.Key] {
			continue
		}
		known[info.Key] = true
		s, err := shared.Announce(runtime, info.Key, pid, shared.Options{Policy: p})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a.states = append(a.states, s)
	}
	if err := errors.Join(errs...); err != nil {
		return a, fmt.Errorf("announce process %d to others: %w", pid, err)
	}
	return a, nil
}

// SetPolicy changes the policy of the entries.
func (a *Announcement) SetPolicy(p iopolicy.Policy) {
	for _, s := range a.states {
		s.SetPolicy(p)
	}
}

// Leave keeps the entries until the process ends, and closes a.
func (a *Announcement) Leave() {
	for _, s := range a.states {
		s.Detach()
	}
}

// Close removes the entries, unless Leave was called.
func (a *Announcement) Close() {
	for _, s := range a.states {
		s.Close()
	}
}
