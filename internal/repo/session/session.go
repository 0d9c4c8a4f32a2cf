// Package session is one writer's scope in a repository. It takes blobs and makes packs, index segments and snapshots
// of them, and it defines the order on the target: a pack is stored and verified before an index segment names
// it, and every segment before the snapshot that needs it. A writer that dies in between leaves a valid repository.
//
//	Claim ─► FrameWriter ─► packer (one per kind) ─► upload ─► segment ─► Save
//	what     gathers and    seals frames into        Put and   Put and    lease checked,
//	to store compresses     the open pack            read back merge      all files
//	                                                                      rechecked, snapshot put
package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/snapcache"
	"github.com/tidemark-backup/tidemark/internal/repo/treecache"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/tune"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Index is what a session needs of the repository's blob index. All methods are safe for concurrent use.
type Index interface {
	Lookup(ids []format.ID, out []blobindex.Found) error
	Merge(id format.ID, seg *index.Segment) error
	// Sync updates the index. It is called after the lease is stored, so that no pack that the index names can be
	// removed from then on. marked are the files that marks name: also index segments, if they are damaged. With adopt
	// it looks for packs of a killed session.
	Sync(ctx context.Context, marked map[format.ID]bool, adopt bool) error
	// Packs yields every pack the index names.
	Packs(yield func(blobindex.PackInfo) error) error
	// SetUnfinished is called before the first pack is stored, and with false when a session has ended well. If the
	// process is killed in between, the next session on this machine looks for packs that no index segment names.
	SetUnfinished(on bool)
	// PutBack writes index segments for packs that no segment names.
	PutBack(ctx context.Context) error
}

// Target is what a session writes to.
type Target struct {
	Store  store.Store
	Keys   *seal.Keys
	Index  Index
	Trees  *treecache.Cache // receives the packs of trees that are on the target and verified; nil: none is kept
	Folder string           // of the caches of the repository; "": there is none
	Copies snapcache.Cache  // of the snapshots
}

// Session is a running writer. Its methods are safe for concurrent use, and so are its FrameWriters.
type Session struct {
	ctx      context.Context // ends with the session: Claim and Add take none, as they are called once per batch
	cancel   context.CancelCauseFunc
	st       store.Store
	to       Target
	opt      Options
	seg      segment
	claims   *claims
	lease    *writerLease
	early    *object.Early      // listings that begin when the lease is stored; nil: none
	marks    []marks.Mark       // that prunes put before this session began, ascending
	toRemove map[format.ID]bool // packs that prunes are about to remove; not changed

	checkedMu sync.Mutex
	doomed    map[format.ID]bool  // packs that marks name, and excluded ones
	checked   map[format.ID]bool  // packs of the index: whether they are doomed
	listed    map[format.ID]int64 // size of each pack of the listing of LostPacks; nil: there is none
	excluded  []format.ID         // packs that were found missing or unreadable since the session began
	unmarked  bool                // of a dry run: there are doomed packs that no mark names

	packers        [2]*packer
	writers        [2]FrameWriter
	compressors    compressors
	uploads        *uploadSlots          // one per upload under way
	blocked        tune.WaitTime         // callers of FrameWriters
	asks           sync.Pool             // of *question
	failure        atomic.Pointer[error] // the first one; all later work returns it
	totalsMu       sync.Mutex
	totals         Totals
	named          atomic.Int64 // packs of the index; -1: unknown
	filesMu        sync.Mutex
	files          []storedFile
	unfinishedOnce sync.Once // before the first pack is stored
	unfinished     bool      // a pack is about to be stored, or was

	committing sync.Mutex // held while a segment is written that is no upload's
}

