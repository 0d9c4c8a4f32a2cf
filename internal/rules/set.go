package rules

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// none stands for no rule.
const none int32 = -1

// Set is a compiled set of rules: immutable, for any number of goroutines.
type Set struct {
	rules      []Rule
	has        [kinds]bool
	trie       *trie
	folded     *trie // patterns and names in lower case
	markers    []marker
	ignoreName string
	largest    uint64
	systems    map[string]bool // file systems that are entered although OneSystem applies, by path
	named      map[string]bool // sources within other sources, which Sticky keeps, by path
	controls   map[string]bool // names of marker and ignore files
	plain      *DirState       // the state of a directory that no pattern has reached yet
}

// marker is a file whose presence excludes what lies beside it.
type marker struct {
	name, header string
	rule         int32
}

// StickyXattr is the extended attribute by which macOS excludes an object from Time Machine, wherever it is moved.
const StickyXattr = "com.apple.metadata:com_apple_backup_excludeItem"

// ReadFile returns the beginning of a file of the directory in question, at most limit bytes. It must not follow links.
type ReadFile func(name string, limit int) ([]byte, error)

// NeedsSticky reports whether Sticky must be asked: it needs an attribute beyond a stat.
func (s *Set) NeedsSticky() bool { return s.has[TimeMachine] }

// Object decides about an object that Name included, from its stat: size in bytes, and whether its nodump flag is set.
func (s *Set) Object(typ tree.Type, size uint64, nodump bool) Verdict {
	if s.has[LargerThan] && typ == tree.File && size > s.largest || s.has[NoDump] && nodump {
		return Exclude
	}
	return Include
}

// Sticky decides by the value of StickyXattr, nil when the object has none. The value is a property list that holds
// the string com.apple.backupd. path is asked for only then: an object that a person named is kept.
func (s *Set) Sticky(value []byte, path func() string) Verdict {
	if s.has[TimeMachine] && bytes.Contains(value, []byte("com.apple.backupd")) && !s.named[path()] {
		return Exclude
	}
	return Include
}

// Mount decides about a directory below a source, by its path, that is the root of another file system: Include or
// NotEntered.
func (s *Set) Mount(path string, pseudo bool) Verdict {
	if s.systems[path] {
		return Include
	}
	if s.has[OneSystem] || pseudo && s.has[Pseudo] {
		return NotEntered
	}
	return Include
}

// DirState is the state of the rules after the path of one directory. It is immutable: Child and Load return new ones.
type DirState struct {
	set          *Set
	active       []*node // trie nodes reached by this path, besides the one that is active everywhere
	foldedActive []*node
	glob         int32 // the last glob rule that matched a directory above: patterns also match what lies below
	folded       int32
	marked       int32 // the marker rule that excludes the content of this directory
	tag          string
	layers       *layer
	free         bool // nothing can match a name of this directory
}

// Unanchored reports whether d equals the state of a directory that no pattern has reached: the verdicts in it and
// below do not depend on its path.
func (d *DirState) Unanchored() bool {
	return len(d.active)+len(d.foldedActive) == 0 && d.glob == none && d.folded == none && d.marked == none &&
		d.layers == nil
}

// seal computes the derived fields.
func (d *DirState) seal() *DirState {
	s := d.set
	d.free = d.Unanchored() && s.trie.anywhere.leaf() && s.folded.anywhere.leaf() && !s.has[TopOnly]
	return d
}

// Control reports whether name is a file whose presence or content makes rules. The scanner passes these to Load.
func (d *DirState) Control(name []byte) bool {
	return len(d.set.controls) > 0 && d.set.controls[string(name)]
}

// Load returns the state of the same directory with the control files that are present in it. dir is its path, for
// origins. An unreadable or malformed control file excludes nothing and is returned as a problem, so that the report
// shows why more was kept than expected.
func (d *DirState) Load(dir string, present []string, read ReadFile) (*DirState, []error) {
	next := *d
	var problems []error
	for _, m := range d.set.markers {
		if next.marked != none || !slices.Contains(present, m.name) {
			continue
		}
		if m.header != "" {
			head, err := read(m.name, len(m.header))
			if err != nil {
				problems = append(problems, fmt.Errorf("read marker file %s: %w", path.Join(dir, m.name), err))
				continue
			}
			if string(head) != m.header {
				continue
			}
		}
		next.marked, next.tag = m.rule, m.name
	}
	if d.set.ignoreName != "" && slices.Contains(present, d.set.ignoreName) {
		file, bad := readIgnore(d.set.ignoreName, dir, read)
		problems = append(problems, bad...)
		if file != nil {
			next.layers = &layer{file: file, active: reach(&file.trie.root, nil), up: d.layers}
		}
	}
	return next.seal(), problems
}

