package browse

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.txt", "/a/b.txt", true},
		{"*.txt", "/a.txt/b", false},
		{"b", "/a/b", true},
		{"b/", "/a/b", true},
		{"a/b", "/a/b", true},
		{"a/b", "/x/a/b", true},
		{"a/b", "/xa/b", false},
		{"/a/b", "/x/a/b", false},
		{"/a", "/a", true},
		{"/a", "/b/a", false},
		{"/a/*", "/a/b/c", false},
		{"/a/**", "/a/b/c", true},
		{"/a/**/c", "/a/c", true},
		{"/a/**/c", "/a/b/b/c", true},
		{"/a/**/c", "/a/b/c/d", false},
		{"**/b/**/d", "/a/b/c/b/d", true},
		{"/**/x/*/z", "/x/x/x/y/z", true},
		{"[ab]?", "/a\xff", true},
		{`\*`, "/a/*", true},
		{`\*`, "/a/b", false},
	} {
		p, err := parsePattern(c.pattern, false)
		require.NoError(t, err, c.pattern)
		name := c.path[strings.LastIndexByte(c.path, '/')+1:]
		require.Equal(t, c.want, p.match(c.path, name), "%s on %s", c.pattern, c.path)
	}
	for _, bad := range []string{"", "/", "[", "a/[", `\`} {
		_, err := parsePattern(bad, false)
		require.ErrorIs(t, err, ErrPattern, bad)
	}
}

// The worst patterns take no longer than the product of the lengths.
func TestPatternsDoNotExplode(t *testing.T) {
	p, err := parsePattern(strings.Repeat("/**/a", 50)+"/b", false)
	require.NoError(t, err)
	require.False(t, p.match(strings.Repeat("/a", 5000), "a"))
}
