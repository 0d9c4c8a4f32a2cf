package rules

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGlobDialects(t *testing.T) {
	cases := []struct {
		syn     syntax
		pattern string
		match   []string
		differ  []string
	}{
		{resticSyntax(), "*.o", []string{"a.o", ".o"}, []string{"a.oo", "o", "a.O"}},
		{resticSyntax(), "foo*", []string{"foo", "foobar"}, []string{"fo", "afoo"}},
		{resticSyntax(), "a?c", []string{"abc", "a?c", "aéc", "a\xffc"}, []string{"ac", "abbc"}},
		{resticSyntax(), "[a-c]x", []string{"ax", "cx"}, []string{"dx", "x"}},
		{resticSyntax(), "[^a-c]x", []string{"dx", "^x"}, []string{"ax"}},
		{resticSyntax(), "[!a]x", []string{"!x", "ax"}, []string{"bx"}},
		{resticSyntax(), `\*x`, []string{"*x"}, []string{"ax", `\*x`}},
		{resticSyntax(), "a*b*c", []string{"abc", "aXbYbZc"}, []string{"ab", "acb"}},
		{resticSyntax(), "a**", []string{"a", "ab"}, []string{"b"}},
		{ignoreSyntax(), "[!a]x", []string{"bx", "!x"}, []string{"ax"}},
		{ignoreSyntax(), "[]a]x", []string{"]x", "ax"}, []string{"bx"}},
		{ignoreSyntax(), "[a-]x", []string{"-x", "ax"}, []string{"bx"}},
		{tsmSyntax(), `a\b`, []string{`a\b`}, []string{"ab"}},
		{tsmSyntax(), `fi[\*]le1`, []string{"fi*le1"}, []string{"fixle1"}},
		{tsmSyntax(), `[\[]dir2[\]]`, []string{"[dir2]"}, []string{"dir2"}},
		{tsmSyntax(), "[^a]", []string{"^", "a"}, []string{"b"}},
	}
	for _, c := range cases {
		g, err := compileGlob(c.pattern, c.syn)
		require.NoError(t, err, c.pattern)
		for _, name := range c.match {
			require.True(t, g.match([]byte(name)), "%q should match %q", c.pattern, name)
		}
		for _, name := range c.differ {
			require.False(t, g.match([]byte(name)), "%q should not match %q", c.pattern, name)
		}
	}
	for _, bad := range []string{"[", "[a", "[]", "[]a]", "[a-]", "[-a]", `a\`, `[\`, "[^]"} {
		_, err := compileGlob(bad, resticSyntax())
		require.ErrorIs(t, err, ErrPattern, bad)
	}
}

// The glob dialect is path.Match for one component. Only names of ASCII are compared: after a star, path.Match goes on
// in the middle of a character, we do not.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"*.o", "a.o"}, {"a*b?c[d-f]", "axxbycd"}, {`\[*`, "[x"}, {"[^a]*[b]", "cb"},
		{"**a**", "bab"}, {"[]a]", "]"}, {"*?", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		for _, syn := range []syntax{tsmSyntax(), ignoreSyntax()} {
			if g, err := compileGlob(pattern, syn); err == nil {
				g.match([]byte(name))
			}
		}
		if strings.Contains(pattern+name, "/") || !isASCII(pattern+name) {
			return
		}
		g, err := compileGlob(pattern, resticSyntax())
		want, wantErr := path.Match(pattern, name)
		if err != nil {
			// path.Match examines only what it needs; compileGlob examines the whole pattern.
			return
		}
		require.NoError(t, wantErr)
		require.Equal(t, want, g.match([]byte(name)), "%q against %q", pattern, name)
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
