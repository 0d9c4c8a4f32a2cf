package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
)

// Other is a lease that is not this session's.
type Other struct {
	Lease lease.Lease // as far as it can be read; one that cannot heeds nothing
	Name  store.Name
	Quiet time.Duration // since it was last written, by the clock of the target; negative if that clock went back
	Alive bool          // its writer must be taken to be at work
}

// Heeds reports whether the writer has said that it obeys a mark.
func (o *Other) Heeds(id format.ID) bool { return slices.Contains(o.Lease.Heeds, id) }

// Others returns the leases of other writers, judged by the clock of the target. A writer is taken for dead half as long
// again after it must have noticed itself that its lease was lost. Before, this session's own lease is renewed: what comes
// back was listed while it stood. Of a dry run, which has none, the clock of this machine serves.
func (s *Session) Others(ctx context.Context) ([]Other, error) {
	if err := s.Hold(ctx); err != nil {
		return nil, err
	}
	now := s.Now()
	found := make(map[store.Name]store.Info)
	// A lease that is replaced while a folder is read can be missed on some file systems; one that is renewed every few
	// minutes not twice.
	for range 2 {
		for info, err := range s.st.List(ctx, store.Lease) {
			if err != nil {
				return nil, fmt.Errorf("list leases: %w", err)
			}
			if info.Name != s.lease.name {
				found[info.Name] = info
			}
		}
	}
	var others []Other
	for name, info := range found {
		o := Other{Name: name, Quiet: now.Sub(info.Modified)}
		o.Alive = o.Quiet <= s.opt.Tuning.Expiry+s.opt.Tuning.Expiry/2
		plain, err := object.Load(ctx, s.st, s.to.Keys, name, -1)
		if errors.Is(err, store.ErrNotExist) {
			continue // it has ended
		}
		if err == nil {
			var l *lease.Lease
			if l, err = lease.Decode(plain); err == nil && l.ID.String() == name.ID {
				o.Lease = *l
			}
		}
		if err != nil && !object.IsDamage(err) && !errors.Is(err, format.ErrUnsupported) {
			return nil, fmt.Errorf("read lease: %w", err)
		}
		others = append(others, o)
	}
	slices.SortFunc(others, func(a, b Other) int { return strings.Compare(a.Name.ID, b.Name.ID) })
	return others, nil
}

// Hold renews the lease, and fails with ErrLeaseLost if others may have taken this writer for dead since it began. Who
// removes something calls it before.
func (s *Session) Hold(ctx context.Context) error {
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

// Now returns the time of the target when the lease was last renewed. Of a dry run, which has none, it is that of this
// machine.
func (s *Session) Now() time.Time {
	if s.opt.DryRun {
		return s.opt.Tuning.Now()
	}
	return s.lease.heard()
}
