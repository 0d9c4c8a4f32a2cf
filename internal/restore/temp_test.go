package restore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"", "a", ".part", "name\xff", tempName("a")} {
		require.True(t, isTempName(tempName(name)), "%q", name)
	}
	for _, name := range []string{
		"", ".part", ".tidemark-.part", ".tidemark-notes.part", ".tidemark-0123456789abcde.part",
		".tidemark-0123456789abcdef0.part",
		".tidemark-0123456789ABCDEF.part", ".tidemark-0123456789abcdeg.part", ".tidemark-0123456789abcdef",
		"0123456789abcdef.part",
		"x.tidemark-0123456789abcdef.part", ".tidemark-0123456789abcdef.part.gz",
	} {
		require.False(t, isTempName(name), "%q", name)
	}
}
