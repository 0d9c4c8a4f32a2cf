package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/repo/treecache"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// findings collects problems from all workers, within bounds of memory, and records the progress of the check in the
// ledger. It is safe for concurrent use.
type findings struct {
	l     *report.Ledger
	seed  maphash.Seed
	whole atomic.Uint64 // counted in l; once for every directory, so without mu

	mu      sync.Mutex
	objects uint64 // expected
	bytes   uint64
	damaged uint64 // counted in l
	res     Result // without Problems
	list    []*Problem
	known   map[problemKey]*Problem
	marked  map[format.ID]bool // packs that are known to be damaged
	quiet   []*Problem         // of these, and of missing packs
	relied  map[format.ID]bool // marked packs in which a needed blob counts
	intact  []format.ID        // marked packs that were read back intact
	packs   map[format.ID]*Problem
	frames  map[treecache.Key]*Problem // frames that cannot be opened
	blobs   map[format.ID]*Problem     // blobs that are in no pack, or have wrong content
}

type problemKey struct {
	kind Kind
	id   format.ID
}

// newFindings returns empty findings that count on l.
func newFindings(l *report.Ledger) *findings {
	return &findings{
		l: l, seed: maphash.MakeSeed(), known: make(map[problemKey]*Problem),
		packs: make(map[format.ID]*Problem), frames: make(map[treecache.Key]*Problem),
		blobs: make(map[format.ID]*Problem), relied: make(map[format.ID]bool),
	}
}

// Note records a fact for the user that is no damage.
func (b *findings) Note(text string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.res.Notes = append(b.res.Notes, fmt.Sprintf(text, args...))
}

// Add records a problem with the object of that ID and returns it, or nil if there are too many already. For one object
// the first error is kept.
func (b *findings) Add(kind Kind, id format.ID, object string, err error) *Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addLocked(kind, id, object, err)
}

func (b *findings) addLocked(kind Kind, id format.ID, object string, err error) *Problem {
	key := problemKey{kind, id}
	if p, ok := b.known[key]; ok {
		return p
	}
	if b.marked[id] && kind == Pack {
		p := &Problem{Kind: kind, Object: object, Err: err, id: id, silent: true}
		b.known[key], b.quiet = p, append(b.quiet, p)
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

// Marked sets the packs that marks name as damaged. Their damage is a problem only if a snapshot needs a lost blob, or
// relies on a pack whose damage is not limited to some of its blobs. It is called before any other method.
func (b *findings) Marked(packs map[format.ID]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marked = packs
}

// Rely records that a snapshot needs a blob of a pack, and that no better pack has it. It counts if the pack is marked.
func (b *findings) Rely(pack format.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.marked[pack] {
		b.relied[pack] = true
	}
}

// Relied returns the marked packs that Rely recorded. They are read whenever the repository is checked: otherwise a
// check that does not read them would contradict the one that marked them.
func (b *findings) Relied() []format.ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.relied))
}

// Healed records that all of a pack was read back and is intact.
func (b *findings) Healed(pack format.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.marked[pack] {
		b.intact = append(b.intact, pack)
	}
}

// Intact returns the packs of Healed.
func (b *findings) Intact() []format.ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.intact)
}

// Suspects returns the packs that seem missing or damaged.
func (b *findings) Suspects() []format.ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := slices.Collect(maps.Keys(b.packs))
	for key := range b.known {
		if key.kind == Pack && !key.id.IsZero() {
			ids = append(ids, key.id)
		}
	}
	slices.SortFunc(ids, format.ID.Compare)
	return slices.Compact(ids)
}

// Damaged returns the newly damaged packs and index segments, up to MaxProblems, and whether a blob without any pack is
// lost.
func (b *findings) Damaged() (files []format.ID, nowhere bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.list {
		switch {
		case errors.Is(p.Err, store.ErrDenied): // nothing is known about its content
		case (p.Kind == Pack || p.Kind == Index) && !b.marked[p.id] && !p.id.IsZero():
			files = append(files, p.id)
		case p.Kind == Tree || p.Kind == Blob:
			nowhere = true
		}
	}
	return files, nowhere
}

// LosePack records a pack that is cut off after its first intact bytes.
func (b *findings) LosePack(id format.ID, intact uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.addLocked(Pack, id, "pack "+id.String(), err); p != nil {
		b.packs[id], p.intact = p, intact
	}
}

// MissPack records a pack that the index names and the target lacks. It is a problem only if a snapshot needs it: its
// blobs may have been stored again, in another pack.
func (b *findings) MissPack(id format.ID, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.packs[id]; !ok {
		p := &Problem{Kind: Pack, Object: "pack " + id.String(), Err: err, id: id, silent: true, missing: true}
		b.packs[id], b.quiet = p, append(b.quiet, p)
	}
}

