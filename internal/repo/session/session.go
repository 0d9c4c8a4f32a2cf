// Package session is one writer's scope in a repository. It takes blobs and makes packs, index segments and snapshots
// of them, and it owns the law of the order on the target: a pack is stored and proven before an index segment names
// it, and every segment before the snapshot that needs it. A writer that dies in between leaves a valid repository.
//
//	Claim ─► FrameWriter ─► packer (one per kind) ─► upload ─► segment ─► Save
//	who      gathers and    seals frames into        Put and   Put and    lease checked,
//	stores   compresses     the open pack            read back merge      all looked at
//	                                                                      again, snapshot put
//
// The package refuses to know what blobs mean, where repositories are and how they are opened: it is given a store, the
// keys and an index.
package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/tune"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// Index is what a session needs of the repository's blob index. All methods are safe for concurrent use.
type Index interface {
	Lookup(ids []format.ID, out []hashcache.Found) error
	Pack(n uint32) (hashcache.PackInfo, error)
	Merge(id format.ID, seg *index.Segment) error
}

// Target is what a session writes to.
type Target struct {
	Store store.Store
	Keys  *seal.Keys
	Index Index
	// Sync brings Index up to date. It is called once the lease stands, so that no pack the index names can be removed
	// from then on.
	Sync func(context.Context) error
	// Packs yields every pack the index names. It is asked only after the lease was lost.
	Packs func(yield func(format.ID) error) error
	// Trees is shown every pack of trees that is on the target and proven, so that this machine can keep a copy of what
	// the next run will need. data is not valid afterwards. It may be nil, and is called from several goroutines.
	Trees func(id format.ID, data []byte, frames []pack.Frame)
}

// Session is a running writer. Its methods are safe for concurrent use; its FrameWriters belong to one goroutine each.
type Session struct {
	ctx          context.Context // ends with the session: Claim and Add take none, as they are called once per batch
	cancel       context.CancelCauseFunc
	st           store.Store
	to           Target
	opt          Options
	seg          segment
	claims       *claims
	lease        *writerLease
	marks        []marks.Mark    // that prunes put before this session began, ascending
	damagedMarks []marks.Damaged // of a prune

	judgedMu  sync.Mutex
	condemned map[format.ID]struct{} // packs that a prune marked before this session began, and distrusted ones
	judged    map[uint32]bool        // by number of a pack in the index: whether it is condemned

	packers [2]*packer
	presses presses
	lanes   *lanes        // one per upload under way
	blocked tune.Standing // callers of FrameWriters
	asks    questions     // buffers of Claim
	failure atomic.Pointer[failure]
	totals  totals
	placed  placements
}

// failure is the first error of a session; all later work returns it.
type failure struct{ err error }

// Run opens a session, calls fn and ends the session. ctx of fn is cancelled when an upload fails. When fn returns nil,
// whatever it wrote and did not save is flushed, so that a later session can reuse it; when it returns an error, packs
// that are stored already are still put into the index as far as the target allows.
func Run(ctx context.Context, to Target, opt Options, fn func(context.Context, *Session) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := newSession(ctx, cancel, to, opt.withDefaults())
	defer func() {
		if endErr := s.end(err); err == nil {
			err = endErr
		}
	}()
	if err := s.begin(); err != nil {
		return err
	}
	if err := fn(ctx, s); err != nil {
		return s.cause(err)
	}
	return s.Flush(ctx)
}

func newSession(ctx context.Context, cancel context.CancelCauseFunc, to Target, opt Options) *Session {
	s := &Session{
		ctx: ctx, cancel: cancel, st: to.Store, to: to, opt: opt,
		claims: newClaims(),
		judged: make(map[uint32]bool),
		lanes:  newLanes(opt.Uploads),
	}
	if opt.DryRun {
		s.st = discard{to.Store}
		s.opt.Verify = VerifyOff
	}
	s.lease = newLease(s.st, to.Keys, s.opt)
	data, trees := bufferCounts(opt)
	s.packers[0] = newPacker(s, pack.Data, opt.Tuning.DataPack, data)
	s.packers[1] = newPacker(s, pack.Trees, opt.Tuning.TreePack, trees)
	s.presses.level.Store(int32(opt.Level))
	s.presses.frame = opt.Tuning.Frame
	return s
}

