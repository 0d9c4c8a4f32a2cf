package rules

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// The oracles below transcribe the rules as the documentation words them, slowly and without states.

// tsmMatch: "..." is any number of directories, everything else matches one name.
func tsmMatch(pattern, names []string) bool {
	if len(pattern) == 0 {
		return len(names) == 0
	}
	if pattern[0] == "..." {
		return tsmMatch(pattern[1:], names) || len(names) > 0 && tsmMatch(pattern, names[1:])
	}
	if len(names) == 0 {
		return false
	}
	ok, _ := path.Match(pattern[0], names[0])
	return ok && tsmMatch(pattern[1:], names[1:])
}

type statement struct{ keyword, pattern string }

// tsmIncluded: EXCLUDE.FS and EXCLUDE.DIR first wherever they stand, on every directory of the path; then the others
// bottom-up for what is not a directory; the first match wins; no match means included.
func tsmIncluded(list []statement, target string, dir bool) bool {
	names := splitPath(target)
	for depth := 0; depth <= len(names); depth++ {
		if depth == len(names) && !dir {
			break
		}
		for _, st := range list {
			if (st.keyword == "EXCLUDE.DIR" || st.keyword == "EXCLUDE.FS") && tsmMatch(splitPath(st.pattern), names[:depth]) {
				return false
			}
		}
	}
	if dir {
		return true
	}
	for i := len(list) - 1; i >= 0; i-- {
		if (list[i].keyword == "INCLUDE" || list[i].keyword == "EXCLUDE") && tsmMatch(splitPath(list[i].pattern), names) {
			return list[i].keyword == "INCLUDE"
		}
	}
	return true
}

// resticMatch: a pattern matches a path when its components match a run of the path's names: from the first name when
// the pattern starts with a slash, from any otherwise. What is beneath a match matches, too.
func resticMatch(pattern string, names []string) bool {
	anchored := strings.HasPrefix(pattern, "/")
	parts := splitPath(pattern)
	for from := 0; from <= len(names); from++ {
		for to := from; to <= len(names); to++ {
			if from == to && !anchored {
				continue
			}
			if resticRun(parts, names[from:to]) {
				return true
			}
		}
		if anchored {
			break
		}
	}
	return false
}

func resticRun(parts, names []string) bool {
	if len(parts) == 0 {
		return len(names) == 0
	}
	if parts[0] == "**" {
		return resticRun(parts[1:], names) || len(names) > 0 && resticRun(parts, names[1:])
	}
	if len(names) == 0 {
		return false
	}
	ok, _ := path.Match(parts[0], names[0])
	return ok && resticRun(parts[1:], names[1:])
}

// resticExcluded: the last pattern that matches decides, '!' includes again, but not beneath an excluded directory.
func resticExcluded(patterns []string, target string) bool {
	names := splitPath(target)
	for depth := 0; depth <= len(names); depth++ {
		excluded := false
		for _, p := range patterns {
			if body, negated := strings.CutPrefix(p, "!"); resticMatch(body, names[:depth]) {
				excluded = !negated
			}
		}
		if excluded {
			return true
		}
	}
	return false
}

func randomPath(r *rand.Rand, words []string, longest int) string {
	var b strings.Builder
	for range 1 + r.IntN(longest) {
		b.WriteString("/" + words[r.IntN(len(words))])
	}
	return b.String()
}

var pathWords = []string{"a", "b", "c", "ab", "bc.o", "abc", "a.o"}

func TestStatementsAgreeWithTheOracle(t *testing.T) {
	words := []string{"a", "b", "*", "...", "a*", "*b", "?", "[a-b]*", "*.o", "a*c", "..."}
	keywords := []string{"INCLUDE", "EXCLUDE", "EXCLUDE", "INCLUDE", "EXCLUDE.DIR", "EXCLUDE.FS"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var list []statement
		b := NewBuilder()
		for i := range 1 + r.IntN(6) {
			st := statement{keywords[r.IntN(len(keywords))], randomPath(r, words, 4)}
			list = append(list, st)
			_, err := b.Statement(st.keyword, st.pattern, fmt.Sprint("line ", i))
			require.NoError(t, err)
		}
		set := b.Compile()
		for range 20 {
			target, dir := randomPath(r, pathWords, 5), r.IntN(2) == 0
			want := tsmIncluded(list, target, dir)
			require.Equal(t, want, walkIncludes(set, target, dir), "%v: %s dir=%v", list, target, dir)
			require.Equal(t, want, set.Explain(Query{Path: target, Type: kindOf(dir)}).Verdict == Include)
		}
	}
}

func TestGlobsAgreeWithTheOracle(t *testing.T) {
	words := []string{"a", "b", "*", "**", "a*", "*b", "?", "[a-b]*", "*.o", "a*c", "**"}
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		var list []string
		b := NewBuilder()
		for range 1 + r.IntN(5) {
			p := randomPath(r, words, 4)
			if r.IntN(2) == 0 {
				p = p[1:]
			}
			if r.IntN(3) == 0 {
				p = "!" + p
			}
			list = append(list, p)
			require.NoError(t, b.Exclude(p, false, "test"))
		}
		set := b.Compile()
		for range 20 {
			target, dir := randomPath(r, pathWords, 5), r.IntN(2) == 0
			require.Equal(t, !resticExcluded(list, target), walkIncludes(set, target, dir), "%q: %s", list, target)
		}
	}
}

func kindOf(dir bool) tree.Type {
	if dir {
		return tree.Dir
	}
	return tree.File
}

// walkIncludes asks as a scanner does: from a source downwards, by names, first without a type.
func walkIncludes(set *Set, target string, dir bool) bool {
	state, decision := set.Root("/")
	if decision.Verdict == Exclude {
		return false
	}
	names := splitPath(target)
	for i, name := range names {
		typ := tree.Dir
		if i == len(names)-1 {
			typ = kindOf(dir)
		}
		verdict := state.Name([]byte(name), 0)
		if known := state.Name([]byte(name), typ); verdict == NeedType {
			verdict = known
		} else if verdict != known {
			panic(fmt.Sprintf("%s: %v without the type, %v with it", target, verdict, known))
		}
		if verdict == Exclude {
			return false
		}
		state = state.Child([]byte(name))
	}
	return true
}
