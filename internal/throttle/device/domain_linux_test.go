package device

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// numbers gives the disks of a machine their numbers of this boot.
func numbers(k *kernel) {
	for at, seq := range map[string]string{sata: "3", sas: "4", nvme: "7", vda: "1"} {
		k.write("devices/"+at+"/diskseq", seq+"\n")
	}
}

func TestDomains(t *testing.T) {
	k, turns, turns2, fast, virtual := machine(t)
	numbers(k)
	crypt := k.stack("253:0", "dm-0", "0", fast)
	mirror := k.stack("9:0", "md0", "1", turns2, turns)
	k.partition("259:5", mirror, "md0p1")
	k.stack("253:5", "dm-5", "1", virtual, turns)
	k.stack("253:6", "dm-6", "0", crypt)
	for _, c := range []struct {
		dev       uint64
		key, name string
		leaves    []string
	}{
		{number(8, 0), "sda@3", "sda", []string{sata}},
		{number(8, 1), "sda@3", "sda", []string{sata}},
		{number(259, 1), "nvme0n1@7", "nvme0n1", []string{nvme}},
		{number(253, 6), "nvme0n1@7", "nvme0n1", []string{nvme}},
		{number(9, 0), "sda@3", "sda+sdb", []string{sata, sas}},
		{number(259, 5), "sda@3", "sda+sdb", []string{sata, sas}},
		{number(253, 5), "sda@3", "sda+vda", []string{sata, vda}},
		{number(77, 7), "", "xfs", nil},
	} {
		info := k.numbered(c.dev).complete("xfs")
		require.Equal(t, c.key, info.Key, info.Why)
		require.Equal(t, c.name, info.Name())
		require.False(t, info.Indirect)
		require.Len(t, info.Leaves, len(c.leaves))
		for i, at := range c.leaves {
			require.Equal(t, filepath.Join(k.sys, "devices", at), info.Leaves[i].Sysfs)
			require.Equal(t, filepath.Base(at), info.Leaves[i].Name)
			require.NotZero(t, info.Leaves[i].Seq)
		}
	}
}

func TestOldKernelsHaveNoSequence(t *testing.T) {
	k, _, _, _, _ := machine(t)
	info := k.numbered(number(8, 1)).complete("ext4")
	require.Equal(t, "sda", info.Key)
	require.Zero(t, info.Leaves[0].Seq)
}

func TestOverlaps(t *testing.T) {
	k, turns, turns2, _, _ := machine(t)
	numbers(k)
	k.stack("9:0", "md0", "1", turns2, turns)
	of := func(dev uint64) Info { return k.numbered(dev).complete("ext4") }
	sda, sdb, md, ssd := of(number(8, 1)), of(number(8, 16)), of(number(9, 0)), of(number(259, 1))
	require.NotEqual(t, sdb.Key, md.Key)
	for _, pair := range [][2]Info{{sda, sda}, {sda, md}, {md, sdb}, {sda, of(number(8, 0))}} {
		require.True(t, Overlaps(pair[0], pair[1]))
		require.True(t, Overlaps(pair[1], pair[0]))
	}
	for _, pair := range [][2]Info{{sda, sdb}, {md, ssd}, {Info{}, Info{}}, {Info{}, sda}} {
		require.False(t, Overlaps(pair[0], pair[1]))
		require.False(t, Overlaps(pair[1], pair[0]))
	}
	k.write("devices/"+sata+"/diskseq", "30\n")
	require.False(t, Overlaps(sda, of(number(8, 1))), "another disk got the name")
	nas, share := Info{Key: "remote:nfs:nas"}, Info{Key: "remote:nfs:nas", FS: "nfs4"}
	require.True(t, Overlaps(nas, share))
}