// Adjust changes, from now on, how many packs may be under way to the target and how hard frames are compressed: 0
// stores, 1 is fastest, 4 is best. What is under way goes on as it began. The memory of a session is that of the number
// of uploads it began with: more than that cannot be used.
func (s *Session) Adjust(uploads, level int) {
	s.lanes.set(min(uploads, s.opt.Uploads))
	s.presses.level.Store(int32(min(max(level, 0), pack.MaxLevel)))
}

// Uploads returns how many packs may be under way at most.
func (s *Session) Uploads() int { return s.opt.Uploads }

// Level returns how hard frames are compressed at the moment.
func (s *Session) Level() int { return int(s.presses.level.Load()) }

// Blocked returns for how long callers of FrameWriters have stood still, all together, because the target takes packs
// more slowly than they are made.
func (s *Session) Blocked() time.Duration { return s.blocked.Time() }

// begin announces the writer before it looks at anything: what it sees from then on stays.
func (s *Session) begin() error {
	if !s.opt.DryRun {
		if err := s.lease.start(s.ctx); err != nil {
			return fmt.Errorf("announce this writer: %w", err)
		}
	}
	if err := s.heed(s.ctx); err != nil {
		return err
	}
	if err := s.to.Sync(s.ctx); err != nil {
		return fmt.Errorf("bring the index up to date: %w", err)
	}
	return nil
}

// endTimeout bounds the farewell of a session whose context may be over already.
const endTimeout = 30 * time.Second

// end waits for the uploads, leaves what can be reused in the index, and takes the lease away.
func (s *Session) end(failed error) error {
	if failed != nil {
		_ = s.fail(failed)
	}
	_ = s.lanes.empty(context.Background()) // uploads obey s.ctx, so they end
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), endTimeout)
	defer cancel()
	var err error
	// What a prune that failed has written anew is still where it was. Were it named, it would count, and with it the packs
	// that hold the old copies could not go until there is room to write them anew as well. Without a name, the next prune
	// removes it.
	vain := failed != nil && s.opt.Task == PruneTask
	if batch := s.seg.take(); len(batch) > 0 && !vain {
		if err = s.writeSegment(ctx, batch); err != nil { // a failed session reports what failed first
			s.remember(batch)
		}
	}
	if s.opt.DryRun {
		return err
	}
	if leaseErr := s.lease.end(ctx); leaseErr != nil && !errors.Is(leaseErr, store.ErrNotExist) {
		s.opt.Observer.Note(fmt.Sprintf("the lease of this run stays until it expires: %v", leaseErr))
	}
	return err
}

// fail keeps the first error and stops everything else.
func (s *Session) fail(err error) error {
	if s.failure.CompareAndSwap(nil, &failure{err}) {
		s.cancel(err)
	}
	return s.failure.Load().err
}

