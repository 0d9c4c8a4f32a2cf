package finding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Place is the frame in which a blob lies.
type Place struct {
	Pack           format.ID
	Offset, Sealed uint32
}

// Book collects problems from all workers. It is safe for concurrent use.
type Book struct {
	l     *report.Ledger
	seed  maphash.Seed
	whole atomic.Uint64 // booked on l; for every folder of a snapshot, so without mu, which is for what is rare

	mu      sync.Mutex
	objects uint64 // expected
	bytes   uint64
	damaged uint64 // booked on l
	res     Result // without Problems
	list    []*Problem
	known   map[problemKey]*Problem
	packs   map[format.ID]*lostPack
	frames  map[frameKey]*Problem  // frames that cannot be opened
	blobs   map[format.ID]*Problem // blobs that are nowhere, or are not what they should be
}

type problemKey struct {
	kind Kind
	id   format.ID
}

// lostPack is a pack that is missing or too short: frames that end beyond intact are lost.
type lostPack struct {
	problem *Problem
	intact  uint64
}

type frameKey struct {
	pack   format.ID
	offset uint32
}

// NewBook returns an empty Book that counts on l.
func NewBook(l *report.Ledger) *Book {
	return &Book{
		l: l, seed: maphash.MakeSeed(), known: make(map[problemKey]*Problem),
		packs: make(map[format.ID]*lostPack), frames: make(map[frameKey]*Problem),
		blobs: make(map[format.ID]*Problem),
	}
}

// Note records what a person should know that is no damage.
func (b *Book) Note(text string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.res.Notes = append(b.res.Notes, fmt.Sprintf(text, args...))
}

// Add records a problem with the object of that ID and returns it, or nil if there are too many already. Of one object
// the first error is kept.
func (b *Book) Add(kind Kind, id format.ID, object string, err error) *Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addLocked(kind, id, object, err)
}

func (b *Book) addLocked(kind Kind, id format.ID, object string, err error) *Problem {
	key := problemKey{kind, id}
	if p, ok := b.known[key]; ok {
		return p
	}
	b.l.Objects.Damaged.Add(1)
	b.damaged++
	if len(b.list) >= MaxProblems {
		b.res.More++
		return nil
	}
	p := &Problem{Kind: kind, Object: object, Err: err, id: id}
	b.known[key] = p
	b.list = append(b.list, p)
	return p
}

// LosePack records a pack of which only the first intact bytes are there.
func (b *Book) LosePack(id format.ID, intact uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.addLocked(Pack, id, "pack "+id.String(), err); p != nil {
		b.packs[id] = &lostPack{p, intact}
	}
}

// MissPack records a pack that the index names and that is not there. It is a problem once something is found to need it:
// what was in it may have been stored again, in another pack.
func (b *Book) MissPack(id format.ID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.packs[id]; !ok {
		b.packs[id] = &lostPack{problem: &Problem{Kind: Pack, Object: "pack " + id.String(), Err: err, id: id, silent: true}}
	}
}

// Unneeded decides about the packs that are not there and that nothing was found to need, after everything was looked
// at that could. If that was every snapshot there is, they are no damage.
func (b *Book) Unneeded(all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := 0
	for _, lost := range b.packs {
		switch {
		case !lost.problem.silent:
		case all:
			count++
		default:
			b.tell(lost.problem)
		}
	}
	if count > 0 {
		b.res.Notes = append(b.res.Notes, fmt.Sprintf("packs that the index names, that are gone and that no snapshot needs; "+
			"what was in them was stored again, or no snapshot of it was saved: %d", count))
	}
}

// tell makes a problem known that was recorded silently.
func (b *Book) tell(p *Problem) {
	p.silent = false
	b.l.Objects.Damaged.Add(1)
	b.damaged++
	if len(b.list) >= MaxProblems {
		b.res.More++
		return
	}
	b.known[problemKey{p.Kind, p.id}] = p
	b.list = append(b.list, p)
}

// LoseFrame records a frame that cannot be opened.
func (b *Book) LoseFrame(pack format.ID, offset uint32, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.frames[frameKey{pack, offset}]; ok {
		return // a page of it was looked for before
	}
	if p := b.inPack(pack, err); p != nil {
		b.frames[frameKey{pack, offset}] = p
	}
}

// inPack records one of perhaps several damages to a pack.
func (b *Book) inPack(pack format.ID, err error) *Problem {
	if p, ok := b.known[problemKey{Pack, pack}]; ok {
		p.extra++
		return p
	}
	return b.addLocked(Pack, pack, "pack "+pack.String(), err)
}

