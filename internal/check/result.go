package check

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Kind is what is wrong, in one word that stays the same in JSON.
type Kind string

// The kinds of problems.
const (
	Config   Kind = "config"
	Key      Kind = "key"
	Snapshot Kind = "snapshot" // its record
	Index    Kind = "index"    // a segment, or what the index says; nothing is lost by it
	Pack     Kind = "pack"     // a stored file of blobs is missing or damaged
	Tree     Kind = "tree"     // a folder's page or a list of chunks
	Blob     Kind = "blob"     // file data
	Mark     Kind = "mark"
	Lease    Kind = "lease"
)

const (
	// MaxProblems is how many problems a Result names; the rest are counted.
	MaxProblems = 1000
	// MaxPaths is how many paths a Problem names; the rest are counted.
	MaxPaths = 10
	// maxHashes bounds the memory for counting the rest of the paths of one problem.
	maxHashes = 1 << 16
)

// Problem is one thing that is wrong with one stored file or blob.
type Problem struct {
	Kind      Kind
	Object    string   // what is damaged, with its ID: "pack 0123…"
	Snapshots []string // short IDs of the snapshots that need what is lost, oldest first
	Paths     []string // the first MaxPaths paths that need it, from the root of their snapshots
	More      uint64   // how many other paths need it; counting stops beyond 65 536
	Err       error
	Advice    string // what to do next, one sentence

	id    format.ID
	extra uint64              // further damage to the same object
	seen  map[uint64]struct{} // hashes of the paths
}

// Result is what a check found.
type Result struct {
	Problems []*Problem // sorted by kind and object
	More     uint64     // problems that are not named
	Notes    []string   // what a person should know that is no damage

	Snapshots, Segments, Packs uint64 // looked at
	Trees                      uint64 // different folders
	Blobs                      uint64 // Run: named by the index; a blob stored twice counts twice
	PacksRead, BytesRead       uint64 // data read back
}

// OK reports whether nothing is wrong.
func (r *Result) OK() bool { return len(r.Problems) == 0 && r.More == 0 }

// findings collects problems from all workers.
type findings struct {
	l    *report.Ledger
	seed maphash.Seed

	mu     sync.Mutex
	res    Result
	known  map[problemKey]*Problem
	packs  map[format.ID]*lostPack
	frames map[frameKey]*Problem  // frames that cannot be opened
	blobs  map[format.ID]*Problem // blobs that are nowhere, or are not what they should be
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

func newFindings(l *report.Ledger) *findings {
	return &findings{
		l: l, seed: maphash.MakeSeed(), known: make(map[problemKey]*Problem),
		packs: make(map[format.ID]*lostPack), frames: make(map[frameKey]*Problem),
		blobs: make(map[format.ID]*Problem),
	}
}

func (f *findings) note(text string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.res.Notes = append(f.res.Notes, fmt.Sprintf(text, args...))
}

// add records a problem with the object of that ID and returns it, or nil if there are too many already. Of one object
// the first error is kept.
func (f *findings) add(kind Kind, id format.ID, object string, err error) *Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addLocked(kind, id, object, err)
}

func (f *findings) addLocked(kind Kind, id format.ID, object string, err error) *Problem {
	key := problemKey{kind, id}
	if p, ok := f.known[key]; ok {
		return p
	}
	f.l.Objects.Damaged.Add(1)
	if len(f.res.Problems) >= MaxProblems {
		f.res.More++
		return nil
	}
	p := &Problem{Kind: kind, Object: object, Err: err, id: id}
	f.known[key] = p
	f.res.Problems = append(f.res.Problems, p)
	return p
}

func (f *findings) losePack(id format.ID, intact uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.packs[id] = &lostPack{f.addLocked(Pack, id, "pack "+id.String(), err), intact}
}

func (f *findings) loseFrame(pack format.ID, offset uint32, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.frames[frameKey{pack, offset}]; ok {
		return // a page of it was looked for before
	}
	f.frames[frameKey{pack, offset}] = f.inPack(pack, err)
}

// inPack records one of perhaps several damages to a pack.
func (f *findings) inPack(pack format.ID, err error) *Problem {
	if p, ok := f.known[problemKey{Pack, pack}]; ok {
		p.extra++
		return p
	}
	return f.addLocked(Pack, pack, "pack "+pack.String(), err)
}

// loseBlob records a blob that is in no pack or does not mean what it should. Beyond MaxProblems it is only counted.
func (f *findings) loseBlob(kind Kind, id format.ID, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.blobs[id]; ok {
		return
	}
	what := "blob "
	if kind == Tree {
		what = "tree page "
	}
	if p := f.addLocked(kind, id, what+id.String(), err); p != nil {
		f.blobs[id] = p
	}
}

// loseBlobOf records a blob in the place of which its pack holds other bytes.
func (f *findings) loseBlobOf(pack, id format.ID, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.blobs[id]; !ok {
		f.blobs[id] = f.inPack(pack, err)
	}
}

// has reports whether there is a problem of that kind.
func (f *findings) has(kind Kind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.res.Problems, func(p *Problem) bool { return p.Kind == kind })
}

// anyLost reports whether something is lost that snapshots may need.
func (f *findings) anyLost() bool { return len(f.packs)+len(f.frames)+len(f.blobs) > 0 }

// why returns the problem by which the blob is lost, or nil. at is where it lies, if it is found at all.
func (f *findings) why(id format.ID, at *location) *Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p, ok := f.blobs[id]; ok {
		return p
	}
	if at == nil {
		return nil
	}
	if p, ok := f.packs[at.pack.ID]; ok && uint64(at.loc.Offset)+uint64(at.loc.Sealed) > p.intact {
		return p.problem
	}
	return f.frames[frameKey{at.pack.ID, at.loc.Offset}]
}

// need books that a path of a snapshot needs what the problem is about.
func (f *findings) need(p *Problem, snapshot, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(p.Snapshots, snapshot) {
		p.Snapshots = append(p.Snapshots, snapshot)
	}
	h := maphash.String(f.seed, path)
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

// result sorts what was found and adds the advice.
func (f *findings) result() *Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.res.Problems {
		if p.extra > 0 {
			p.Err = fmt.Errorf("%w (and %d more places of it)", p.Err, p.extra)
			p.extra = 0
		}
		p.Advice = p.advice()
		slices.Sort(p.Paths)
	}
	order := []Kind{Config, Key, Snapshot, Index, Pack, Tree, Blob, Mark, Lease}
	slices.SortFunc(f.res.Problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			cmp.Compare(a.Object, b.Object))
	})
	return &f.res
}

func (p *Problem) advice() string {
	const fromCopy = "put the file back from a copy of the repository if there is one"
	switch p.Kind {
	case Config:
		return fromCopy + "; every repository has exactly one config, so nothing else can replace it"
	case Key:
		return "open the repository with another key, add a new one with 'tidemark key add', and remove this one"
	case Index:
		return "nothing is lost by this: the next 'tidemark backup' writes this part of the index anew from the packs"
	case Snapshot:
		return fromCopy + "; other snapshots are not affected"
	case Mark, Lease:
		return "it only keeps others from removing data; let running backups end and check again"
	case Pack, Tree, Blob:
	}
	if len(p.Paths) == 0 && p.Kind == Pack {
		return fromCopy + "; none of the snapshots that were looked at needs what is lost"
	}
	return fromCopy + "; otherwise restore these paths from another snapshot, and back up to a new repository " +
		"what still exists on disk"
}

// read books bytes that were read back.
func (f *findings) read(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.res.BytesRead += n
}
