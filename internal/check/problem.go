package check

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Kind is the kind of a problem: one word that stays the same in JSON.
type Kind string

// The kinds of problems.
const (
	Config   Kind = "config"
	Key      Kind = "key"
	Snapshot Kind = "snapshot" // its record
	Index    Kind = "index"    // a segment, or what it names; no data is lost by it
	Pack     Kind = "pack"     // a stored file of blobs is missing or damaged
	Tree     Kind = "tree"     // a page of a directory or of a chunk list
	Blob     Kind = "blob"     // file data
	Mark     Kind = "mark"
	Lease    Kind = "lease"
)

const (
	// MaxProblems is how many problems a Result lists; the rest are counted.
	MaxProblems = 1000
	// MaxPaths is how many paths a Problem lists; the rest are counted.
	MaxPaths = 10
	// maxHashes bounds the memory for counting the rest of the paths of one problem.
	maxHashes = 1 << 16
)

// Problem is a defect of one stored file or blob.
type Problem struct {
	Kind      Kind
	Object    string   // kind and ID of the damaged object: "pack 0123…"
	Snapshots []string // short IDs of the snapshots that need lost data, oldest first
	Paths     []string // the first MaxPaths paths that need it, from the root of their snapshots
	More      uint64   // how many other paths need it; counting stops beyond 65 536
	Err       error
	Advice    string // what to do next, one sentence

	id      format.ID
	silent  bool                // recorded, but part of the result only if a snapshot needs it
	missing bool                // a pack that is not there
	part    bool                // only named frames or blobs of the pack are damaged
	intact  uint64              // of a pack that is missing or cut off: its first bytes, beyond which frames are lost
	extra   uint64              // further damage to the same object
	seen    map[uint64]struct{} // hashes of the paths
}

// Result is the outcome of a check.
type Result struct {
	Problems []Problem // sorted by kind and object
	More     uint64    // problems that are not listed; an object may count several times
	Notes    []string  // facts for the user that are no damage

	Snapshots, Packs     uint64 // that were checked
	PacksRead, BytesRead uint64 // data read back

	Proven proofs.Summary // the record after this check; zero without ReadData, or if no record is kept
}

// OK reports whether there are no problems.
func (r *Result) OK() bool { return len(r.Problems) == 0 && r.More == 0 }

// Healable counts the listed problems that a backup may heal from its sources.
func (r *Result) Healable() (n int) {
	for i := range r.Problems {
		switch r.Problems[i].Kind {
		case Index, Pack, Tree, Blob:
			n++
		case Config, Key, Snapshot, Mark, Lease:
		}
	}
	return n
}

// finished returns the problem in the form of the result.
func (p *Problem) finished() Problem {
	out := *p
	if p.extra > 0 {
		out.Err = fmt.Errorf("%w (and damaged in %s)", p.Err, human.Plural(p.extra, "more place"))
	}
	out.Snapshots, out.Paths = slices.Clone(p.Snapshots), slices.Sorted(slices.Values(p.Paths))
	out.Advice = p.advice()
	out.seen = nil
	return out
}

func (p *Problem) advice() string {
	const fromCopy = "put the file back from a copy of the repository if there is one"
	switch p.Kind {
	case Config:
		return fromCopy + "; every repository has exactly one config, so nothing else can replace it"
	case Key:
		if p.id.IsZero() {
			return "put a file of the folder keys back from a copy; without a key nothing can be read"
		}
		return "open the repository with another key, add a new one with 'tidemark key add', and remove this one"
	case Index:
		return "nothing is lost by this: the next backup, or 'tidemark repair index', makes this part of the index again " +
			"from the packs"
	case Snapshot:
		if errors.Is(p.Err, errDeleted) {
			return fmt.Sprintf("'tidemark forget --undo %[1]s' brings it back while its data is there; 'tidemark forget %[1]s' "+
				"accepts the loss", p.id.Short())
		}
		return "the next backup of a machine that has a copy puts it back; else " + fromCopy +
			"; other snapshots are not affected; 'tidemark repair snapshots --drop' removes it"
	case Mark:
		if errors.Is(p.Err, format.ErrUnsupported) {
			return "a newer tidemark wrote it: update this one, which neither backs up nor prunes as long as it is there"
		}
		return "nothing is lost by this, and backups ignore it unless a prune is running; 'tidemark prune' removes it"
	case Lease:
		return "it only keeps others from removing data; let running backups end and check again"
	case Pack, Tree, Blob:
	}
	if len(p.Paths) == 0 && p.Kind == Pack {
		return fromCopy + "; otherwise 'tidemark repair packs' stores again what can be read of it"
	}
	return fromCopy + "; otherwise run 'tidemark backup', which stores again what still exists on disk, and then " +
		"'tidemark repair packs' for the rest"
}
