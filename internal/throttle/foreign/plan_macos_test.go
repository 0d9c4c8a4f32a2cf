package foreign

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// What others do is seen at disks alone, and with several of them only in gaps: own I/O is that of the process.
func TestHowOthersAreDetectedOnMacOS(t *testing.T) {
	several := Options{Proc: "/p"}
	several.Elsewhere = func() iopolicy.Bytes { return iopolicy.Bytes{} }
	_, why := planOfMac(device.Remote, several)
	require.NotEmpty(t, why)
	for _, disk := range []device.Medium{device.Unknown, device.SSD, device.HDD} {
		opt, none := planOfMac(disk, several)
		require.Contains(t, opt.GapsOnly, "several devices")
		require.Empty(t, none)
		require.Nil(t, opt.Elsewhere, "what is proven for a thread is not for a process")
		require.Equal(t, several.Proc, opt.Proc)
		opt, none = planOfMac(disk, Options{})
		require.Empty(t, opt.GapsOnly+none)
	}
}
