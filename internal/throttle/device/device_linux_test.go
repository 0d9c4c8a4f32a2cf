package device

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// page is the page of a SCSI disk with its rotation rate.
func page(rate uint16) string {
	return string(binary.BigEndian.AppendUint16([]byte{0, 0xb1, 0, 60}, rate)) + strings.Repeat("\x00", 58)
}

func TestDisks(t *testing.T) {
	for name, c := range map[string]struct {
		at, rotational string
		more           map[string]string // attributes
		want           Medium
		why            string
	}{
		"sata ssd": {sata, "0", nil, SSD, "sda, which does not turn (rotational is 0)"},
		"sata hdd": {sata, "1", map[string]string{"device/vpd_pgb1": page(7200)}, HDD,
			"sda, which turns 7200 times a minute"},
		"old kernel":        {sas, "1", nil, HDD, "sdb, which turns (rotational is 1)"},
		"rate not reported": {sas, "1", map[string]string{"device/vpd_pgb1": page(0)}, HDD, "(rotational is 1)"},
		"rate reserved":     {usb, "1", map[string]string{"device/vpd_pgb1": page(0xffff)}, Unknown, "USB"},
		"page cut":          {usb, "1", map[string]string{"device/vpd_pgb1": page(7200)[:5]}, Unknown, "USB"},
		"another page":      {usb, "1", map[string]string{"device/vpd_pgb1": "\x00\x83" + page(7200)[2:]}, Unknown, "USB"},
		"nvme":              {nvme, "0", nil, SSD, "nvme0n1"},
		"usb stick": {usb, "1", nil, Unknown,
			"sdc, a disk behind a USB bridge: rotational=1 says nothing about its medium"},
		"usb ssd":            {usb, "0", nil, SSD, "sdc"},
		"usb hdd that tells": {usb, "1", map[string]string{"device/vpd_pgb1": page(5400)}, HDD, "5400"},
		"virtio":             {vda, "1", nil, Unknown, "vda, a virtio disk"},
		"virtio that tells":  {vda, "0", nil, SSD, "vda"},
		"virtio scsi":        {"pci0000:00/virtio3/host0/target0:0:0/0:0:0:0/block/sda", "1", nil, Unknown, "virtio"},
		"xen":                {"vbd-51712/block/xvda", "1", nil, Unknown, "xvda, a Xen disk"},
		"iscsi":              {"platform/host6/session1/target6:0:0/6:0:0:1/block/sdd", "1", nil, Unknown, "iSCSI"},
		"qemu sata": {sata, "1", map[string]string{"device/model": "QEMU HARDDISK   \n"}, Unknown,
			"virtual machine"},
		"vmware": {sas, "1", map[string]string{"device/vendor": "VMware  \n"}, Unknown, "virtual machine"},
		"a real maker": {sas, "1", map[string]string{"device/vendor": "ATA     ", "device/model": "ST4000NM0035"},
			HDD, "turns"},
		"nbd":                 {"virtual/block/nbd0", "0", nil, Unknown, "another machine"},
		"nbd that turns":      {"virtual/block/nbd0", "1", nil, Unknown, "another machine"},
		"zram":                {"virtual/block/zram0", "0", nil, Memory, "memory"},
		"ram":                 {"virtual/block/ram12", "1", nil, Memory, "memory"},
		"card":                {"platform/soc/mmc_host/mmc0/mmc0:0001/block/mmcblk0", "0", nil, SSD, "mmcblk0"},
		"no queue":            {sata, "", nil, Unknown, "does not report"},
		"nonsense":            {sata, "2", nil, Unknown, "does not report"},
		"mapper on nothing":   {"virtual/block/dm-3", "0", nil, Unknown, "whose disks the kernel does not show"},
		"loop without a file": {"virtual/block/loop0", "0", nil, Unknown, "whose disks the kernel does not show"},
		"a bus named usb":     {"pci0000:00/usb/x/virtio/session/block/sda", "1", nil, HDD, "sda"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			at := k.disk("8:0", c.at, c.rotational)
			for name, value := range c.more {
				k.write(at+"/"+name, value)
			}
			got := k.numbered(number(8, 0)).complete("ext4")
			require.Equal(t, c.want, got.Medium, got.Why)
			require.Contains(t, got.Why, c.why)
			require.Regexp(t, `^The data lies on .*\.$`, got.Why)
			if c.why == "whose disks the kernel does not show" {
				require.Empty(t, got.Disks)
			} else {
				require.Equal(t, []string{filepath.Base(c.at)}, got.Disks)
			}
		})
	}
}

// machine is a kernel with a pair of turning disks, a fast one, and a virtual one, all partitioned.
func machine(t *testing.T) (k *kernel, turns, turns2, fast, virtual string) {
	t.Helper()
	k = newKernel(t)
	turns = k.partition("8:1", k.disk("8:0", sata, "1"), "sda1")
	turns2 = k.partition("8:17", k.disk("8:16", sas, "1"), "sdb1")
	fast = k.partition("259:1", k.disk("259:0", nvme, "0"), "nvme0n1p1")
	virtual = k.partition("254:1", k.disk("254:0", vda, "1"), "vda1")
	return k, turns, turns2, fast, virtual
}