// Run opens a session, calls fn and ends the session. A failed upload cancels ctx of fn. When fn returns nil, blobs
// that it wrote without a snapshot are flushed, so that a later session can reuse them. When it returns an error, packs
// that are stored already are still put into the index as far as the target allows.
func Run(ctx context.Context, to Target, opt Options, fn func(context.Context, *Session) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := newSession(ctx, cancel, to, opt.withDefaults())
	defer func() {
		if endErr := s.end(err); err == nil {
			err = endErr
		}
		if err == nil && s.unfinished {
			to.Index.SetUnfinished(false)
		}
	}()
	if err := s.begin(); err != nil {
		return err
	}
	defer s.commitRegularly()()
	if err := fn(ctx, s); err != nil {
		return s.cause(err)
	}
	return s.Flush(ctx)
}

func newSession(ctx context.Context, cancel context.CancelCauseFunc, to Target, opt Options) *Session {
	s := &Session{
		ctx: ctx, cancel: cancel, st: to.Store, to: to, opt: opt,
		claims:  newClaims(),
		checked: make(map[format.ID]bool),
		uploads: newUploadSlots(opt.Uploads),
	}
	if opt.DryRun {
		s.st = discard{to.Store}
	}
	s.lease = newLease(s.st, to, s.opt)
	data, trees := bufferCounts(opt)
	s.packers[0] = newPacker(s, pack.Data, opt.Tuning.DataPack, data)
	s.packers[1] = newPacker(s, pack.Trees, opt.Tuning.TreePack, trees)
	for i, p := range s.packers {
		s.writers[i].s, s.writers[i].to = s, p
	}
	s.named.Store(-1)
	s.compressors.level.Store(int32(opt.Level))
	s.compressors.frame = opt.Tuning.Frame
	return s
}

// Adjust changes the number of concurrent uploads and the compression level: 0 stores, 1 is fastest, 4 is best. Running
// uploads continue unchanged. The memory of a session is that of the initial number of uploads, which is the maximum.
func (s *Session) Adjust(uploads, level int) {
	s.uploads.set(min(uploads, s.opt.Uploads))
	s.compressors.level.Store(int32(min(max(level, 0), pack.MaxLevel)))
}

// MaxUploads returns the maximum number of concurrent uploads.
func (s *Session) MaxUploads() int { return s.opt.Uploads }

// Level returns the current compression level.
func (s *Session) Level() int { return int(s.compressors.level.Load()) }

// Blocked returns the total time that callers of FrameWriters were blocked because the target takes packs more slowly
// than they are made.
func (s *Session) Blocked() time.Duration { return s.blocked.Time() }

// begin stores the lease before it reads anything: files that it finds afterwards are not removed.
func (s *Session) begin() error {
	if !s.opt.DryRun {
		if err := s.lease.start(s.ctx); err != nil {
			return fmt.Errorf("announce this writer: %w", err)
		}
		s.lease.hold(s.ctx)
		s.listEarly()
	}
	damaged, err := s.readMarks(s.early.In(s.ctx, store.Mark))
	if err != nil {
		return err
	}
	if err := s.acknowledge(s.ctx, damaged); err != nil {
		return err
	}
	s.listPacks()
	adopt := !s.opt.DryRun && s.opt.Task != PruneTask
	if err := s.to.Index.Sync(s.early.In(s.ctx, store.Index), maps.Clone(s.doomed), adopt); err != nil {
		return fmt.Errorf("bring the index up to date: %w", err)
	}
	return nil
}

// listEarly lists what a session needs at once, in one turn. A prune looks at the leases once more before it removes
// a mark, so that index and snapshots need not be listed after the marks: what the prune has removed by then was
// gone when this writer put its lease, or its mark is still there. That look must see the lease, so listings must be
// coherent. A prune itself lists everything in the order of its proof.
func (s *Session) listEarly() {
	if s.opt.Task == PruneTask || !store.Coherent(s.st) {
		return
	}
	kinds := []store.Kind{store.Index, store.Mark, store.Snapshot}
	if s.opt.Packs {
		kinds = slices.Insert(kinds, 2, store.Pack)
	}
	s.early = object.ListEarly(s.ctx, s.st, kinds...)
}

