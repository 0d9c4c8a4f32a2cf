package shared

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that has ended has no start, also before it is waited for. Any other state is alive.
func TestStartOfAProcessOfMacOS(t *testing.T) {
	for state := int8(1); state <= 4; state++ { // SIDL, SRUN, SSLEEP, SSTOP
		at, err := startOfMac(77, state, 1_800_000_000, 999_999, nil)
		require.NoError(t, err)
		require.EqualValues(t, 1_800_000_000_999_999, at)
	}
	_, err := startOfMac(77, 5, 1_800_000_000, 0, nil)
	require.ErrorIs(t, err, ErrNoProcess)
	_, err = startOfMac(77, 0, 0, 0, syscall.EIO)
	require.ErrorIs(t, err, ErrNoProcess)
	require.ErrorContains(t, err, "77")
}