func TestWeakEvidence(t *testing.T) {
	k, turns, turns2, fast, virtual := machine(t)
	k.write(turns2+"/../device/vpd_pgb1", page(7200))
	k.disk("43:0", "virtual/block/nbd0", "0")
	k.disk("8:32", usb, "")
	k.stack("253:0", "dm-0", "1", turns, turns2)   // one of them turns for sure
	k.stack("253:1", "dm-1", "1", turns, fast)     // the slow one might not be
	k.stack("253:2", "dm-2", "1", virtual, turns2) // whatever the other is
	k.stack("253:3", "dm-3", "1", virtual, fast)   // it may all be fast
	k.stack("253:4", "dm-4", "0", fast)            // all known
	k.stack("253:5", "dm-5", "1", virtual, turns)  // two that may be anything
	k.disk("253:7", "virtual/block/dm-7", "1")     // no disk to measure
	k.disk("252:0", "virtual/block/zram0", "0")    // no question
	for dev, want := range map[uint64]bool{
		number(8, 1): true, number(8, 17): false, number(259, 1): false, number(254, 1): true, number(43, 0): true,
		number(8, 32): true, number(253, 0): false, number(253, 1): true, number(253, 2): false, number(253, 3): true,
		number(253, 4): false, number(253, 5): true, number(253, 7): false, number(252, 0): false, number(66, 6): false,
	} {
		info := k.numbered(dev).complete("ext4")
		require.Equal(t, want, info.Weak, "%s %s", numberText(dev), info.Why)
		_, decided, _ := NewClassifier(info).Medium()
		require.Equal(t, !want && info.Medium != Unknown, decided, info.Why)
	}
}

// mountedAt is a directory of a file system with a made-up device number, at the mount with the given ID.
func mountedAt(id uint64, fs localfs.FSInfo) *object {
	return &object{fs: fs, stat: localfs.Stat{MountID: id, Dev: number(0, 40+id)}}
}

func TestServersInTheMountTable(t *testing.T) {
	k := newKernel(t)
	k.write("mountinfo", `1 0 0:41 / /a rw - cifs //NAS/my\040share rw,addr=10.0.0.1
2 0 0:42 / /b rw - smb3 //me@nas/other rw
3 0 0:43 / /c rw - nfs4 nas:/export rw,addr=10.0.0.1
4 0 0:44 / /d rw - fuse.sshfs me@box:/home rw,user_id=0
5 0 0:45 / /e rw - nfs  rw
`)
	info := map[uint64]Info{}
	for id, c := range map[uint64]struct{ kind, key, server, source, name string }{
		1: {"cifs", "remote:cifs:nas", "nas", "//NAS/my share", "//nas"},
		2: {"smb3", "remote:cifs:nas", "nas", "//nas/other", "//nas"},
		3: {"nfs4", "remote:nfs:nas", "nas", "nas:/export", "//nas"},
		4: {"fuse.sshfs", "remote:fuse.sshfs:box", "box", "me@box:/home", "//box"},
		5: {"nfs", "remote:nfs:0:45", "", "", "nfs"},
		6: {"nfs", "remote:nfs:0:46", "", "", "nfs"}, // not in the table
	} {
		got := k.inform(mountedAt(id, localfs.FSInfo{Type: c.kind, Remote: true}))
		info[id] = got
		require.Equal(t, Remote, got.Medium)
		require.Equal(t, c.key, got.Key)
		require.Equal(t, c.server, got.Server)
		require.Equal(t, c.source, got.Source)
		require.Equal(t, c.name, got.Name())
		require.Empty(t, got.Leaves)
		require.False(t, got.Weak)
	}
	require.True(t, Overlaps(info[1], info[2]), "two shares of one server")
	require.False(t, Overlaps(info[1], info[4]))
}