// listPacks begins to list the packs when the marks are read, beside the index. A pack that becomes part of the index
// meanwhile may be missing in that listing, and is looked at.
func (s *Session) listPacks() {
	if s.early == nil && s.opt.Packs && !s.opt.DryRun && s.opt.Task != PruneTask {
		s.early = object.ListEarly(s.ctx, s.st, store.Pack)
	}
}

// Early returns a context in which the snapshots are those that were listed after the lease of this session, at their
// first listing.
func (s *Session) Early(ctx context.Context) context.Context { return s.early.In(ctx, store.Snapshot) }

// endTimeout limits the last operations of a session whose context may have ended.
const endTimeout = 30 * time.Second

// end waits for the uploads, puts reusable packs into the index, and removes the lease.
func (s *Session) end(failed error) error {
	if failed != nil {
		_ = s.fail(failed)
	}
	_ = s.uploads.empty(context.Background()) // uploads obey s.ctx, so they end
	s.early.Stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), endTimeout)
	defer cancel()
	var err error
	// The blobs that a failed prune has repacked are still in their old packs. If a segment named the new packs, the
	// old ones could not be deleted before they are repacked as well. Without a segment, the next prune removes the new
	// packs.
	unused := failed != nil && s.opt.Task == PruneTask
	if batch := s.seg.take(time.Time{}); len(batch) > 0 && !unused {
		err = s.writeSegment(ctx, batch)
		if errors.Is(err, localfs.ErrStopped) {
			err = nil // the next run merges the segment
		} else if err != nil { // a failed session reports the first failure
			s.remember(batch)
		}
	}
	if s.opt.DryRun {
		return err
	}
	if leaseErr := s.lease.end(ctx); leaseErr != nil {
		s.opt.Note(fmt.Sprintf("the lease of this run stays until it expires: %v", leaseErr))
	}
	return err
}

// fail keeps the first error and stops everything else.
func (s *Session) fail(err error) error {
	if s.failure.CompareAndSwap(nil, &err) {
		s.cancel(err)
	}
	return *s.failure.Load()
}

