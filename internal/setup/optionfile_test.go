package setup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
)

func TestSettings(t *testing.T) {
	require.Equal(t, []options.Setting{
		{Keyword: "REPOSITORY", Value: "/mnt/disk/r"}, {Keyword: "POLICY", Value: "utility"},
		{Keyword: "DOMAIN", Value: "/home/ann", List: true}, {Keyword: "DOMAIN", Value: "/my dir", List: true},
		{Keyword: "EXCLUDEPATTERN", Value: "*.o", List: true},
	}, Settings("/mnt/disk/r", "utility", []string{"/home/ann", "/my dir"},
		[]options.Setting{{Keyword: "REPOSITORY", Value: "ignored"}, {Keyword: "EXCLUDEPATTERN", Value: "*.o", List: true}}))
}

func TestSourcesOfOptionFile(t *testing.T) {
	lines, err := options.ParseFile("x.opt", []byte("DOMAIN /a \"/b c\"\nDOMAIN -/a/x ALL-LOCAL /a\n"), "")
	require.NoError(t, err)
	require.Equal(t, []string{"/a", "/b c"}, Sources(lines))
}
