package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
	Fenced       bool          // Name is a fence: the writer cannot renew its lease without noticing it
	Ended        bool          // its process is known to have ended; what it has sent to a server may still arrive
}

// Acknowledges reports whether the writer has acknowledged a mark.
func (o *Other) Acknowledges(id format.ID) bool { return slices.Contains(o.Lease.Acknowledged, id) }

// Pruning returns the prune among writers that is at work, nil if there is none.
func Pruning(others []Other) *Other {
	i := slices.IndexFunc(others, func(o Other) bool { return o.Alive && o.Lease.Task == PruneTask })
	if i < 0 {
		return nil
	}
	return &others[i]
}

// Others returns the leases of other writers, checked by the clock of the target. A writer is treated as dead one and a
// half times as late as it must have noticed itself that its lease was lost. Others first renews this session's own
// lease, so the returned leases were listed while it was valid. A dry run has no lease and uses the clock of this
// machine.
func (s *Session) Others(ctx context.Context) ([]Other, error) {
	found := make(map[store.Name]store.Info)
	early := make(chan error, 1)
	go func() { early <- s.listLeases(ctx, found) }()
	err := s.RenewOrFail(ctx)
	if failed := <-early; err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		others, gone, err := s.readLeases(ctx, found)
		if err != nil {
			return nil, err
		}
		if len(gone) > 0 && try < leaseListings {
			found = nil
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

// listLeases adds the leases of other writers to found, and the probes of prunes.
func (s *Session) listLeases(ctx context.Context, found map[store.Name]store.Info) error {
	for info, err := range s.st.List(ctx, store.Lease) {
		if err != nil {
			return fmt.Errorf("list leases: %w", err)
		}
		if lease.WriterOf(info.Name.ID) != s.lease.record.ID.String() {
			found[info.Name] = info
		}
	}
	return nil
}

// readLeases lists and reads the leases of other writers. A renewal during a listing can be missed together with the
// lease before it. Renewals come every few minutes, so a second listing shows it: found is an earlier one, or nil. gone
// are the leases that were listed and do not exist.
func (s *Session) readLeases(ctx context.Context, found map[store.Name]store.Info) (others []Other, gone []store.Name,
	err error,
) {
	now := s.Now()
	if found == nil {
		found = make(map[store.Name]store.Info)
		err = s.listLeases(ctx, found)
	}
	if err == nil {
		err = s.listLeases(ctx, found)
	}
	if err != nil {
		return nil, nil, err
	}
	for name, info := range found {
		if !lease.IsProbe(name.ID) {
			continue
		}
		if delete(found, name); s.opt.Task == PruneTask && now.Sub(info.Modified) > LeaseExpiry {
			_ = store.Discard(ctx, s.st, name) // of a prune that was killed; the next one tries again
		}
	}
	names := slices.SortedFunc(maps.Keys(found), func(a, b store.Name) int { return strings.Compare(b.ID, a.ID) })
	all, there := make([]Other, len(names)), make([]bool, len(names))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(object.SmallAtOnce)
	for i, name := range names {
		o := &all[i]
		*o = Other{Name: name, SinceRenewal: now.Sub(found[name].Modified), Fenced: found[name].Fence}
		if o.Fenced {
			there[i] = true
			continue
		}
		o.Alive = o.SinceRenewal <= LeaseExpiry+LeaseExpiry/2
		reads.Go(func() (err error) {
			there[i], err = o.read(reading, s)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, nil, err
	}
	for i := range all { // of each writer the last renewal first
		o, last := &all[i], len(others)-1
		switch {
		case !there[i]:
			gone = append(gone, o.Name)
		case last < 0 || lease.WriterOf(others[last].Name.ID) != lease.WriterOf(o.Name.ID):
			others = append(others, *o)
		default:
			others[last].join(o)
		}
	}
	slices.Reverse(others)
	return others, gone, nil
}

// join adds an earlier renewal of the same writer, or a fence that the writer has passed. What lies before a fence was
// treated as dead already.
func (o *Other) join(earlier *Other) {
	o.Older = append(o.Older, earlier.Name)
	if !o.Fenced && !earlier.Fenced {
		o.Alive = o.Alive || earlier.Alive
		o.SinceRenewal = min(o.SinceRenewal, earlier.SinceRenewal)
	}
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

// FenceKept is how long a fence stays: far longer than clocks of targets are corrected by. A writer that comes back
// later finds that its lease has expired, by the same clock.
const FenceKept = 7 * 24 * time.Hour

// Fence takes the next names of writers that are treated as dead, and removes their leases. If such a writer continues,
// it cannot renew its lease, and detects that before it publishes a snapshot or just after. Fence returns false if a
// writer has taken the name before: it is alive, and the caller must list the leases again.
func (s *Session) Fence(ctx context.Context, others []Other) (all bool, err error) {
	all = true
	for i := range others {
		o := &others[i]
		if o.Alive {
			continue
		}
		fenced := o.Fenced || o.Ended
		if !fenced {
			if fenced, err = s.fence(ctx, o); err != nil {
				return false, fmt.Errorf("fence off a writer that is gone: %w", err)
			}
		}
		if !fenced {
			all = false
			continue
		}
		old := slices.Clone(o.Older)
		if !o.Fenced || o.SinceRenewal > FenceKept {
			old = append(old, o.Name)
		}
		for _, name := range old {
			_ = store.Discard(ctx, s.st, name) // what stays has no effect, and the next prune tries again
		}
	}
	return all, nil
}

// fence takes the next name of a writer; false: the writer has it. A lease whose name is not that of a renewal has no
// next one. Its writer is none of this program.
func (s *Session) fence(ctx context.Context, o *Other) (bool, error) {
	id, ok := lease.NextName(o.Name.ID)
	if !ok {
		return true, nil
	}
	next := store.Name{Kind: store.Lease, ID: id}
	err := s.st.Fence(ctx, next)
	if errors.Is(err, store.ErrNoSpace) { // in the space of the dead lease
		if err = store.Discard(ctx, s.st, o.Name); err == nil {
			err = s.st.Fence(ctx, next)
		}
	}
	if errors.Is(err, store.ErrExists) {
		return false, nil
	}
	return err == nil, err
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