// err returns why the session cannot continue, or nil.
func (s *Session) err() error {
	if f := s.failure.Load(); f != nil {
		return *f
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return nil
}

// cause replaces the error of a context that a failure has cancelled by the failure itself.
func (s *Session) cause(err error) error {
	if f := s.failure.Load(); f != nil && errors.Is(err, context.Canceled) {
		return *f
	}
	return err
}

// Claim determines for each blob whether the caller has to store it: fresh[i] becomes true for exactly one claim of a
// blob that the repository lacks. The caller must then pass the blob to a FrameWriter before Save. fresh must be as
// long as ids.
func (s *Session) Claim(ids []format.ID, fresh []bool) error {
	if err := s.err(); err != nil {
		return err
	}
	if len(fresh) != len(ids) {
		return fmt.Errorf("claim %d blobs: space for %d answers", len(ids), len(fresh))
	}
	// First claim, then look up: a blob is always in the claims or in the index, because its claim is dropped only
	// after the index has it. In the other order, a blob that moves in between would be stored twice.
	q, ok := s.asks.Get().(*question)
	if !ok {
		q = &question{}
	}
	defer s.asks.Put(q)
	q.ask, q.at, q.found = q.ask[:0], q.at[:0], q.found[:0]
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
		if q.found[j].Pack == nil {
			continue
		}
		bad, err := s.unusable(s.ctx, q.found[j].Pack)
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

// unusable reports whether the snapshot must not rely on a pack of the index: it is doomed, or the target does not hold
// it in the size that the index names, by the listing of LostPacks or by a look. A pack is checked once per session,
// and only if the session would rely on it. Its lost blobs are then stored again, which also repairs older snapshots.
func (s *Session) unusable(ctx context.Context, info *blobindex.PackInfo) (gone bool, err error) {
	s.checkedMu.Lock()
	bad, seen := s.checked[info.ID]
	size, listed := s.listed[info.ID]
	s.checkedMu.Unlock()
	if seen {
		return bad, nil
	}
	if whole := listed && size == int64(info.Size); !whole && !s.opt.DryRun {
		if gone, err = s.lacks(ctx, *info); err != nil {
			return false, err
		}
	}
	s.checkedMu.Lock()
	doomed := s.doomed[info.ID]
	_, reported := s.checked[info.ID]
	s.checked[info.ID] = doomed || gone
	s.checkedMu.Unlock()
	if gone && !doomed && !reported {
		s.StopUsing(info.ID)
		s.opt.Note(fmt.Sprintf("pack %s is missing or cut off: what this run needs of it is stored again; "+
			"run 'tidemark check' to see what else it held", info.ID.Short()))
	}
	return doomed || gone, nil
}

// lacks reports whether the target does not hold a pack in its full size.
func (s *Session) lacks(ctx context.Context, info blobindex.PackInfo) (bool, error) {
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
	if err := s.uploads.empty(ctx); err != nil {
		return s.cause(err)
	}
	if err := s.err(); err != nil {
		return err
	}
	if err := s.commit(ctx, time.Time{}); err != nil {
		return s.fail(err)
	}
	return nil
}

// Save publishes a snapshot. All FrameWriters must have been flushed. It stores what is still open, verifies that
// everything the snapshot may refer to is in the repository, and puts the snapshot last.
func (s *Session) Save(ctx context.Context, sn *snapshot.Snapshot) (format.ID, error) {
	return s.save(ctx, sn, false)
}

// SaveLast is Save for a session that stores nothing afterwards: its lease is removed meanwhile.
func (s *Session) SaveLast(ctx context.Context, sn *snapshot.Snapshot) (format.ID, error) {
	return s.save(ctx, sn, true)
}

func (s *Session) save(ctx context.Context, sn *snapshot.Snapshot, last bool) (format.ID, error) {
	if err := s.Flush(ctx); err != nil {
		return format.ID{}, err
	}
	if n := s.claims.open.Load(); n != 0 {
		return format.ID{}, s.fail(fmt.Errorf("save snapshot: %d blobs: %w", n, ErrNotStored))
	}
	lapses, err := s.verifyBeforePublish(ctx, last)
	if err != nil {
		return format.ID{}, s.fail(fmt.Errorf("save snapshot: %w", err))
	}
	start := s.opt.Tuning.Now()
	sn.Acknowledged = s.acknowledged()
	if !s.opt.DryRun {
		at := s.lease.renewed()
		sn.Renewed = tree.TimeOf(at)
	}
	data, id := object.Seal(s.to.Keys, store.Snapshot, snapshot.Encode(sn))
	name := object.Named(store.Snapshot, id)
	if err = object.Put(ctx, s.st, name, data, !s.opt.DryRun); err == nil {
		err = s.verifyAfterPublish(ctx, name, lapses, last)
	} else { // it may exist all the same
		anyway, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		_ = s.verifyAfterPublish(anyway, name, lapses, false)
		cancel()
	}
	if err != nil {
		return format.ID{}, s.fail(fmt.Errorf("save snapshot: %w", err))
	}
	s.stored(store.Snapshot, id, len(data), start)
	if s.opt.DryRun {
		return id, nil
	}
	if s.to.Folder != "" {
		_ = snapcache.AddPublished(s.to.Folder, id, time.Now()) // without it a lost snapshot is not noticed
	}
	s.to.Copies.Put(id, data)
	return id, nil
}

// stored records a file that is durable and verified.
func (s *Session) stored(kind store.Kind, id format.ID, size int, start time.Time) {
	if kind != store.Snapshot {
		s.filesMu.Lock()
		s.files = append(s.files, storedFile{kind, id, int64(size)})
		s.filesMu.Unlock()
	}
	s.countFile(kind, size)
	l := s.opt.Ledger
	l.AddTime(report.Store, s.opt.Tuning.Now().Sub(start))
	l.Bytes.Stored.Add(uint64(size))
	l.Bytes.Transferred.Add(uint64(size))
	if kind == store.Pack {
		l.Packs.Stored.Add(1)
	}
}
