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
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/writerlock"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// writerLease is the lease of this writer: a file on the target that is renewed regularly. Other machines compare its
// time with the clock of the target, and so does the writer: local clocks may miss that the process was stopped or the
// machine suspended for longer than the lease lasts.
type writerLease struct {
	st     store.Store
	keys   *seal.Keys
	now    func() time.Time
	folder string           // in which a file is locked, so that other runs of this machine notice its end; "": none
	lock   *writerlock.Lock // of that file
	stop   context.CancelFunc
	done   chan struct{}

	began time.Time // by the clock of the target

	mu      sync.Mutex
	sent    time.Time      // when the last renewal was begun, by the clocks of this machine
	leaving store.Name     // what leave removes
	record  lease.Lease    // Renewal is that of the last name that this writer had or found fenced
	name    store.Name     // of the last successful renewal
	older   []store.Name   // what else there may be: earlier renewals, and fences that this writer has found
	tidying sync.WaitGroup // the removal of earlier names; until it ends, the next two fields are its own
	left    []store.Name   // that it could not remove
	absent  bool           // another program had removed the last one
	unsure  bool           // an attempt to take the next name failed, and may have taken it
	last    time.Time      // when it was last renewed, by the clock of the target
	gaps    int            // how often the lease was found expired, fenced or absent
	dead    bool           // it was found expired or fenced: a prune may have treated this writer as dead
}

func newLease(st store.Store, to Target, opt Options) *writerLease {
	if opt.NoLock {
		to.Folder = ""
	}
	return &writerLease{
		st: st, keys: to.Keys, now: opt.Tuning.Now, folder: to.Folder,
		record: lease.Lease{Host: opt.Host, PID: uint32(os.Getpid()), Task: opt.Task},
	}
}

// start puts the lease.
func (l *writerLease) start(ctx context.Context) error {
	l.record.ID = lease.NewID()
	l.lock = writerlock.Take(l.folder, l.record.ID.String())
	l.record.Started = l.now().Unix()
	l.name = store.Name{Kind: store.Lease, ID: l.record.Name()} // also after an error: the file may exist
	var err error
	l.began, err = l.put(ctx, l.name)
	l.last = l.began
	return err
}

