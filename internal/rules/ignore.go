package rules

import (
	"fmt"
	"strings"
)

// MaxIgnoreFile is the length of an ignore file, in bytes, beyond which it is not used.
const MaxIgnoreFile = 1 << 20

// ignoreFile is the compiled content of one ignore file.
type ignoreFile struct {
	trie  trie
	rules []Rule
}

// layer is an ignore file as it applies in one directory: the deepest first.
type layer struct {
	file   *ignoreFile
	active []*node
	up     *layer
}

// child returns the layers as they apply in the directory name of this one.
func (l *layer) child(name []byte) *layer {
	if l == nil {
		return nil
	}
	up := l.up.child(name)
	var buf [16]*node
	active := keep(advance(&l.file.trie.anywhere, l.active, name, buf[:0]))
	if len(active) == 0 && len(l.active) == 0 && up == l.up {
		return l
	}
	return &layer{file: l.file, active: active, up: up}
}

// decide returns the rule that decides about name as a directory (dir) and as any other type; nil when none does.
func (l *layer) decide(name []byte) (dir, other *Rule) {
	for ; l != nil && (dir == nil || other == nil); l = l.up {
		var buf [16]*node
		lastDir, lastOther := none, none
		for _, n := range advance(&l.file.trie.anywhere, l.active, name, buf[:0]) {
			for _, e := range n.ends {
				lastDir = max(lastDir, e)
				if !l.file.rules[e].dirOnly {
					lastOther = max(lastOther, e)
				}
			}
		}
		if dir == nil && lastDir != none {
			dir = &l.file.rules[lastDir]
		}
		if other == nil && lastOther != none {
			other = &l.file.rules[lastOther]
		}
	}
	return dir, other
}

// parseIgnore compiles an ignore file. It skips malformed lines and returns them as errors.
func parseIgnore(content []byte, origin string) (*ignoreFile, []error) {
	f := &ignoreFile{}
	var problems []error
	text := strings.TrimPrefix(string(content), "\xef\xbb\xbf")
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		at := fmt.Sprintf("%s:%d", origin, number)
		rule, p, err := parseIgnoreLine(strings.TrimSuffix(line, "\r"))
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", at, err))
			continue
		}
		if rule.Text == "" {
			continue
		}
		rule.Origin = at
		f.rules = append(f.rules, rule)
		f.trie.insert(p, int32(len(f.rules)-1))
	}
	return f, problems
}

// parseIgnoreLine returns a rule with empty Text for blank lines and comments.
func parseIgnoreLine(line string) (Rule, pattern, error) {
	line = trimTrailingBlanks(line)
	if line == "" || line[0] == '#' {
		return Rule{}, pattern{}, nil
	}
	rule := Rule{Kind: Ignore, Text: line}
	body := line
	if body, rule.Include = strings.CutPrefix(body, "!"); body == "" {
		return Rule{}, pattern{}, fmt.Errorf("%w: %q is empty", ErrPattern, line)
	}
	body, rule.dirOnly = strings.CutSuffix(body, "/")
	anchored := strings.Contains(body, "/")
	parts := splitPath(body)
	if len(parts) == 0 {
		return Rule{}, pattern{}, fmt.Errorf("%w: %q names nothing below its directory", ErrPattern, line)
	}
	if parts[len(parts)-1] == "**" {
		parts = append(parts, "*") // the content, not the directory itself
	}
	p, err := parsePattern(parts, "**", ignoreSyntax())
	if err != nil {
		return Rule{}, pattern{}, err
	}
	p.anchored = anchored
	return rule, p, nil
}

// trimTrailingBlanks removes spaces and tabs at the end, except one that a backslash quotes.
func trimTrailingBlanks(line string) string {
	trimmed := strings.TrimRight(line, " \t")
	backslashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if backslashes%2 == 1 && len(trimmed) < len(line) {
		return line[:len(trimmed)+1]
	}
	return trimmed
}

// readIgnore loads the ignore file of a directory; nil when it has no rules.
func readIgnore(name, dir string, read ReadFile) (*ignoreFile, []error) {
	origin := strings.TrimSuffix(dir, "/") + "/" + name
	content, err := read(name, MaxIgnoreFile+1)
	if err == nil && len(content) > MaxIgnoreFile {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxIgnoreFile)
	}
	if err != nil {
		return nil, []error{fmt.Errorf("read ignore file %s: %w", origin, err)}
	}
	f, problems := parseIgnore(content, origin)
	if len(f.rules) == 0 {
		f = nil
	}
	return f, problems
}
