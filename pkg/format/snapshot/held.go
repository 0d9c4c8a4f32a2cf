package snapshot

import (
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Held is what a snapshot holds of one source.
type Held struct {
	State    State
	Count           // what lies below the source, or the source itself if it is no directory
	Failed   uint64 // objects that are not in the snapshot, or are without content
	Expected Count  // by the last snapshot whose state of this source was Whole; zero: there was none, or this is one
	Accepted uint64 // 1: the user expected that it has less than before, however much less
}

// Count is an amount of files.
type Count struct {
	Files uint64 // and other objects that are not directories
	Bytes uint64 // sum of the sizes of the files; of hard links each name
}

// State is how a source was found. A later program may know more of them.
type State uint64

// The states.
const (
	Whole      State = iota // also if single objects in it failed
	Missing                 // it does not exist, or nothing is mounted there
	Unreadable              // it could not be read at all
	Empty                   // it has no files, or no bytes where there were some before
	Shrunk                  // it has much less than before
)

// String returns the state in a word.
func (s State) String() string {
	if s > Shrunk {
		return "doubted"
	}
	return [...]string{"whole", "missing", "unreadable", "empty", "shrunk"}[s]
}

// Doubted reports whether the snapshot may lack data that the source should have.
func (h *Held) Doubted() bool { return h.State != Whole }

// HeldOf returns what s holds of a source; false: unknown, or it is not among its sources.
func (s *Snapshot) HeldOf(source string) (Held, bool) {
	i := slices.Index(s.Sources, source)
	if i < 0 || i >= len(s.Held) {
		return Held{}, false
	}
	return s.Held[i], true
}

// Within reports whether a path is a source, or lies below it.
func Within(path, source string) bool {
	return path == source || strings.HasPrefix(path, strings.TrimSuffix(source, "/")+"/")
}

// numbers returns the numbers of h in the order of their tags, which are 2, 4, 6, ...
func (h *Held) numbers() []*uint64 {
	return []*uint64{(*uint64)(&h.State), &h.Files, &h.Bytes, &h.Failed, &h.Expected.Files, &h.Expected.Bytes,
		&h.Accepted}
}

func appendHeld(all []Held) (p []byte) {
	for _, h := range all {
		f := wire.NewFields(nil)
		numberFields(h.numbers())(f)
		p = wire.AppendBytes(p, f.Finish())
	}
	return p
}

func readHeld(r *wire.Reader) (all []Held) {
	for r.Len() > 0 {
		var h Held
		r.FailWith(wire.ReadFields(r.Bytes(), numberFields(h.numbers())))
		all = append(all, h)
	}
	return all
}
