package diskwatch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatFile(t *testing.T) {
	var c Counters
	const line = "    5046      123   412345     1234     6789      321   987654     5678        3     4321     6912    " +
		"    7        0      800        1       42       11\n"
	require.NoError(t, c.add([]byte(line)))
	require.Equal(t, Counters{412345 * 512, 987654 * 512, 5046, 6789, 42, 3, 4321 * ms, 6912 * ms}, c)
	require.NoError(t, c.add([]byte("1 2 3 4 5 6 7 8 9 10 11\n")), "Linux before 4.18")
	require.Equal(t, Counters{412348 * 512, 987661 * 512, 5047, 6794, 42, 12, 4331 * ms, 6924 * ms}, c)
	for _, bad := range []string{"", "1 2 3\n", "sda 1 2 3 4 5 6 7 8 9 10 11 12"} {
		require.Error(t, c.add([]byte(bad)), "%q", bad)
	}
}
