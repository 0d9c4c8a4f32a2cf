package cachefile_test

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mappedResident returns how many bytes of mappings of a file are in the page tables of this process.
func mappedResident(t testing.TB, path string) (bytes int64) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	inside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) >= 5 && strings.Contains(words[0], "-"):
			inside = words[len(words)-1] == path
		case inside && words[0] == "Rss:":
			n, err := strconv.ParseInt(words[1], 10, 64)
			require.NoError(t, err)
			bytes += n << 10
		}
	}
	return bytes
}
