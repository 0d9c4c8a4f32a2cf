package gatehouse

import (
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// Announcement tells those who share devices what policy another program has, which knows nothing of gates. A nil one tells
// nobody.
type Announcement struct {
	states  []*shared.State
	entries []*shared.Entry
}

// Announce makes entries for process pid on the devices of some places, in the runtime folder. What the process and its
// children do there then counts as I/O of its policy's tier, and not as that of a stranger. Where that cannot be, the
// error says why, and the rest holds all the same.
func Announce(runtime string, pid int, p iopolicy.Policy, places ...string) (*Announcement, error) {
	a := &Announcement{}
	var errs []error
	known := map[string]bool{"": true}
	for _, place := range places {
		info, err := device.Of(place)
		if err != nil || known[info.Key] {
			continue
		}
		known[info.Key] = true
		s, err := shared.Attach(runtime, info.Key, shared.Options{Policy: iopolicy.Passive})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a.states = append(a.states, s)
		e, err := s.Announce(pid, p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a.entries = append(a.entries, e)
	}
	if err := errors.Join(errs...); err != nil {
		return a, fmt.Errorf("announce process %d to others: %w", pid, err)
	}
	return a, nil
}

// SetPolicy changes the policy of the entries.
func (a *Announcement) SetPolicy(p iopolicy.Policy) {
	if a == nil {
		return
	}
	for _, e := range a.entries {
		e.SetPolicy(p)
	}
}

// Leave lets the entries last as long as the process they name. Nothing can be changed afterwards.
func (a *Announcement) Leave() error {
	if a == nil {
		return nil
	}
	var errs []error
	for _, e := range a.entries {
		errs = append(errs, e.Detach())
	}
	return errors.Join(append(errs, a.Close())...)
}

// Close removes the entries, but for those that were left.
func (a *Announcement) Close() error {
	if a == nil {
		return nil
	}
	var errs []error
	for _, s := range a.states {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
