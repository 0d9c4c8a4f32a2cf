package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// writerLease is the lease of this writer: a file on the target that is renewed regularly. Other machines compare its
// time with the clock of the target, and so does the writer: local clocks may miss that the process was stopped or the
// machine suspended for longer than the lease lasts.
type writerLease struct {
	st       store.Store
	keys     *seal.Keys
	now      func() time.Time
	announce func(lease string) // may be nil
	stop     context.CancelFunc
	done     chan struct{}

	began time.Time // by the clock of the target

	mu     sync.Mutex
	record lease.Lease
	name   store.Name   // of the last successful renewal
	stray  []store.Name // of failed renewals: they may exist
	last   time.Time    // when it was last renewed, by the clock of the target
	gaps   int          // how often the lease was found expired or absent
}

func newLease(st store.Store, keys *seal.Keys, opt Options) *writerLease {
	return &writerLease{
		st: st, keys: keys, now: opt.Tuning.Now, announce: opt.Announce,
		record: lease.Lease{Host: opt.Host, PID: uint32(os.Getpid()), Task: opt.Task},
	}
}

// start puts the lease.
func (l *writerLease) start(ctx context.Context) error {
	id, err := lease.NewID()
	if err != nil {
		return err
	}
	l.record.ID = id
	if l.announce != nil {
		l.announce(l.record.ID.String())
	}
	l.record.Started = l.now().Unix()
	name, err := l.put(ctx)
	l.name = name // also after an error: the file may exist
	return err
}

// hold looks at the lease that start has put, and begins to renew it.
func (l *writerLease) hold(ctx context.Context) error {
	info, err := l.st.Stat(ctx, l.name)
	if err != nil {
		return fmt.Errorf("look at lease: %w", err)
	}
	l.began, l.last = info.Modified, info.Modified
	ctx, l.stop = context.WithCancel(ctx)
	l.done = make(chan struct{})
	go l.run(ctx)
	return nil
}

func (l *writerLease) run(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			// The next renewal may still succeed in time. verifyBeforePublish checks whether one did.
			_ = l.renew(ctx)
		}
	}
}

// put writes the lease under the name of this renewal.
func (l *writerLease) put(ctx context.Context) (store.Name, error) {
	l.record.Heartbeat = l.now().Unix()
	name := store.Name{Kind: store.Lease, ID: l.record.Name()}
	data, err := l.keys.SealObject(seal.LeaseObject, lease.Encode(&l.record))
	if err != nil {
		return name, err
	}
	if err := l.st.Put(ctx, name, data); err != nil {
		return name, fmt.Errorf("write lease: %w", err)
	}
	return name, nil
}

// renew writes the lease under its next name and deletes the previous one. It detects whether the lease was absent or
// expired at any time since the last renewal.
func (l *writerLease) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewLocked(ctx)
}

// renewals is how often a renewal is tried that the target answers with an error.
const renewals = 3

func (l *writerLease) renewLocked(ctx context.Context) error {
	for try := 1; ; try++ {
		err := l.renewOnce(ctx)
		if err == nil || try == renewals || ctx.Err() != nil ||
			errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrNoSpace) {
			return err
		}
	}
}

func (l *writerLease) renewOnce(ctx context.Context) error {
	l.record.Renewal++
	name, err := l.put(ctx)
	if errors.Is(err, store.ErrNoSpace) && l.record.Task == PruneTask {
		return l.replaceLocked(ctx, err)
	}
	if err != nil {
		l.stray = append(l.stray, name)
		return err
	}
	// Of this writer and a prune that treats it as dead, only one can delete the previous lease.
	removed := make(chan error, 1)
	go func(old store.Name) { removed <- l.st.Delete(ctx, old) }(l.name)
	info, err := l.st.Stat(ctx, name)
	switch gone := <-removed; {
	case errors.Is(gone, store.ErrNotExist):
		l.gaps++
	case gone != nil:
		l.stray = append(l.stray, name)
		return fmt.Errorf("replace lease: %w", gone)
	}
	l.name = name
	if err != nil { // the time of the renewal before counts until the next one
		return fmt.Errorf("look at lease: %w", err)
	}
	if info.Modified.Sub(l.last) > LeaseExpiry {
		l.gaps++
	}
	l.last = info.Modified
	l.dropStray(ctx)
	return nil
}

// replaceLocked renews the lease in the space of the previous one, which it deletes first. Only a prune does so: it
// relies on no pack, so in between no other writer can harm it. If the new lease cannot be put, it counts as lost.
func (l *writerLease) replaceLocked(ctx context.Context, short error) error {
	if err := l.st.Delete(ctx, l.name); errors.Is(err, store.ErrNotExist) {
		l.gaps++
	} else if err != nil {
		return short
	}
	name, err := l.put(ctx)
	if err == nil {
		var info store.Info
		if info, err = l.st.Stat(ctx, name); err == nil {
			if info.Modified.Sub(l.last) > LeaseExpiry {
				l.gaps++
			}
			l.name, l.last = name, info.Modified
			return nil
		}
	}
	l.gaps++
	l.stray = append(l.stray, name)
	return err
}

