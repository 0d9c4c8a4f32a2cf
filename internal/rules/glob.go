package rules

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// syntax is how one family of patterns writes a glob of a single path component.
type syntax struct {
	name        string
	negate      string // characters that negate a class when they stand first in it
	escape      bool   // a backslash also quotes the next character outside classes
	looseBraces bool   // ']' is an ordinary character when it stands first in a class
}

// The dialects differ only in these details. Sources: Go's path/filepath.Match, which restic uses; IBM's page "Include
// and exclude files that contain wildcard characters" (the backslash works inside classes only); gitignore(5).
func resticSyntax() syntax { return syntax{name: "glob", negate: "^", escape: true} }
func tsmSyntax() syntax    { return syntax{name: "tsm"} }
func ignoreSyntax() syntax {
	return syntax{name: "ignore", negate: "!^", escape: true, looseBraces: true}
}

type globKind uint8

const (
	globLiteral globKind = iota // the whole name
	globAny                     // "*"
	globPrefix                  // "text*"
	globSuffix                  // "*text"
	globGeneral                 // everything else: tokens
	globDeep                    // "**" or "...": zero or more names; the trie follows it
)

type tokenKind uint8

const (
	tokenText tokenKind = iota
	tokenStar
	tokenOne
	tokenClass
)

// token is one element of a general glob.
type token struct {
	kind   tokenKind
	text   string
	negate bool
	ranges []span
}

// span is a range of characters of a class, both ends included.
type span struct{ lo, hi rune }

// glob matches one path component. The common forms have kinds of their own, so that a map can find them.
type glob struct {
	kind globKind
	text string // literal, prefix or suffix; of a general one dialect and text, which distinguish it
	toks []token
}

// compileGlob parses one component. The result never matches across '/', which no name contains.
func compileGlob(pattern string, syn syntax) (glob, error) {
	toks, err := scanTokens(pattern, syn)
	if err != nil {
		return glob{}, err
	}
	switch {
	case len(toks) == 0:
		return glob{kind: globLiteral}, nil
	case len(toks) == 1 && toks[0].kind == tokenText:
		return glob{kind: globLiteral, text: toks[0].text}, nil
	case len(toks) == 1 && toks[0].kind == tokenStar:
		return glob{kind: globAny}, nil
	case len(toks) == 2 && toks[0].kind == tokenText && toks[1].kind == tokenStar:
		return glob{kind: globPrefix, text: toks[0].text}, nil
	case len(toks) == 2 && toks[0].kind == tokenStar && toks[1].kind == tokenText:
		return glob{kind: globSuffix, text: toks[1].text}, nil
	}
	return glob{kind: globGeneral, text: syn.name + " " + pattern, toks: toks}, nil
}

func scanTokens(pattern string, syn syntax) ([]token, error) {
	var toks []token
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			toks = append(toks, token{kind: tokenText, text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(pattern); {
		switch c := pattern[i]; {
		case c == '*':
			flush()
			if len(toks) == 0 || toks[len(toks)-1].kind != tokenStar {
				toks = append(toks, token{kind: tokenStar})
			}
			i++
		case c == '?':
			flush()
			toks = append(toks, token{kind: tokenOne})
			i++
		case c == '[':
			flush()
			class, n, err := scanClass(pattern[i:], syn)
			if err != nil {
				return nil, err
			}
			toks = append(toks, class)
			i += n
		case c == '\\' && syn.escape:
			if i+1 == len(pattern) {
				return nil, fmt.Errorf("%w: %q ends in a lone backslash", ErrPattern, pattern)
			}
			text.WriteByte(pattern[i+1])
			i += 2
		default:
			text.WriteByte(c)
			i++
		}
	}
	flush()
	return toks, nil
}

// scanClass parses a class that starts at p[0] == '[' and returns how many bytes it takes.
func scanClass(p string, syn syntax) (token, int, error) {
	class := token{kind: tokenClass}
	i := 1
	if i < len(p) && strings.IndexByte(syn.negate, p[i]) >= 0 {
		class.negate = true
		i++
	}
	for first := true; ; first = false {
		if i < len(p) && p[i] == ']' && !(first && syn.looseBraces) {
			if first {
				return token{}, 0, fmt.Errorf("%w: %q has an empty class", ErrPattern, p)
			}
			return class, i + 1, nil
		}
		lo, n, err := classChar(p, i, syn.looseBraces)
		if err != nil {
			return token{}, 0, err
		}
		i += n
		hi := lo
		// A '-' before the closing bracket is a character in dialects with looseBraces.
		isRange := i < len(p) && p[i] == '-' && !(syn.looseBraces && i+1 < len(p) && p[i+1] == ']')
		if isRange {
			if hi, n, err = classChar(p, i+1, syn.looseBraces); err != nil {
				return token{}, 0, err
			}
			i += 1 + n
		}
		class.ranges = append(class.ranges, span{lo, hi})
	}
}

func classChar(p string, i int, loose bool) (rune, int, error) {
	if i >= len(p) {
		return 0, 0, fmt.Errorf("%w: %q has an unclosed '['", ErrPattern, p)
	}
	skip := 0
	switch {
	case p[i] == '\\':
		skip = 1
		if i+1 >= len(p) {
			return 0, 0, fmt.Errorf("%w: %q has an unclosed '['", ErrPattern, p)
		}
	case (p[i] == '-' || p[i] == ']') && !loose, loose && strings.HasPrefix(p[i:], "[:"):
		return 0, 0, fmt.Errorf("%w: %q has a misplaced %q in a class", ErrPattern, p, p[i])
	}
	r, n := utf8.DecodeRuneInString(p[i+skip:])
	return r, n + skip, nil
}

// match reports whether the whole name matches. A byte that is not UTF-8 counts as one character.
func (g *glob) match(name []byte) bool {
	switch g.kind {
	case globLiteral:
		return string(name) == g.text
	case globAny:
		return true
	case globPrefix:
		return len(name) >= len(g.text) && string(name[:len(g.text)]) == g.text
	case globSuffix:
		return len(name) >= len(g.text) && string(name[len(name)-len(g.text):]) == g.text
	}
	return matchTokens(g.toks, name)
}

// matchTokens backtracks to the last star only, since an earlier star could only have matched less.
func matchTokens(toks []token, name []byte) bool {
	t, i := 0, 0
	starToken, starAt := -1, 0
	for i < len(name) || t < len(toks) {
		if t < len(toks) {
			if toks[t].kind == tokenStar {
				starToken, starAt = t, i
				t++
				continue
			}
			if n := toks[t].take(name[i:]); n > 0 {
				t++
				i += n
				continue
			}
		}
		if starToken < 0 || starAt >= len(name) {
			return false
		}
		_, n := utf8.DecodeRune(name[starAt:])
		starAt += n
		t, i = starToken+1, starAt
	}
	return true
}

// take returns how many bytes of rest the token consumes, 0 when it does not match there.
func (t *token) take(rest []byte) int {
	if t.kind == tokenText {
		if len(rest) >= len(t.text) && string(rest[:len(t.text)]) == t.text {
			return len(t.text)
		}
		return 0
	}
	if len(rest) == 0 {
		return 0
	}
	r, n := utf8.DecodeRune(rest)
	if t.kind == tokenOne {
		return n
	}
	if slices.ContainsFunc(t.ranges, func(s span) bool { return s.lo <= r && r <= s.hi }) == t.negate {
		return 0
	}
	return n
}
