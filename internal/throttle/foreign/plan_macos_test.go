package foreign

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// What others do is seen at disks alone, and with several of them only in gaps: own I/O is that of the process.
func TestHowOthersAreDetectedOnMacOS(t *testing.T) {
	several := Options{Stats: []string{"disk0"}, Elsewhere: func() iopolicy.Bytes { return iopolicy.Bytes{} }}
	for _, none := range []device.Medium{device.Memory, device.Remote} {
		_, _, why := planOfMac(none, several)
		require.NotEmpty(t, why, none)
	}
	for _, disk := range []device.Medium{device.Unknown, device.SSD, device.HDD} {
		opt, only, none := planOfMac(disk, several)
		require.Contains(t, only, "several devices")
		require.Empty(t, none)
		require.Nil(t, opt.Elsewhere, "what is proven for a thread is not for a process")
		require.Equal(t, several.Stats, opt.Stats)
		_, only, none = planOfMac(disk, Options{})
		require.Empty(t, only+none)
	}
}