func TestFileSystemsWithoutADisk(t *testing.T) {
	k := newKernel(t)
	k.write("mountinfo", `1 0 0:41 / /a rw - zfs tank/home rw
2 0 0:42 / /b rw - zfs tank rw
3 0 0:43 / /c rw - fuse.mergerfs /dev/null rw
4 0 0:44 / /d rw - bcachefs /dev/null:/dev/zero rw
5 0 0:45 / /e rw - bcachefs /dev/none/such rw
6 0 0:46 / /e rw - vboxsf data rw
`)
	for id, c := range map[uint64]struct{ kind, key string }{
		1: {"zfs", "fs:zfs:tank"}, 2: {"zfs", "fs:zfs:tank"}, 3: {"fuse.mergerfs", "fs:fuse.mergerfs:0:43"},
		4: {"bcachefs", "fs:bcachefs:0:44"}, 5: {"bcachefs", "fs:bcachefs:0:45"}, 6: {"vboxsf", "fs:vboxsf:0:46"},
		7: {"zfs", "fs:zfs:0:47"}, 8: {"btrfs", "fs:btrfs:0:48"},
	} {
		got := k.inform(mountedAt(id, localfs.FSInfo{Type: c.kind}))
		require.Equal(t, Unknown, got.Medium)
		require.False(t, got.Weak, "nothing to measure")
		require.Equal(t, c.key, got.Key)
		require.Equal(t, c.kind, got.Name())
		require.Equal(t, id == 3, got.Indirect)
	}
	memory := k.inform(mountedAt(9, localfs.FSInfo{Type: "tmpfs"}))
	require.Empty(t, memory.Key)
	require.Empty(t, k.inform(mountedAt(9, localfs.FSInfo{Type: "proc", Pseudo: true})).Key)
	said := Override(memory, SSD)
	require.Equal(t, "fs:tmpfs:0:49", said.Key)
}

func TestFuseOnADisk(t *testing.T) {
	k, _, _, _, _ := machine(t)
	o := &object{fs: localfs.FSInfo{Type: "fuseblk"}, stat: localfs.Stat{MountID: 5, Dev: number(254, 1)}}
	info := k.inform(o)
	require.Equal(t, []string{"vda"}, info.Disks)
	require.True(t, info.Indirect, "the program reads the disk, not we")
	require.False(t, info.Weak, "and keeps in memory what it likes")
	o.stat.Dev = number(259, 1)
	require.Equal(t, SSD, k.inform(o).Medium)
}

func TestFileMountedOverItsPlace(t *testing.T) {
	k, _, _, _, _ := machine(t)
	o := &object{fs: localfs.FSInfo{Type: "tmpfs"}, stat: localfs.Stat{MountID: 5, Dev: number(8, 1)}, foreign: true}
	require.Equal(t, []string{"sda"}, k.inform(o).Disks)
	o.stat.Dev = number(0, 33)
	info := k.inform(o)
	require.Equal(t, Unknown, info.Medium)
	require.Equal(t, "fs:tmpfs:0:33", info.Key)
}

// The kernel looks behind a file for its loop device only on file systems with one device: with btrfs the flag is
// always 0, and so means nothing.
func TestLoopsInBtrfs(t *testing.T) {
	k, turns, _, fast, _ := machine(t)
	k.link("fs/btrfs/id/devices/sda1", turns)
	one := k.btrfsDevices("id")
	require.False(t, one.rotates)
	require.True(t, one.Weak)
	k.link("fs/btrfs/id/devices/nvme0n1p1", fast)
	two := k.btrfsDevices("id").complete("btrfs")
	require.Len(t, two.Leaves, 2)
}

func TestLoopsAreNotThemselves(t *testing.T) {
	dir, home := ourFS(t)
	file := filepath.Join(dir, "image")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		at, rotational, flag, dio string
		weak                      bool
	}{
		"buffered":            {vda, "1", "1", "0", false},
		"direct":              {vda, "1", "1", "1", true},
		"somebody said":       {vda, "1", "0", "1", false},
		"direct on fast disk": {nvme, "0", "0", "1", false},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			k.disk(home, c.at, c.rotational)
			k.write("devices/"+c.at+"/diskseq", "9\n")
			at := k.disk("7:3", "virtual/block/loop3", c.flag)
			k.write(at+"/loop/backing_file", file+"\n")
			k.write(at+"/loop/dio", c.dio+"\n")
			info := k.numbered(number(7, 3)).complete("ext4")
			require.Equal(t, filepath.Base(c.at)+"@9", info.Key)
			require.True(t, info.Indirect)
			require.Equal(t, c.weak, info.Weak, info.Why)
		})
	}
	k := newKernel(t)
	at := k.disk("7:3", "virtual/block/loop3", "0")
	k.write(at+"/loop/backing_file", "/of/another/namespace\n")
	info := k.numbered(number(7, 3)).complete("ext4")
	require.Equal(t, "loop3", info.Key)
	require.False(t, info.Indirect, "its own counters are those of the reader")
	require.Equal(t, filepath.Join(k.sys, at), info.Leaves[0].Sysfs)
}
