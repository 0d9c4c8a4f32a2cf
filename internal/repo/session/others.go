package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
)

// Other is another writer, as its lease describes it.
type Other struct {
	Lease        lease.Lease   // the last renewal; an unreadable one acknowledges nothing
	Name         store.Name    // of the last renewal
	Older        []store.Name  // of earlier renewals that still exist
	SinceRenewal time.Duration // since it was last written, by the clock of the target; negative if that clock went back
	Alive        bool          // its writer must be treated as running
	Ended        bool          // its process is known to have ended; what it has sent to a server may still arrive
}

// Acknowledges reports whether the writer has acknowledged a mark.
func (o *Other) Acknowledges(id format.ID) bool { return slices.Contains(o.Lease.Acknowledged, id) }

// Others returns the leases of other writers, checked by the clock of the target. A writer is treated as dead one and a
// half times as late as it must have noticed itself that its lease was lost. Others first renews this session's own
// lease, so the returned leases were listed while it was valid. A dry run has no lease and uses the clock of this
// machine.
func (s *Session) Others(ctx context.Context) ([]Other, error) {
	if err := s.RenewOrFail(ctx); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		others, gone, err := s.readLeases(ctx)
		if err != nil {
			return nil, err
		}
		if len(gone) > 0 && try < leaseListings {
			continue // concurrently renewed under another name, or ended
		}
		// A listing that still shows a lease which is gone may hide a renewal of it.
		for _, name := range gone {
			others = append(others, Other{Name: name, Alive: true})
		}
		return others, nil
	}
}

// leaseListings is how often the leases are listed if one of them disappears before it is read.
const leaseListings = 4

// readLeases lists and reads the leases of other writers. gone are those that were listed and do not exist.
func (s *Session) readLeases(ctx context.Context) (others []Other, gone []store.Name, err error) {
	now := s.Now()
	found := make(map[store.Name]store.Info)
	// A renewal during a listing can be missed together with the lease before it. Renewals come every few minutes, so
	// the second listing shows it.
	for range 2 {
		for info, err := range s.st.List(ctx, store.Lease) {
			if err != nil {
				return nil, nil, fmt.Errorf("list leases: %w", err)
			}
			if lease.WriterOf(info.Name.ID) != s.lease.record.ID.String() {
				found[info.Name] = info
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(found), func(a, b store.Name) int { return strings.Compare(b.ID, a.ID) })
	for _, name := range names { // of each writer the last renewal first
		o := Other{Name: name, SinceRenewal: now.Sub(found[name].Modified)}
		o.Alive = o.SinceRenewal <= LeaseExpiry+LeaseExpiry/2
		there, err := o.read(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		if !there {
			gone = append(gone, name)
			continue
		}
		last := len(others) - 1
		if last < 0 || lease.WriterOf(others[last].Name.ID) != lease.WriterOf(name.ID) {
			others = append(others, o)
			continue
		}
		others[last].Older = append(others[last].Older, name)
		others[last].Alive = others[last].Alive || o.Alive
		others[last].SinceRenewal = min(others[last].SinceRenewal, o.SinceRenewal)
	}
	slices.Reverse(others)
	return others, gone, nil
}

// read reads a lease, and reports whether it exists.
func (o *Other) read(ctx context.Context, s *Session) (there bool, err error) {
	plain, err := object.Load(ctx, s.st, s.to.Keys, o.Name, -1)
	if errors.Is(err, store.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		var l *lease.Lease
		if l, err = lease.Decode(plain); err == nil && l.Name() == o.Name.ID {
			o.Lease = *l
		}
	}
	if err != nil && !object.IsDamage(err) && !errors.Is(err, format.ErrUnsupported) {
		return false, fmt.Errorf("read lease: %w", err)
	}
	return true, nil
}

// Fence deletes the leases of writers that are treated as dead. If such a writer continues, it detects the loss before
// it publishes a snapshot or just after. Fence returns false if a lease was already gone: its writer has renewed it or
// has ended, and the caller must list the leases again.
func (s *Session) Fence(ctx context.Context, others []Other) (all bool, err error) {
	all = true
	for i := range others {
		if others[i].Alive {
			continue
		}
		for _, name := range append(slices.Clone(others[i].Older), others[i].Name) {
			err := s.st.Delete(ctx, name)
			if errors.Is(err, store.ErrNotExist) {
				all = false
			} else if err != nil {
				return false, fmt.Errorf("remove the lease of a writer that is gone: %w", err)
			}
		}
	}
	return all, nil
}

// RenewOrFail renews the lease, and fails with ErrLeaseLost if other writers may have treated this one as dead since it
// began. A caller that removes files calls it before.
func (s *Session) RenewOrFail(ctx context.Context) error {
	if s.opt.DryRun {
		return nil
	}
	if err := s.lease.renew(ctx); err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	if s.lease.wasLost() {
		return ErrLeaseLost
	}
	return nil
}

// Now returns the time of the target when the lease was last renewed. A dry run has no lease and uses the clock of this
// machine.
func (s *Session) Now() time.Time {
	if s.opt.DryRun {
		return s.opt.Tuning.Now()
	}
	return s.lease.renewed()
}
