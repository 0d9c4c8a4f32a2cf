package rules

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Decision is a verdict with its reason.
type Decision struct {
	Verdict Verdict
	Rule    *Rule  // nil: no rule matches, which means included
	Path    string // where it was decided: the path itself, or a directory above it
}

// Query is a question about one path.
type Query struct {
	Path   string    // absolute
	Type   tree.Type // 0: not known
	Size   uint64    // bytes, of a file
	NoDump bool
	Sticky []byte // value of StickyXattr
	Source string // the source it belongs to: ignore and marker files count from here down; "": from "/"
	// Read returns the beginning of a file by its path, or fs.ErrNotExist. If it is nil, the rules are evaluated
	// without ignore and marker files.
	Read func(path string, limit int) ([]byte, error)
}

// Root returns the state of a source directory, and the decision about the source itself: Exclude when it or a
// directory above it is excluded. The caller decides whether that applies to a source the user named.
func (s *Set) Root(source string) (*DirState, Decision) {
	source = path.Clean("/" + source)
	state, decision := s.slash()
	for at, name := range steps(source) {
		if decision.Verdict != Exclude {
			verdict, rule := state.decide([]byte(name), tree.Dir)
			if verdict == NotEntered { // SUBDIR no concerns only what lies below a source
				verdict, rule = Include, nil
			}
			decision = Decision{verdict, rule, at}
		}
		state = state.Child([]byte(name))
	}
	return state, decision
}

// slash is the state of the root, which has no name. Patterns such as "/" and "/..." match it.
func (s *Set) slash() (*DirState, Decision) {
	reached := reach(&s.trie.root, nil)
	folded := reach(&s.folded.root, nil)
	best := noneMatched(s.plain)
	best.note(s, reached)
	best.note(s, folded)
	verdict, rule := best.judge(s, true, nil)
	if verdict == NotEntered {
		verdict, rule = Include, nil
	}
	state := &DirState{set: s, active: keep(reached), foldedActive: keep(folded), glob: best[Glob],
		folded: best[FoldedGlob], marked: none}
	return state.seal(), Decision{verdict, rule, "/"}
}

// Explain names the rule that decides about a path.
func (s *Set) Explain(q Query) Decision {
	target, source := path.Clean("/"+q.Path), path.Clean("/"+q.Source)
	if target != source && !strings.HasPrefix(target, strings.TrimSuffix(source, "/")+"/") {
		source = "/"
	}
	state, decision := s.Root(source)
	if decision.Verdict == Exclude {
		return decision
	}
	dir := source
	for at, name := range steps(strings.TrimPrefix(target, source)) {
		state = s.loaded(state, dir, q.Read)
		dir = path.Join(source, at)
		typ := tree.Dir
		if dir == target {
			typ = q.Type
		}
		verdict, rule := state.decide([]byte(name), typ)
		decision = Decision{verdict, rule, dir}
		if verdict == Exclude || verdict == NotEntered {
			return decision
		}
		state = state.Child([]byte(name))
	}
	return s.object(q, decision)
}

// loaded reads the control files of dir, if the query has a read function.
func (s *Set) loaded(state *DirState, dir string, read func(string, int) ([]byte, error)) *DirState {
	if read == nil {
		return state
	}
	var present []string
	for name := range s.controls {
		if _, err := read(path.Join(dir, name), 0); !errors.Is(err, fs.ErrNotExist) {
			present = append(present, name)
		}
	}
	if len(present) == 0 {
		return state
	}
	state, _ = state.Load(dir, present, func(name string, limit int) ([]byte, error) {
		return read(path.Join(dir, name), limit)
	})
	return state
}

// object evaluates the rules that concern the object rather than its name.
func (s *Set) object(q Query, d Decision) Decision {
	if d.Verdict != Include {
		return d
	}
	switch {
	case s.has[NoDump] && q.NoDump:
		return Decision{Exclude, s.first(NoDump), d.Path}
	case s.Sticky(q.Sticky, func() string { return q.Path }) == Exclude:
		return Decision{Exclude, s.first(TimeMachine), d.Path}
	case s.Object(q.Type, q.Size, false) == Exclude:
		return Decision{Exclude, s.first(LargerThan), d.Path}
	}
	return d
}

// steps yields the names of a clean absolute path, each with the path up to it.
func steps(clean string) func(yield func(at, name string) bool) {
	return func(yield func(at, name string) bool) {
		at := "/"
		for _, name := range splitPath(clean) {
			at = path.Join(at, name)
			if !yield(at, name) {
				return
			}
		}
	}
}
