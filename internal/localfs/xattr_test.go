package localfs

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// Values of every length are read whole, whether the system refuses a buffer that is too small or fills it.
func TestValuesAreReadWhole(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 576, 577, 70_000} {
		value := testkit.Noise(1, size)
		for name, fails := range map[string]bool{"an error": true, "a part": false} {
			got, err := readValue(func(p []byte) (int, error) {
				switch {
				case len(p) == 0:
					return size, nil
				case len(p) < size && fails:
					return 0, unix.ERANGE
				}
				return copy(p, value), nil
			})
			require.NoError(t, err)
			require.Equal(t, value, got, "%d bytes, %s", size, name)
		}
	}
}