// Name decides about a name of the directory, by the path alone. typ may be 0 (unknown): Name then returns NeedType,
// but only where the verdict depends on it.
func (d *DirState) Name(name []byte, typ tree.Type) Verdict {
	if d.free {
		return Include
	}
	verdict, _ := d.decide(name, typ)
	return verdict
}

// Child returns the state of the directory of that name.
func (d *DirState) Child(name []byte) *DirState {
	s := d.set
	if d.free {
		return s.plain
	}
	best := noneMatched(d)
	var buf, foldBuf [16]*node
	reached := advance(&s.trie.anywhere, d.active, name, buf[:0])
	best.note(s, reached)
	var folded []*node
	if s.has[FoldedGlob] {
		var lower [256]byte
		folded = advance(&s.folded.anywhere, d.foldedActive, fold(lower[:0], name), foldBuf[:0])
		best.note(s, folded)
	}
	next := DirState{set: s, active: keep(reached), foldedActive: keep(folded), glob: best[Glob],
		folded: best[FoldedGlob], marked: none, layers: d.layers.child(name)}
	if next.Unanchored() {
		return s.plain
	}
	heap := next // allocates only what is kept
	return heap.seal()
}

// List returns the rules in the order of evaluation: by kind, and within a kind the one that wins first.
func (s *Set) List() []Rule {
	list := slices.Clone(s.rules)
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b Rule) int { return int(a.Kind) - int(b.Kind) })
	return list
}

// matches holds the highest rule of each named kind that has matched.
type matches [named]int32

func noneMatched(d *DirState) matches {
	m := matches{none, none, none, none, none, none, none}
	m[Glob], m[FoldedGlob] = d.glob, d.folded
	return m
}

func (m *matches) note(s *Set, reached []*node) {
	for _, n := range reached {
		for _, e := range n.ends {
			kind := s.rules[e].Kind
			m[kind] = max(m[kind], e)
		}
	}
}

// decide returns the verdict and the rule behind it, nil when there is none.
func (d *DirState) decide(name []byte, typ tree.Type) (Verdict, *Rule) {
	s := d.set
	best := noneMatched(d)
	var buf [16]*node
	best.note(s, advance(&s.trie.anywhere, d.active, name, buf[:0]))
	if s.has[FoldedGlob] {
		var lower [256]byte
		best.note(s, advance(&s.folded.anywhere, d.foldedActive, fold(lower[:0], name), buf[:0]))
	}
	if d.marked != none && string(name) != d.tag {
		best[Marker] = d.marked
	}
	ignoredDir, ignoredOther := d.layers.decide(name)
	switch typ {
	case tree.Dir:
		return best.judge(s, true, ignoredDir)
	case 0:
		asDir, rule := best.judge(s, true, ignoredDir)
		other, otherRule := best.judge(s, false, ignoredOther)
		if asDir != other {
			return NeedType, nil
		}
		if rule == nil {
			rule = otherRule
		}
		return asDir, rule
	}
	return best.judge(s, false, ignoredOther)
}

// judge evaluates the kinds in their order. The first that excludes decides; otherwise the first that includes is
// named.
func (m *matches) judge(s *Set, dir bool, ignored *Rule) (Verdict, *Rule) {
	var including *Rule
	for kind := Protected; kind < named; kind++ {
		if m[kind] == none || dir && kind == Statement || !dir && (kind == FileSystem || kind == Directory) {
			continue
		}
		rule := &s.rules[m[kind]]
		if rule.hollow {
			if dir {
				return NotEntered, rule
			}
			continue
		}
		if !rule.Include {
			return Exclude, rule
		}
		if including == nil {
			including = rule
		}
	}
	if ignored != nil && !ignored.Include {
		return Exclude, ignored
	}
	if dir && s.has[TopOnly] {
		return NotEntered, s.first(TopOnly)
	}
	if including == nil {
		including = ignored
	}
	return Include, including
}

// first returns the first rule of a kind, nil when there is none.
func (s *Set) first(kind Kind) *Rule {
	for i := range s.rules {
		if s.rules[i].Kind == kind {
			return &s.rules[i]
		}
	}
	return nil
}

// fold appends name in lower case; bytes that are not UTF-8 stay as they are.
func fold(dst, name []byte) []byte {
	for i := 0; i < len(name); {
		c := name[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(name[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, c)
		} else {
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		}
		i += n
	}
	return dst
}