// hold begins to renew the lease that start has put.
func (l *writerLease) hold(ctx context.Context) {
	ctx, l.stop = context.WithCancel(ctx)
	l.done = make(chan struct{})
	go l.run(ctx)
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

// put writes the lease under a name that only this writer and its fence can have, and returns its time. A file of that
// name is of an attempt that failed or whose answer was lost, so it is replaced; then nothing can fence it.
func (l *writerLease) put(ctx context.Context, name store.Name) (time.Time, error) {
	l.record.Heartbeat = l.now().Unix()
	data := l.keys.SealObject(seal.LeaseObject, lease.Encode(&l.record))
	l.sent = time.Now()
	info, err := l.st.PutNew(ctx, name, data)
	if errors.Is(err, store.ErrExists) {
		err = l.st.Put(ctx, name, data)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("write lease: %w", err)
	}
	if info.Modified.IsZero() {
		if info, err = l.st.Stat(ctx, name); err != nil {
			return time.Time{}, fmt.Errorf("look at lease: %w", err)
		}
	}
	return info.Modified, nil
}

// renew writes the lease under its next name and removes the previous one. It detects whether the lease was fenced,
// absent or expired at any time since the last renewal.
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

// renewOnce takes the next name. A prune that treats this writer as dead fences that name, and only one of the two gets
// it. So no name is skipped: one that failed is tried again.
func (l *writerLease) renewOnce(ctx context.Context) error {
	l.settle()
	l.record.Renewal++
	name := store.Name{Kind: store.Lease, ID: l.record.Name()}
	at, err := l.put(ctx, name)
	if errors.Is(err, store.ErrNoSpace) && l.record.Task == PruneTask {
		at, err = l.replaceLocked(ctx, name, err)
	}
	switch {
	case errors.Is(err, store.ErrFenced):
		l.gaps++
		l.dead = true
		l.older = append(l.older, name)
		return err // the next attempt takes the next name
	case err != nil:
		l.record.Renewal--
		l.unsure = true
		return err
	}
	if at.Sub(l.last) > LeaseExpiry {
		l.gaps++
		l.dead = true
	}
	before := l.name
	l.name, l.last, l.unsure = name, at, false
	l.tidy(ctx, before)
	if store.EndsWithProcess(l.st) { // it takes no time there, and on a full disk its space is needed
		l.settle()
	}
	return nil
}

// replaceLocked puts the lease in the space of the previous one, which it deletes first. Only a prune does so: it
// relies on no pack, so in between no other writer can harm it. If the new lease cannot be put, it counts as lost.
func (l *writerLease) replaceLocked(ctx context.Context, name store.Name, short error) (time.Time, error) {
	if err := l.st.Delete(ctx, l.name); errors.Is(err, store.ErrNotExist) {
		l.gaps++
	} else if err != nil {
		return time.Time{}, short
	}
	l.name = store.Name{}
	at, err := l.put(ctx, name)
	if err != nil {
		l.gaps++
	}
	return at, err
}

// tidy removes the lease before, if there is one, and the older names while the writer continues. That decides nothing,
// so no other request needs to wait. Where the store reports that the lease before was gone, the writer looks again.
func (l *writerLease) tidy(ctx context.Context, before store.Name) {
	names := l.older
	if before != (store.Name{}) {
		names = append(names, before)
	}
	l.older = nil
	l.tidying.Go(func() {
		for _, name := range names {
			err := store.DeleteUnseen(ctx, l.st, name)
			switch {
			case errors.Is(err, store.ErrNotExist):
				l.absent = l.absent || name == before
			case err != nil:
				l.left = append(l.left, name)
			}
		}
	})
}

// settle waits for tidy.
func (l *writerLease) settle() {
	l.tidying.Wait()
	if l.absent {
		l.gaps++
	}
	l.older = append(l.older, l.left...)
	l.left, l.absent = nil, false
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

// quickRun is how long a renewal before a snapshot can be left out after the last one.
const quickRun = time.Minute

// quick reports whether the lease was renewed so recently, by the clocks of this machine, that it need not be renewed
// before a snapshot is published. Nothing relies on that: these clocks may have stood still, as this machine may stand
// still between a renewal and the snapshot. What was missed is noticed after the snapshot.
func (l *writerLease) quick() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	wall := time.Now().Round(0).Sub(l.sent.Round(0))
	return l.gaps == 0 && !l.unsure && time.Since(l.sent) < quickRun && wall >= 0 && wall < quickRun
}

// unfenced reports whether no prune has treated this writer as dead before the question: nothing has the next name,
// and the lease has not expired by the clock of the target. If it returns false, a renewal decides. It waits for tidy.
func (l *writerLease) unfenced(ctx context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.settle()
	if l.unsure {
		return false
	}
	next := l.record
	next.Renewal++
	at, err := store.Unfenced(ctx, l.st, store.Name{Kind: store.Lease, ID: next.Name()})
	if err != nil {
		return false
	}
	if at.Sub(l.last) > LeaseExpiry {
		l.gaps++ // also if that clock is set back before the renewal
		l.dead = true
		return false
	}
	return true
}

// leave stops renewing and begins to remove the lease. A prune that then lists the leases lists the snapshots
// afterwards.
func (l *writerLease) leave(ctx context.Context) {
	l.stop()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	l.leaving, l.name = l.name, store.Name{}
	l.tidy(ctx, l.leaving)
}

// treatedAsDead renews the lease and reports whether a prune may have treated this writer as dead.
func (l *writerLease) treatedAsDead(ctx context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewLocked(ctx) == nil && l.dead
}

// end stops renewing and removes the lease. Without a start it does nothing.
func (l *writerLease) end(ctx context.Context) error {
	if l.stop != nil {
		l.stop()
		<-l.done // before the name is read: a renewal changes it
	}
	if l.record.ID == (lease.ID{}) {
		return nil
	}
	var err error
	if l.name != (store.Name{}) { // else it was to be replaced, on a full disk
		// Also after a failed start: the file may be there although the target reported an error.
		err = store.Discard(ctx, l.st, l.name)
		if err != nil && !errors.Is(err, store.ErrGone) {
			err = store.Discard(ctx, l.st, l.name) // as a renewal with an odd answer is repeated
		}
	}
	if l.settle(); slices.Contains(l.older, l.leaving) {
		err = store.Discard(ctx, l.st, l.leaving)
	}
	if l.unsure {
		l.record.Renewal++
		l.older = append(l.older, store.Name{Kind: store.Lease, ID: l.record.Name()})
	}
	for _, name := range l.older {
		_ = store.Discard(ctx, l.st, name) // what stays expires
	}
	l.lock.Release(err == nil)
	return err
}

// verifyBeforePublish renews the lease, unless the last snapshot of a quick session follows, and verifies that
// everything the snapshot relies on exists. If the lease was lost, a prune may have removed packs that this session
// found in the index, so all packs are checked. It returns how many lapses of the lease that covers.
func (s *Session) verifyBeforePublish(ctx context.Context, last bool) (lapses int, err error) {
	if s.opt.DryRun {
		return 0, nil
	}
	if err := s.recheckStored(ctx); err != nil {
		return 0, err
	}
	if last && s.lease.quick() {
		return 0, nil
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

// verifyAfterPublish runs when the snapshot is stored. A prune fences the next name of a writer that it treats as
// dead before it lists the snapshots. So if nothing has that name, every prune that counts the writer as dead sees
// the snapshot. For the last snapshot the writer looks at the name, where the store can say that, and removes its
// lease meanwhile. Otherwise it renews its lease, which takes the name. If the name is fenced, the packs are checked
// again, and the snapshot is deleted when one is missing.
func (s *Session) verifyAfterPublish(ctx context.Context, name store.Name, lapses int, last bool) error {
	if s.opt.DryRun {
		return nil
	}
	renewing := ctx
	if last {
		renewing = store.Passing(ctx) // the session ends and removes it
	}
	var err error
	if last = last && store.Coherent(s.st); last {
		s.lease.leave(ctx)
	}
	if !last || !s.lease.unfenced(ctx) {
		err = s.lease.renew(renewing)
	}
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
	s.opt.Note("the lease of this run had expired; making sure that everything it relies on is still there")
	all, err := marks.All(ctx, s.st, s.to.Keys)
	if err != nil {
		return fmt.Errorf("read marks: %w", err)
	}
	marked := marks.UnusableBy(all)
	missing := make(map[format.ID]bool)
	err = s.to.Index.Packs(func(p index.PackInfo) error {
		id := p.ID
		if s.doomed[id] {
			return nil
		}
		if marked[id] {
			return fmt.Errorf("pack %s is about to be removed by a prune: %w", id.Short(), ErrLeaseLost)
		}
		missing[id] = true
		return nil
	})
	if err != nil {
		return err
	}
	for info, err := range object.Each(ctx, s.st, store.Pack) {
		if err != nil {
			return err
		}
		delete(missing, info.ID)
	}
	for id := range missing {
		return fmt.Errorf("pack %s is gone: %w", id.Short(), ErrLeaseLost)
	}
	return nil
}