// LoseBlob records a blob that is in no pack or does not mean what it should. Beyond MaxProblems it is only counted.
func (b *Book) LoseBlob(kind Kind, id format.ID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.blobs[id]; ok {
		return
	}
	what := "blob "
	if kind == Tree {
		what = "tree page "
	}
	if p := b.addLocked(kind, id, what+id.String(), err); p != nil {
		b.blobs[id] = p
	}
}

// LoseBlobOf records a blob in the place of which its pack holds other bytes.
func (b *Book) LoseBlobOf(pack, id format.ID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.blobs[id]; ok {
		return
	}
	if p := b.inPack(pack, err); p != nil {
		b.blobs[id] = p
	}
}

// Has reports whether there is a problem of that kind.
func (b *Book) Has(kind Kind) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.list, func(p *Problem) bool { return p.Kind == kind })
}

// AnyLost reports whether something is lost that snapshots may need.
func (b *Book) AnyLost() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.packs)+len(b.frames)+len(b.blobs) > 0
}

// Why returns the problem by which the blob is lost, or nil. at is where it lies, if it is found at all.
func (b *Book) Why(id format.ID, at *Place) *Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.blobs[id]; ok {
		return p
	}
	if at == nil {
		return nil
	}
	if p, ok := b.packs[at.Pack]; ok && uint64(at.Offset)+uint64(at.Sealed) > p.intact {
		return p.problem
	}
	return b.frames[frameKey{at.Pack, at.Offset}]
}

// Need books that a path of a snapshot needs what the problem is about.
func (b *Book) Need(p *Problem, snapshot, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.silent {
		b.tell(p)
	}
	if !slices.Contains(p.Snapshots, snapshot) {
		p.Snapshots = append(p.Snapshots, snapshot)
	}
	h := maphash.String(b.seed, path)
	if _, ok := p.seen[h]; ok || len(p.seen) >= maxHashes {
		return
	}
	if p.seen == nil {
		p.seen = make(map[uint64]struct{})
	}
	p.seen[h] = struct{}{}
	if len(p.Paths) < MaxPaths {
		p.Paths = append(p.Paths, path)
	} else {
		p.More++
	}
}

// Result returns what was found so far, sorted, with advice.
func (b *Book) Result() *Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	order := []Kind{Config, Key, Snapshot, Index, Pack, Tree, Blob, Mark, Lease}
	slices.SortFunc(b.list, func(p, q *Problem) int {
		return cmp.Or(cmp.Compare(slices.Index(order, p.Kind), slices.Index(order, q.Kind)),
			cmp.Compare(p.Object, q.Object))
	})
	res := b.res
	res.Notes = slices.Clone(b.res.Notes)
	res.Problems = make([]Problem, len(b.list))
	for i, p := range b.list {
		res.Problems[i] = p.finished()
	}
	return &res
}

// Read books bytes that were read back and found whole.
func (b *Book) Read(n uint64) {
	b.l.Bytes.Verified.Add(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.res.BytesRead += n
}

// Count lets set write down what was looked at.
func (b *Book) Count(set func(*Result)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set(&b.res)
}

// Expect raises what the ledger expects of the whole check.
func (b *Book) Expect(objects, bytes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects += objects
	b.bytes += bytes
	b.l.ExpectExactly(b.objects, b.bytes)
}

// Whole books one object that is as it should be.
func (b *Book) Whole() {
	b.l.Objects.Verified.Add(1)
	b.whole.Add(1)
}

// Withdraw takes what was booked on the ledger back: all of it is looked at again, for another Book. No data was read yet,
// and nobody books on this one any more.
func (b *Book) Withdraw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.l.Objects.Verified.Add(-b.whole.Load())
	b.l.Objects.Damaged.Add(-b.damaged)
}

// Any reports whether anything is wrong so far, or not where it was looked for.
func (b *Book) Any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list)+len(b.packs)+len(b.frames)+len(b.blobs) > 0
}

// Judge books one stored file: whole if err is nil, otherwise a problem, unless the error ends the check and is
// returned.
func (b *Book) Judge(ctx context.Context, kind Kind, id format.ID, object string, err error) error {
	switch {
	case err == nil:
		b.Whole()
	case Fatal(ctx, err):
		return err
	default:
		b.Add(kind, id, object, err)
	}
	return nil
}

// Fatal tells an error that makes going on pointless from one that concerns one file.
func Fatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, store.ErrGone)
}
