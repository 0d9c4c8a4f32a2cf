package device

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

func TestDisksOfMacOS(t *testing.T) {
	of := func(stores ...diskwatch.Store) Info {
		return onMac("apfs", "/dev/disk3s5", stores, nil).complete("apfs")
	}
	solid := of(diskwatch.Store{Name: "disk0", Solid: true})
	require.Equal(t, SSD, solid.Medium)
	require.False(t, solid.Weak)
	require.Equal(t, "disk0", solid.Leaves[0].Stats())
	require.Equal(t, "The data lies on disk0, a solid-state disk.", solid.Why)

	usb := of(diskwatch.Store{Name: "disk4"})
	require.Equal(t, Unknown, usb.Medium)
	require.True(t, usb.Weak, "its service times decide")
	require.False(t, Overlaps(solid, usb))

	image := of(diskwatch.Store{Name: "disk5", Image: true})
	require.True(t, image.Indirect)

	fusion := of(diskwatch.Store{Name: "disk0", Solid: true}, diskwatch.Store{Name: "disk6"})
	require.Equal(t, Unknown, fusion.Medium, "the slower one counts")
	require.Len(t, fusion.Leaves, 2)
	require.True(t, Overlaps(solid, fusion))

	// Without diskutil the container stands for the disk, and has no counters.
	failed := onMac("apfs", "/dev/disk3s5", nil, errors.New("diskutil: timed out")).complete("apfs")
	require.Equal(t, []string{"disk3"}, failed.Disks)
	require.Empty(t, failed.Leaves[0].Stats())
	require.Contains(t, failed.Why, "timed out")
	none := onMac("lifs", "msdos://x", nil, diskwatch.ErrNoDisk).complete("lifs")
	require.Empty(t, none.Leaves)
	require.NotContains(t, none.Why, "(")
}