func TestStacks(t *testing.T) {
	k, turns, turns2, fast, virtual := machine(t)
	crypt := k.stack("253:0", "dm-0", "0", fast)
	k.stack("253:1", "dm-1", "1", turns, fast)
	k.stack("253:2", "dm-2", "1", virtual, fast)
	mirror := k.stack("9:0", "md0", "1", turns2, turns)
	k.stack("253:3", "dm-3", "1", k.partition("259:5", mirror, "md0p1"))
	k.stack("253:4", "dm-4", "0", crypt)
	k.stack("253:5", "dm-5", "1", virtual, turns)
	cached := k.stack("252:0", "bcache0", "0")
	k.write(turns+"/bcache/state", "clean\n")
	k.link(cached+"/bcache", turns+"/bcache")
	k.link("devices/virtual/block/dm-6/slaves/gone", "devices/gone")
	k.disk("253:6", "virtual/block/dm-6", "1")
	for _, c := range []struct {
		dev     uint64
		want    Medium
		disks   string
		why     string
		rotates bool
	}{
		{number(8, 1), HDD, "sda", "on sda, which turns", true},
		{number(259, 1), SSD, "nvme0n1", "on nvme0n1, which does not turn", false},
		{number(254, 1), Unknown, "vda", "on vda, a virtio disk", true},
		{number(253, 0), SSD, "nvme0n1", "on dm-0 on nvme0n1, which", false},
		{number(253, 1), HDD, "nvme0n1 sda", "on dm-1 on sda, which turns", true},
		{number(253, 2), Unknown, "nvme0n1 vda", "on dm-2 on vda, a virtio disk", true},
		{number(9, 0), HDD, "sda sdb", "on md0 on sda, which turns", true},
		{number(253, 3), HDD, "sda sdb", "on dm-3 on md0 on sda, which turns", true},
		{number(253, 4), SSD, "nvme0n1", "on dm-4 on dm-0 on nvme0n1", false},
		{number(253, 5), HDD, "sda vda", "on dm-5 on sda", true},
		{number(252, 0), HDD, "sda", "on bcache0 on sda, which turns", false},
		{number(253, 6), Unknown, "", "on dm-6 on gone, which the kernel does not show", true},
		{number(77, 7), Unknown, "", "device 77:7, which the kernel does not show", false},
	} {
		got := k.numbered(c.dev)
		require.Equal(t, c.rotates, got.rotates, "%x", c.dev)
		info := got.complete("xfs")
		require.Equal(t, c.want, info.Medium, info.Why)
		require.Equal(t, c.disks, strings.Join(info.Disks, " "), info.Why)
		require.Contains(t, info.Why, c.why)
		require.Equal(t, "xfs", info.FS)
	}
}

func TestCirclesEnd(t *testing.T) {
	k := newKernel(t)
	at := k.stack("253:0", "dm-0", "0")
	k.link(at+"/slaves/dm-0", at)
	got := k.numbered(number(253, 0))
	require.Equal(t, Unknown, got.Medium)
	require.Contains(t, got.is, "more layers than anybody stacks")
}

// ourFS is a directory, and the numbers of the device its file system is on; skipped where it is on none.
func ourFS(t *testing.T) (dir, number string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	o, err := lookAt(dir)
	require.NoError(t, err)
	if o.stat.Dev>>32 == 0 {
		t.Skipf("the temporary directory is on %s, which has no device", o.fs.Type)
	}
	return dir, numberText(o.stat.Dev)
}