// dropStray deletes the remains of failed renewals.
func (l *writerLease) dropStray(ctx context.Context) {
	l.stray = slices.DeleteFunc(l.stray, func(name store.Name) bool {
		err := l.st.Delete(ctx, name)
		return err == nil || errors.Is(err, store.ErrNotExist)
	})
}

// check checks whether the lease still exists.
func (l *writerLease) check(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.st.Stat(ctx, l.name)
	if errors.Is(err, store.ErrNotExist) {
		l.gaps++
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at lease: %w", err)
	}
	return nil
}

// acknowledge renews the lease with the names of the marks that its writer acknowledges.
func (l *writerLease) acknowledge(ctx context.Context, marks []format.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Acknowledged = marks
	return l.renewLocked(ctx)
}

// renewed returns the time of the target when the lease was last renewed.
func (l *writerLease) renewed() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// wasLost reports whether there was a time since start at which other writers could treat this one as dead.
func (l *writerLease) wasLost() bool { return l.lapses() > 0 }

// lapses returns at how many renewals that was detected.
func (l *writerLease) lapses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gaps
}

// end stops renewing and removes the lease. Without a start it does nothing.
func (l *writerLease) end(ctx context.Context) error {
	if l.stop != nil {
		l.stop()
		<-l.done // before the name is read: a renewal changes it
	}
	if l.name == (store.Name{}) {
		return nil
	}
	l.dropStray(ctx)
	// Also after a failed start: the file may be there although the target reported an error.
	return l.st.Delete(ctx, l.name)
}

// verifyBeforePublish renews the lease and verifies that everything the snapshot relies on exists. If the lease was
// lost, a prune may have removed packs that this session found in the index, so all packs are checked. It returns how
// many lapses of the lease that covers.
func (s *Session) verifyBeforePublish(ctx context.Context) (lapses int, err error) {
	if s.opt.DryRun {
		return 0, nil
	}
	if err := s.recheckStored(ctx); err != nil {
		return 0, err
	}
	for {
		if err := s.lease.renew(ctx); err != nil {
			return 0, fmt.Errorf("renew lease: %w", err)
		}
		known := lapses
		if lapses = s.lease.lapses(); lapses == known {
			return lapses, nil
		}
		if err := s.recheck(ctx); err != nil {
			return 0, err
		}
	}
}

// verifyAfterPublish runs when the snapshot is stored. A prune deletes the lease of a writer that it treats as dead
// before it lists the snapshots. So if the lease still exists, every prune that counts this writer as dead sees the
// snapshot. If not, the packs are checked again, and the snapshot is deleted when one is missing.
func (s *Session) verifyAfterPublish(ctx context.Context, name store.Name, lapses int) error {
	if s.opt.DryRun {
		return nil
	}
	if err := s.lease.check(ctx); err == nil && s.lease.lapses() == lapses {
		return nil
	}
	err := s.lease.renew(ctx)
	if err == nil && s.lease.lapses() > lapses {
		err = s.recheck(ctx)
	}
	if err != nil {
		undo := s.st.Delete(context.WithoutCancel(ctx), name)
		if undo != nil && !errors.Is(undo, store.ErrNotExist) {
			err = fmt.Errorf("%w (and snapshot %s, which may lack something, cannot be taken back: %w)", err, name.ID, undo)
		}
	}
	return err
}

// recheck requires that every pack the index names is on the target and that none was doomed since the session began.
// That is more than the snapshot needs, but the packs of subtrees taken over from the parent are unknown here.
// Repeating a run that fails for this reason is fast, since its packs are in the index.
func (s *Session) recheck(ctx context.Context) error {
	s.opt.Observer.Note("the lease of this run had expired; making sure that everything it relies on is still there")
	marked, err := marks.Doomed(ctx, s.st, s.to.Keys)
	if err != nil {
		return fmt.Errorf("read marks: %w", err)
	}
	missing := make(map[format.ID]struct{})
	err = s.to.Packs(func(p index.PackInfo) error {
		id := p.ID
		if _, before := s.doomed[id]; before {
			return nil
		}
		if _, now := marked[id]; now {
			return fmt.Errorf("pack %s is about to be removed by a prune: %w", id.Short(), ErrLeaseLost)
		}
		missing[id] = struct{}{}
		return nil
	})
	if err != nil {
		return err
	}
	for info, err := range s.st.List(ctx, store.Pack) {
		if err != nil {
			return fmt.Errorf("list packs: %w", err)
		}
		if id, err := format.ParseID(info.Name.ID); err == nil {
			delete(missing, id)
		}
	}
	for id := range missing {
		return fmt.Errorf("pack %s is gone: %w", id.Short(), ErrLeaseLost)
	}
	return nil
}
