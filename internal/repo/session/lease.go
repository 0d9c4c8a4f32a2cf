package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// writerLease is the presence of this writer on the target: a file that is rewritten again and again. Others judge it
// by the target's clock, and so does its owner: the program may have been stopped, or the machine asleep, for longer
// than the lease lasts without any clock of its own telling.
type writerLease struct {
	st     store.Store
	keys   *seal.Keys
	expiry time.Duration
	every  time.Duration
	now    func() time.Time
	tell   func(lease string) error // may be nil
	name   store.Name
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	record lease.Lease
	last   time.Time // when it was last renewed, by the clock of the target
	begun  time.Time // when that was begun, by the clock of this machine
	gaps   int       // how often it was found to have been expired, or absent, for a while
}

func newLease(st store.Store, keys *seal.Keys, opt Options) *writerLease {
	return &writerLease{
		st: st, keys: keys, expiry: opt.Tuning.Expiry, every: opt.Tuning.Heartbeat, now: opt.Tuning.Now,
		tell:   opt.Announce,
		record: lease.Lease{Host: opt.Host, PID: uint32(os.Getpid()), Task: opt.Task},
	}
}

// start puts the lease and begins to renew it.
func (l *writerLease) start(ctx context.Context) error {
	if _, err := rand.Read(l.record.ID[:]); err != nil {
		return fmt.Errorf("choose name of lease: %w", err)
	}
	l.name = store.Name{Kind: store.Lease, ID: hex.EncodeToString(l.record.ID[:])}
	if l.tell != nil {
		if err := l.tell(l.name.ID); err != nil {
			return err
		}
	}
	l.begun = l.now()
	l.record.Started = l.begun.Unix()
	if err := l.put(ctx); err != nil {
		return err
	}
	info, err := l.st.Stat(ctx, l.name)
	if err != nil {
		return fmt.Errorf("look at lease: %w", err)
	}
	l.last = info.Modified
	ctx, l.stop = context.WithCancel(ctx)
	l.done = make(chan struct{})
	go l.run(ctx)
	return nil
}

func (l *writerLease) run(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			// A failure here is no failure yet: the next renewal may succeed in time. Whether one did is asked
			// before a snapshot is published.
			_ = l.renew(ctx)
		}
	}
}

func (l *writerLease) put(ctx context.Context) error {
	l.record.Heartbeat = l.now().Unix()
	data, err := l.keys.SealObject(seal.LeaseObject, lease.Encode(&l.record))
	if err != nil {
		return err
	}
	if err := l.st.Put(ctx, l.name, data); err != nil {
		return fmt.Errorf("write lease: %w", err)
	}
	return nil
}

// renew rewrites the lease and finds out whether it has been valid all the time since it was last renewed.
func (l *writerLease) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewLocked(ctx)
}

func (l *writerLease) renewLocked(ctx context.Context) error {
	begun := l.now()
	if _, err := l.st.Stat(ctx, l.name); errors.Is(err, store.ErrNotExist) {
		l.gaps++ // somebody took this writer for dead
	} else if err != nil {
		return fmt.Errorf("look at lease: %w", err)
	}
	if err := l.put(ctx); err != nil {
		return err
	}
	info, err := l.st.Stat(ctx, l.name)
	if err != nil {
		return fmt.Errorf("look at lease: %w", err)
	}
	if info.Modified.Sub(l.last) > l.expiry {
		l.gaps++
	}
	l.last, l.begun = info.Modified, begun
	return nil
}

// heed renews the lease with the names of the marks that its writer obeys.
func (l *writerLease) heed(ctx context.Context, marks []format.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Heeds = marks
	return l.renewLocked(ctx)
}

// heard returns the time of the target when the lease was last renewed.
func (l *writerLease) heard() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// fresh reports whether the lease was renewed so short a time ago that it cannot have expired since, whatever happened:
// half of its time is left. The clock on the wall goes on while the machine sleeps; the other one is not asked.
func (l *writerLease) fresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	age := l.now().Round(0).Sub(l.begun.Round(0))
	return age >= 0 && age <= l.expiry/2
}

// wasLost reports whether there was a time since start at which others could take this writer for dead.
func (l *writerLease) wasLost() bool { return l.lapses() > 0 }

// lapses returns at how many renewals that was found.
func (l *writerLease) lapses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gaps
}

// end stops renewing and removes the lease. Without a start it does nothing.
func (l *writerLease) end(ctx context.Context) error {
	if l.name == (store.Name{}) {
		return nil
	}
	if l.stop != nil {
		l.stop()
		<-l.done
	}
	// Also after a failed start: the file may be there although the target reported an error.
	return l.st.Delete(ctx, l.name)
}

// stillOurs renews the lease before a snapshot is published, and makes sure that what it relies on is there. If the lease was
// lost in between, packs may have been removed that this session has not stored, so they are looked for too. It returns how
// many lapses of the lease are made up for by that.
func (s *Session) stillOurs(ctx context.Context) (lapses int, err error) {
	if s.opt.DryRun {
		return 0, nil
	}
	if err := s.lease.renew(ctx); err != nil {
		return 0, fmt.Errorf("renew lease: %w", err)
	}
	if lapses = s.lease.lapses(); lapses > 0 {
		if err := s.recheck(ctx); err != nil {
			return 0, err
		}
	}
	return lapses, s.lookAgain(ctx)
}

// inTime is asked when a snapshot was just published. If the lease may have lapsed since so many lapses were made up for,
// it is renewed, which tells; if it has, what the snapshot relies on is looked for again, and the snapshot is taken back if
// something is gone. The clock of the target is asked too, as that of a virtual machine stands still with it; and so are
// the lapses, as the renewal in the background may have come first when this machine has slept.
func (s *Session) inTime(ctx context.Context, name store.Name, lapses int) error {
	if s.opt.DryRun {
		return nil
	}
	there, err := s.st.Stat(ctx, name)
	late := err == nil && there.Modified.Sub(s.lease.heard()) > s.opt.Tuning.Expiry/2
	if !late && s.lease.fresh() && s.lease.lapses() == lapses {
		return nil
	}
	if err = s.lease.renew(ctx); err == nil && s.lease.lapses() > lapses {
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

// recheck demands that every pack the index names is on the target and that none was condemned since the session
// began. That is more than the snapshot needs, but which packs hold the subtrees it takes over from its parent is not
// known here; a run that fails for this reason is quickly repeated, since what it stored stays in the index.
func (s *Session) recheck(ctx context.Context) error {
	s.opt.Observer.Note("the lease of this run had expired; making sure that everything it relies on is still there")
	marked, err := marks.Condemned(ctx, s.st, s.to.Keys)
	if err != nil {
		return fmt.Errorf("read marks: %w", err)
	}
	missing := make(map[format.ID]struct{})
	err = s.to.Packs(func(id format.ID) error {
		if _, before := s.condemned[id]; before {
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