func TestLoops(t *testing.T) {
	dir, home := ourFS(t)
	file := filepath.Join(dir, "image of mine")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	for name, c := range map[string]struct {
		at, rotational, file, loop string // the disk below, its flag, the file, the flag of the loop device
		want                       Medium
		why                        string
	}{
		"as a turning disk":        {sata, "1", file, "1", HDD, "on loop3 on sda, which turns"},
		"as a fast disk":           {nvme, "0", file, "0", SSD, "on loop3 on nvme0n1, which does not turn"},
		"as a virtual disk":        {vda, "1", file, "1", Unknown, "on loop3 on vda, a virtio disk"},
		"said not to turn":         {vda, "1", file, "0", SSD, "loop3, set to not rotational by hand"},
		"said to turn":             {nvme, "0", file, "1", HDD, "loop3, set to rotational by hand"},
		"no flag":                  {nvme, "0", file, "", SSD, "on loop3 on nvme0n1"},
		"removed file":             {sata, "1", filepath.Join(dir, "gone") + " (deleted)", "1", HDD, "on loop3 on sda"},
		"a name that only says so": {sata, "1", filepath.Join(dir, "gone"), "1", Unknown, "cannot be seen from here"},
		"of another namespace":     {sata, "1", "/nowhere/at/all (deleted)", "1", Unknown, "cannot be seen from here"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			k.disk(home, c.at, c.rotational)
			at := k.disk("7:3", "virtual/block/loop3", c.loop)
			k.write(at+"/loop/backing_file", c.file+"\n")
			got := k.numbered(number(7, 3)).complete("ext4")
			require.Equal(t, c.want, got.Medium, got.Why)
			require.Contains(t, got.Why, c.why)
			if !strings.Contains(c.why, "cannot") {
				require.Equal(t, []string{filepath.Base(c.at)}, got.Disks)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	dir, home := ourFS(t)
	k := newKernel(t)
	k.disk(home, sata, "1")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.NoError(t, os.Symlink(dir, filepath.Join(dir, "link")))
	for _, name := range []string{"", "file", "link", "link/file", "not/there/yet", "link/not/there"} {
		got, err := newFinder(k.view).Of(filepath.Join(dir, name))
		require.NoError(t, err, name)
		require.Equal(t, HDD, got.Medium, name)
		require.Equal(t, []string{"sda"}, got.Disks, name)
		require.NotEmpty(t, got.FS)
	}
	_, err := NewFinder().Of(filepath.Join(dir, "file", "below a file"))
	require.ErrorContains(t, err, "find device of")
}

func TestBtrfsDevices(t *testing.T) {
	k, turns, _, fast, _ := machine(t)
	const id = "0b1c2d3e-0000-4000-8000-123456789abc"
	k.link("fs/btrfs/"+id+"/devices/nvme0n1p1", fast)
	got := k.btrfsDevices(id).complete("btrfs")
	require.Equal(t, SSD, got.Medium)
	k.link("fs/btrfs/"+id+"/devices/sda1", turns)
	got = k.btrfsDevices(id).complete("btrfs")
	require.Equal(t, HDD, got.Medium)
	require.Equal(t, []string{"nvme0n1", "sda"}, got.Disks)
	got = k.btrfsDevices("another").complete("btrfs")
	require.Equal(t, Unknown, got.Medium)
	require.Contains(t, got.Why, "whose devices the kernel does not show")
}

func TestOverlay(t *testing.T) {
	dir, home := ourFS(t)
	upper := filepath.Join(dir, "with blank")
	require.NoError(t, os.Mkdir(upper, 0o700))
	k := newKernel(t)
	k.disk(home, sata, "1")
	escaped := strings.ReplaceAll(upper, " ", `\040`)
	k.write("mountinfo", `22 1 0:9 / / rw - overlay overlay rw,lowerdir=/x:/y,upperdir=`+escaped+`,workdir=/w
23 1 0:10 / /ro rw shared:1 master:2 - overlay overlay ro,lowerdir=`+escaped+`:/x
24 1 0:11 / /hidden rw - overlay overlay rw,upperdir=/nowhere/at/all
25 1 0:12 / /bare rw - overlay overlay rw
26 1 0:13 / /new rw - overlay overlay ro,lowerdir+=`+escaped+`,lowerdir+=/x
27 1 0:14 / /other rw - ext4 /dev/sda rw,upperdir=`+escaped+`
broken
28
`)
	for _, c := range []struct {
		id, dev uint64
		want    Medium
		why     string
	}{
		{22, 0, HDD, "on overlay on sda, which turns"}, {23, 0, HDD, "sda"}, {26, 0, HDD, "sda"}, {0, 10, HDD, "sda"},
		{24, 0, Unknown, "/nowhere/at/all cannot be seen"}, {25, 0, Unknown, "unknown layers"},
		{27, 0, Unknown, "unknown layers"},
		{99, 9, Unknown, "unknown layers"}, {28, 0, Unknown, "unknown layers"},
	} {
		o := object{fs: localfs.FSInfo{Type: "overlay"}, stat: localfs.Stat{MountID: c.id, Dev: c.dev}}
		s := k.medium(&o)
		got := s.complete("overlay")
		require.Equal(t, c.want, got.Medium, "%+v %s", c, got.Why)
		require.Contains(t, got.Why, c.why)
		require.False(t, s.rotates)
	}
	require.NoError(t, os.Remove(k.mounts))
	require.Empty(t, k.layer(22, 9))
}

func TestFileSystems(t *testing.T) {
	k := newKernel(t)
	for _, c := range []struct {
		fs      localfs.FSInfo
		foreign bool
		want    Medium
		why     string
	}{
		{localfs.FSInfo{Type: "tmpfs"}, false, Memory, "tmpfs, which keeps files in memory"},
		{localfs.FSInfo{Type: "nfs4", Remote: true}, false, Remote, "nfs4, a file system of another machine"},
		{localfs.FSInfo{Type: "fuse.sshfs", Remote: true}, false, Remote, "fuse.sshfs"},
		{localfs.FSInfo{Type: "proc", Pseudo: true}, false, Unknown, "window"},
		{localfs.FSInfo{Type: "zfs"}, false, Unknown, "zfs, which shows no device"},
		{localfs.FSInfo{Type: "fuse.mergerfs"}, false, Unknown, "fuse.mergerfs, which shows no device"},
		{localfs.FSInfo{Type: "tmpfs"}, true, Unknown, "mounted over its place"},
	} {
		got := k.medium(&object{fs: c.fs, foreign: c.foreign}).complete(c.fs.Type)
		require.Equal(t, c.want, got.Medium, got.Why)
		require.Contains(t, got.Why, c.why)
		require.Empty(t, got.Disks)
	}
}
