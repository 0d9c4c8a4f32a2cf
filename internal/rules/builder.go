package rules

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// Builder collects rules in their order and compiles them into a Set. An origin is for messages: "file:line", a flag,
// "built-in". After an error of a method the builder remains usable.
type Builder struct {
	set *Set
}

// NewBuilder returns a builder without rules: everything is included.
func NewBuilder() *Builder {
	return &Builder{set: &Set{trie: &trie{}, folded: &trie{}}}
}

// trie holds the patterns of one case mode.
type trie struct {
	root     node // where anchored patterns start: the directory "/"
	anywhere node // where the others start: every directory
}

func (t *trie) insert(p pattern, rule int32) {
	if p.anchored {
		t.root.insert(p.parts, rule)
		return
	}
	for len(p.parts) > 0 && p.parts[0].kind == globDeep { // already at any depth
		p.parts = p.parts[1:]
	}
	if len(p.parts) == 0 {
		p.parts = []glob{{kind: globAny}}
	}
	t.anywhere.insert(p.parts, rule)
}

// add records the rule and returns its number. Numbers rise in the order of calls, and among rules of one kind the
// highest that matches decides.
func (b *Builder) add(kind Kind, include bool, text, origin string) int32 {
	b.set.rules = append(b.set.rules, Rule{Kind: kind, Include: include, Text: text, Origin: origin})
	b.set.has[kind] = true
	return int32(len(b.set.rules) - 1)
}

// Protect excludes an absolute path and its subtree before all other rules: the repository and the cache never back
// themselves up. The caller must have resolved links in the path.
func (b *Builder) Protect(absolute, why string) {
	absolute = path.Clean("/" + absolute)
	b.set.trie.insert(literal(absolute), b.add(Protected, false, absolute+": "+why, "built-in"))
}

// ProtectIn is Protect for everything in a folder, which stays, empty.
func (b *Builder) ProtectIn(folder, why string) {
	b.set.trie.insert(inside(folder), b.add(Protected, false, folder+"/*: "+why, "built-in"))
}

// inside returns the pattern that matches what lies in a folder.
func inside(folder string) pattern {
	p := literal(folder)
	p.parts = append(p.parts, glob{kind: globAny})
	return p
}

// literal returns the pattern that matches one clean absolute path.
func literal(absolute string) (p pattern) {
	for _, name := range splitPath(absolute) {
		p.parts = append(p.parts, glob{text: name})
	}
	p.anchored = true
	return p
}

// Hollow keeps the directories in an absolute folder without what is in them, before all other rules, except those that
// are, or lie above, one of the sources that the user named.
func (b *Builder) Hollow(folder, why string, sources []string) {
	rule := b.add(Protected, false, folder+"/*: "+why, "built-in")
	b.set.rules[rule].hollow = true
	b.set.trie.insert(inside(folder), rule)
	for _, source := range sources {
		if rest, below := strings.CutPrefix(path.Clean(source), folder+"/"); below {
			name, _, _ := strings.Cut(rest, "/")
			b.set.trie.insert(literal(folder+"/"+name), b.add(Protected, true, source+": it is named", "built-in"))
		}
	}
}

// Name has Sticky keep sources that lie within other sources, and the folders that lead there. The scanner does not
// look at the attribute of other sources.
func (b *Builder) Name(sources []string) {
	b.set.named = make(map[string]bool)
	for _, outer := range sources {
		below := strings.TrimSuffix(path.Clean(outer), "/") + "/"
		for _, inner := range sources {
			for at := path.Clean(inner); strings.HasPrefix(at, below) && at != "/"; at = path.Dir(at) {
				b.set.named[at] = true
			}
		}
	}
}

// Enter has the directories of these paths entered although another file system begins there.
func (b *Builder) Enter(paths []string) {
	for _, at := range paths {
		if b.set.systems == nil {
			b.set.systems = make(map[string]bool)
		}
		b.set.systems[at] = true
	}
}

// Exclude adds a glob pattern with restic's meaning: see docs/rules.md. fold compares without case. Patterns with and
// without case are two lists that decide independently.
func (b *Builder) Exclude(text string, fold bool, origin string) error {
	body, include := strings.CutPrefix(text, "!")
	if body == "" {
		return fmt.Errorf("%s: %w: %q is empty", origin, ErrPattern, text)
	}
	kind, into := Glob, b.set.trie
	if fold {
		kind, into, body = FoldedGlob, b.set.folded, strings.ToLower(body)
	}
	clean := path.Clean(body)
	p, err := parsePattern(splitPath(clean), "**", resticSyntax())
	if err != nil {
		return fmt.Errorf("%s: %w", origin, err)
	}
	p.anchored = strings.HasPrefix(clean, "/")
	into.insert(p, b.add(kind, include, text, origin))
	return nil
}

