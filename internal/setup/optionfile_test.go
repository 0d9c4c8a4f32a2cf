package setup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
)

func TestSettings(t *testing.T) {
	require.Equal(t, []options.FileLine{
		{Keyword: "REPOSITORY", Values: []string{"/mnt/disk/r"}}, {Keyword: "POLICY", Values: []string{"utility"}},
		{Keyword: "DOMAIN", Values: []string{"/home/ann", "/my dir"}},
		{Keyword: "EXCLUDEPATTERN", Values: []string{"*.o"}, List: true},
	}, Settings("/mnt/disk/r", "utility", []string{"/home/ann", "/my dir"},
		[]options.FileLine{{Keyword: "REPOSITORY", Values: []string{"ignored"}},
			{Keyword: "EXCLUDEPATTERN", Values: []string{"*.o"}, List: true}}))
}

func TestSourcesOfOptionFile(t *testing.T) {
	lines, err := options.ParseFile("x.opt", []byte("DOMAIN /a \"/b c\"\nDOMAIN -/a/x ALL-LOCAL /a\n"), "")
	require.NoError(t, err)
	require.Equal(t, []string{"/a", "/b c"}, Sources(lines))
}
