package localfs

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMountedType(t *testing.T) {
	const table = `22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
26 28 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=8
28 1 254:1 / / rw,relatime shared:1 master:3 - ext4 /dev/vda1 rw
31 28 0:50 / /mnt/with\040-\040dash rw - fuse.sshfs host:/ rw
broken line
40 28
`
	for _, c := range []struct {
		id, dev uint64
		want    string
	}{
		{26, 0, "devtmpfs"}, {28, device(1, 1), "ext4"}, {31, 0, "fuse.sshfs"}, {99, device(0, 20), ""},
		{0, device(0, 20), "sysfs"}, {0, device(254, 1), "ext4"}, {0, device(9, 9), ""}, {40, 0, ""},
	} {
		require.Equal(t, c.want, FindMount([]byte(table), c.id, c.dev).Type, "%+v", c)
	}
}

func TestMagicType(t *testing.T) {
	for magic, want := range map[uint32]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.PROC_SUPER_MAGIC: "proc", unix.TMPFS_MAGIC: "tmpfs", 0x12345: "0x12345",
	} {
		require.Equal(t, want, typeOfMagic(magic))
	}
}