// ExcludeFile adds one pattern per line of r, with the meaning of Exclude. Blank lines and lines that start with '#'
// are skipped, $NAME and ${NAME} are replaced from env, $$ is a dollar sign. name is used for origins.
func (b *Builder) ExcludeFile(r io.Reader, name string, fold bool, env func(string) (string, bool)) error {
	lookup := func(key string) string {
		if key == "$" {
			return "$"
		}
		value, _ := env(key)
		return value
	}
	return eachLine(r, name, func(line, origin string) error {
		if strings.HasPrefix(line, "#") {
			return nil
		}
		return b.Exclude(os.Expand(line, lookup), fold, origin)
	})
}

// ExcludeIfPresent excludes the content of directories that hold a file of that name, except the file itself. With
// "NAME:HEADER" the file must begin with HEADER.
func (b *Builder) ExcludeIfPresent(spec, origin string) error {
	name, header, _ := strings.Cut(spec, ":")
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return fmt.Errorf("%s: %w: %q needs the name of a file, as NAME or NAME:HEADER", origin, ErrPattern, spec)
	}
	b.marker(name, header, spec, origin)
	return nil
}

// The name and the first bytes of the file that marks a cache directory: https://bford.info/cachedir/
const (
	cacheTagName   = "CACHEDIR.TAG"
	cacheTagHeader = "Signature: 8a477f597d28d172789f06886806bc55"
)

// ExcludeCaches excludes the content of directories that are tagged as caches, except the tag.
func (b *Builder) ExcludeCaches(origin string) {
	b.marker(cacheTagName, cacheTagHeader, "directories tagged by "+cacheTagName, origin)
}

func (b *Builder) marker(name, header, text, origin string) {
	b.set.markers = append(b.set.markers, marker{name, header, b.add(Marker, false, text, origin)})
}

// IgnoreFile reads files of that name in every directory below a source: see docs/rules.md for their syntax.
func (b *Builder) IgnoreFile(name, origin string) error {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return fmt.Errorf("%s: %w: %q cannot be the name of an ignore file", origin, ErrPattern, name)
	}
	b.set.ignoreName = name
	b.add(Ignore, false, "the lines of every "+name, origin)
	return nil
}

// ExcludeLargerThan excludes files of more than size bytes.
func (b *Builder) ExcludeLargerThan(size uint64, origin string) {
	b.set.largest = size
	b.add(LargerThan, false, fmt.Sprintf("files of more than %d bytes", size), origin)
}

// Flag enables one of the rules without a pattern: TopOnly, NoDump, TimeMachine, OneSystem, Pseudo.
func (b *Builder) Flag(kind Kind, origin string) {
	text := map[Kind]string{
		TopOnly:     "what lies in directories below a source",
		NoDump:      "objects with the nodump flag",
		TimeMachine: "objects excluded from Time Machine by their sticky attribute",
		OneSystem:   "what lies on another file system than the source",
		Pseudo:      "what lies on a pseudo file system",
	}[kind]
	if text != "" && !b.set.has[kind] {
		b.add(kind, false, text, origin)
	}
}

// OnlySystems is Flag(OneSystem) for the backup of several file systems: those mounted at the paths are entered.
func (b *Builder) OnlySystems(paths []string, origin string) {
	b.Enter(paths)
	b.add(OneSystem, false, "what lies on other file systems than "+strings.Join(paths, ", "), origin)
}

// Compile returns the set. The builder must not be used afterwards.
func (b *Builder) Compile() *Set {
	s := b.set
	s.controls = make(map[string]bool)
	for _, m := range s.markers {
		s.controls[m.name] = true
	}
	if s.ignoreName != "" {
		s.controls[s.ignoreName] = true
	}
	s.plain = (&DirState{set: s, glob: none, folded: none, marked: none}).seal()
	return s
}

// eachLine calls f for every line that is not blank, trimmed, and joins the errors.
func eachLine(r io.Reader, name string, f func(line, origin string) error) error {
	var problems []error
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		text := lines.Bytes()
		if number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // the byte order mark some editors write
		}
		line := strings.TrimSpace(string(text))
		if line == "" {
			continue
		}
		if err := f(line, fmt.Sprintf("%s:%d", name, number)); err != nil {
			problems = append(problems, err)
		}
	}
	if err := lines.Err(); err != nil {
		problems = append(problems, fmt.Errorf("read %s: %w", name, err))
	}
	return errors.Join(problems...)
}

// maxLine bounds a line of a rule file: a path has at most 4096 bytes, or a few times that after expansion.
const maxLine = 64 << 10