// Unneeded decides about missing and marked packs that no visited snapshot needs. If all snapshots were visited, they
// are no damage. It is called last.
func (b *findings) Unneeded(all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	missing, marked := 0, 0
	for _, p := range b.quiet {
		switch {
		case !p.silent:
		case all && p.missing:
			missing++
		case all && (p.part || !b.relied[p.id]):
			marked++
		default:
			b.publish(p)
		}
	}
	if marked > 0 {
		b.res.Notes = append(b.res.Notes,
			fmt.Sprintf("packs that are marked as damaged, and whose lost data no snapshot needs; "+
				"'tidemark prune' removes them: %d", marked))
	}
	if missing > 0 {
		b.res.Notes = append(b.res.Notes,
			fmt.Sprintf("packs in the index that are missing and that no snapshot needs: %d; their "+
				"data was stored again, or no snapshot of it was saved", missing))
	}
}

// publish adds a problem that was recorded silently to the result.
func (b *findings) publish(p *Problem) {
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
func (b *findings) LoseFrame(pack format.ID, offset uint32, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := treecache.Key{Pack: pack, Offset: offset}
	if _, ok := b.frames[key]; ok {
		return // another page of the frame was lost before
	}
	if p := b.inPack(pack, err); p != nil {
		b.frames[key] = p
	}
}

// inPack records damage to a part of a pack.
func (b *findings) inPack(pack format.ID, err error) *Problem {
	if p, ok := b.known[problemKey{Pack, pack}]; ok {
		p.extra++
		return p
	}
	p := b.addLocked(Pack, pack, "pack "+pack.String(), err)
	if p != nil {
		p.part = true
	}
	return p
}

// LoseBlob records a blob that is in no pack or has wrong content. Beyond MaxProblems it is only counted.
func (b *findings) LoseBlob(kind Kind, id format.ID, err error) {
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

// LoseBlobOf records a blob whose location in the pack holds other bytes.
func (b *findings) LoseBlobOf(pack, id format.ID, err error) {
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
func (b *findings) Has(kind Kind) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.list, func(p *Problem) bool { return p.Kind == kind })
}

// AnyLost reports whether something is lost that snapshots may need.
func (b *findings) AnyLost() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.packs)+len(b.frames)+len(b.blobs) > 0
}

// Why returns the problem by which the blob is lost, or nil. at is its location, zero if it has none.
func (b *findings) Why(id format.ID, at blobindex.Found) *Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := b.blobs[id]; ok {
		return p
	}
	if at.Pack == nil {
		return nil
	}
	if p, ok := b.packs[at.Pack.ID]; ok && uint64(at.Offset)+uint64(at.Sealed) > p.intact {
		return p
	}
	return b.frames[treecache.Key{Pack: at.Pack.ID, Offset: at.Offset}]
}

// Need records that a path of a snapshot needs the object of the problem.
func (b *findings) Need(p *Problem, snapshot, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.silent {
		b.publish(p)
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

// Result returns the findings so far, sorted, with advice.
func (b *findings) Result() *Result {
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

// Read counts bytes that were read back and are intact.
func (b *findings) Read(n uint64) {
	b.l.Bytes.Verified.Add(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.res.BytesRead += n
}

// Count has set update the counters of the result.
func (b *findings) Count(set func(*Result)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set(&b.res)
}

// Expect raises the totals that the ledger expects of the whole check.
func (b *findings) Expect(objects, bytes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects += objects
	b.bytes += bytes
	b.l.Expect(report.Expected{Objects: b.objects, Bytes: b.bytes, Exact: true})
}

// Whole counts one intact object.
func (b *findings) Whole() {
	b.l.Objects.Verified.Add(1)
	b.whole.Add(1)
}

// Withdraw subtracts from the ledger what these findings counted, because the check starts again with new ones. No data
// was read yet, and no worker uses these findings any more.
func (b *findings) Withdraw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.l.Objects.Verified.Add(-b.whole.Load())
	b.l.Objects.Damaged.Add(-b.damaged)
}

// Any reports whether anything is damaged or missing so far.
func (b *findings) Any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list)+len(b.packs)+len(b.frames)+len(b.blobs) > 0
}

// Judge counts one stored file as intact if err is nil, and otherwise records a problem. An error that ends the check
// is returned.
func (b *findings) Judge(ctx context.Context, kind Kind, id format.ID, object string, err error) error {
	switch {
	case err == nil:
		b.Whole()
	case fatal(ctx, err):
		return err
	default:
		b.Add(kind, id, object, err)
	}
	return nil
}

// fatal reports whether the check must end, because it was cancelled or the target is gone.
func fatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, store.ErrGone)
}