// err returns why the session cannot go on, or nil.
func (s *Session) err() error {
	if f := s.failure.Load(); f != nil {
		return f.err
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return nil
}

// cause replaces the echo of a failure (a cancelled context) by the failure itself.
func (s *Session) cause(err error) error {
	if f := s.failure.Load(); f != nil && errors.Is(err, context.Canceled) {
		return f.err
	}
	return err
}

// Claim asks for each blob whether the caller has to store it: fresh[i] becomes true for exactly one claim of a blob
// that the repository does not hold. Whoever is told true must hand the blob to a FrameWriter before Save. fresh must
// be as long as ids.
func (s *Session) Claim(ids []format.ID, fresh []bool) error {
	if err := s.err(); err != nil {
		return err
	}
	if len(fresh) != len(ids) {
		return fmt.Errorf("claim %d blobs: room for %d answers", len(ids), len(fresh))
	}
	// First promise, then look: a blob is always in the claims or in the index, because its claim is dropped only
	// after the index has it. The other way round a blob that moves in between would be stored twice.
	q := s.asks.get()
	defer s.asks.put(q)
	for i, id := range ids {
		if fresh[i] = s.claims.add(id); fresh[i] {
			q.ask = append(q.ask, id)
			q.at = append(q.at, i)
		}
	}
	if len(q.ask) == 0 {
		return nil
	}
	q.found = slices.Grow(q.found, len(q.ask))[:len(q.ask)]
	clear(q.found)
	if err := s.to.Index.Lookup(q.ask, q.found); err != nil {
		return s.fail(fmt.Errorf("look up blobs: %w", err))
	}
	for j := range q.found {
		if !q.found[j].OK {
			continue
		}
		bad, err := s.unreliable(s.ctx, q.found[j].Loc.Pack)
		if err != nil {
			return s.fail(err)
		}
		if bad {
			s.claims.keep(q.ask[j])
			continue
		}
		s.claims.drop(q.ask[j])
		fresh[q.at[j]] = false
	}
	return nil
}

// unreliable reports whether pack n of the index must not be relied on by the snapshot to come: it is condemned, or it
// is not on the target as the index says. A pack is looked at once per session, and only if the session would rely on
// it; what was lost with it is then stored anew, which heals older snapshots too.
func (s *Session) unreliable(ctx context.Context, n uint32) (bool, error) {
	s.judgedMu.Lock()
	bad, seen := s.judged[n]
	s.judgedMu.Unlock()
	if seen {
		return bad, nil
	}
	info, err := s.to.Index.Pack(n)
	if errors.Is(err, hashcache.ErrNoPack) {
		return true, nil // the local cache is damaged: what it has no place for is stored again
	}
	if err != nil {
		return false, fmt.Errorf("look up pack: %w", err)
	}
	gone := false
	if !s.opt.DryRun {
		if gone, err = s.lacks(ctx, info); err != nil {
			return false, err
		}
	}
	s.judgedMu.Lock()
	_, condemned := s.condemned[info.ID]
	_, told := s.judged[n]
	s.judged[n] = condemned || gone
	s.judgedMu.Unlock()
	if gone && !condemned && !told {
		s.opt.Observer.Note(fmt.Sprintf("pack %s is missing or cut off: what this backup needs of it is stored again; "+
			"run 'tidemark check' to see what else it held", info.ID.Short()))
	}
	return condemned || gone, nil
}

// lacks reports whether the target does not hold a pack in its full size.
func (s *Session) lacks(ctx context.Context, info hashcache.PackInfo) (bool, error) {
	there, err := s.to.Store.Stat(ctx, object.Named(store.Pack, info.ID))
	if errors.Is(err, store.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at pack %s: %w", info.ID.Short(), err)
	}
	return there.Size != int64(info.Size), nil
}

// Flush stores everything that FrameWriters have flushed: open packs are completed and put, and the last index segment
// is written.
func (s *Session) Flush(ctx context.Context) error {
	for _, p := range s.packers {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if err := s.lanes.empty(ctx); err != nil {
		return s.cause(err)
	}
	if err := s.err(); err != nil {
		return err
	}
	if batch := s.seg.take(); len(batch) > 0 {
		if err := s.writeSegment(ctx, batch); err != nil {
			return s.fail(err)
		}
	}
	return nil
}

// Save publishes a snapshot. All FrameWriters must have been flushed. It stores what is still open, makes sure that
// everything the snapshot may refer to is in the repository, and puts the snapshot last.
func (s *Session) Save(ctx context.Context, sn *snapshot.Snapshot) (format.ID, error) {
	if err := s.Flush(ctx); err != nil {
		return format.ID{}, err
	}
	if n := s.claims.open.Load(); n != 0 {
		return format.ID{}, s.fail(fmt.Errorf("save snapshot: %d blobs: %w", n, ErrNotStored))
	}
	lapses, err := s.stillOurs(ctx)
	if err != nil {
		return format.ID{}, s.fail(fmt.Errorf("save snapshot: %w", err))
	}
	start := s.opt.Tuning.Now()
	sn.Heeds = s.heeded()
	data, id, err := object.Seal(s.to.Keys, store.Snapshot, snapshot.Encode(sn))
	if err != nil {
		return format.ID{}, s.fail(fmt.Errorf("seal snapshot: %w", err))
	}
	name := object.Named(store.Snapshot, id)
	if err = object.Put(ctx, s.st, name, data, s.opt.Verify != VerifyOff); err == nil {
		err = s.inTime(ctx, name, lapses)
	} else if !s.lease.fresh() { // it may be there all the same
		_ = s.inTime(context.WithoutCancel(ctx), name, lapses)
	}
	if err != nil {
		return format.ID{}, s.fail(fmt.Errorf("save snapshot: %w", err))
	}
	s.stored(store.Snapshot, len(data), start)
	return id, nil
}

// stored books a file that is durable and proven.
func (s *Session) stored(kind store.Kind, size int, start time.Time) {
	s.totals.files(kind, size)
	s.opt.Observer.Stored(kind, size, s.opt.Tuning.Now().Sub(start))
}
