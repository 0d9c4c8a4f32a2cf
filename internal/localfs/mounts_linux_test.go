package localfs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMounts(t *testing.T) {
	const table = `22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /proc rw - proc proc rw
24 22 0:20 / /run rw - tmpfs tmpfs rw
25 22 8:2 / /home rw shared:2 - xfs /dev/sda2 rw
26 22 8:2 /ann /srv/ann rw - xfs /dev/sda2 rw
27 22 0:40 /@ /data rw - btrfs /dev/sdb rw
28 22 0:40 /@snap /data/snap rw - btrfs /dev/sdb rw
29 22 0:50 / /mnt/nas rw - cifs //nas/x rw
30 22 0:51 / /mnt/old\040disk rw - ext4 /dev/sdc rw
31 22 0:52 / /mnt/photos rw - fuse.rclone r rw
32 22 8:9 / /mnt/windows rw - fuseblk /dev/sdd rw
33 22 0:60 / /snap/core ro - squashfs /dev/loop0 ro
34 22 0:70 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
35 22 8:3 / /over rw - ext4 /dev/sde1 rw
36 35 0:80 / /over rw - nfs4 server:/x rw
37 22 8:4 /var/hosts /etc/hosts rw - ext4 /dev/sdf rw
broken line
`
	var local []string
	for _, m := range distinct(parseMounts([]byte(table))) {
		if m.Local {
			local = append(local, m.Path)
		}
	}
	require.Equal(t, []string{"/", "/data", "/data/snap", "/etc/hosts", "/home", "/mnt/old disk", "/mnt/windows"}, local)
	require.True(t, parseMounts([]byte("1 0 0:1 / / rw - overlay overlay rw\n"))[0].Local, "the root of a container")

	for line, want := range map[string]Mount{
		"30 22 8:17 / /a\\040b rw,nosuid - ext4 /dev/sd\\040b ro\n":         {Source: "/dev/sd b", ReadOnly: true},
		"30 22 8:17 / /x ro,nosuid - cifs //nas/x rw,vers=3\n":              {Source: "//nas/x", ReadOnly: true},
		"30 22 8:17 / /x rw shared:1 - ext4 /dev/sda1 rw,errors=remount-ro": {Source: "/dev/sda1"},
		"30 22 0:17 / /x rw -  tmpfs\n":                                     {},
		"30 22 0:17 / /x rw - tmpfs  rw\n":                                  {},
	} {
		all := distinct(parseMounts([]byte(line)))
		require.Len(t, all, 1, line)
		require.Equal(t, want, Mount{Source: all[0].Source, ReadOnly: all[0].ReadOnly}, line)
	}

	all, err := Mounts()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	require.Equal(t, "/", all[0].Path)
}
