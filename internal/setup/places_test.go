package setup

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// machine is a System in memory.
type machine struct {
	mounts  []localfs.Mount
	devices map[string]device.Info // by mount point
	free    map[string]uint64
	names   map[string][]string // folders with their entries
	locked  []string            // folders that this user cannot write to
	silent  []string            // mount points that do not answer
	looked  []string
}

func (m *machine) Mounts() ([]localfs.Mount, error) { return m.mounts, nil }

func (m *machine) Look(path string) (Volume, error) {
	m.looked = append(m.looked, path)
	best := ""
	for point := range m.devices {
		if within(path, point) && len(point) > len(best) {
			best = point
		}
	}
	for _, point := range m.silent {
		if within(path, point) {
			return Volume{}, errors.New("the file system does not answer; is its server running?")
		}
	}
	v := Volume{Device: m.devices[best], Free: m.free[best], Total: 2 * m.free[best], Writable: true, Folder: true}
	for _, folder := range m.locked {
		v.Writable = v.Writable && !within(path, folder)
	}
	_, known := m.names[path]
	v.Missing = !known && path != best
	return v, nil
}

func (m *machine) Label(source string) string {
	if source == "/dev/sdb1" {
		return "Backup Disk"
	}
	return ""
}

func (m *machine) Names(path string) ([]string, error) {
	names, ok := m.names[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return names, nil
}

func disk(name string, medium device.Medium) device.Info {
	return device.Info{Medium: medium, Key: name + "@1", Disks: []string{name},
		Leaves: []device.Leaf{{Name: name, Seq: 1}}}
}

// office is a machine with a system disk, a USB disk, a second partition, a share and what is mounted besides.
func office() *machine {
	return &machine{
		mounts: []localfs.Mount{
			{Path: "/", Source: "/dev/sda2", Type: "ext4"},
			{Path: "/proc", Source: "proc", Type: "proc"},
			{Path: "/boot/efi", Source: "/dev/sda1", Type: "vfat"},
			{Path: "/tmp", Source: "tmpfs", Type: "tmpfs"},
			{Path: "/data", Source: "/dev/sda3", Type: "xfs"},
			{Path: "/run/media/ann/Backup Disk", Source: "/dev/sdb1", Type: "ext4"},
			{Path: "/srv/bind of the disk", Source: "/dev/sdb1", Type: "ext4"},
			{Path: "/mnt/nas", Source: "//nas/backup", Type: "cifs"},
			{Path: "/mnt/cd", Source: "/dev/sr0", Type: "iso9660", ReadOnly: true},
			{Path: "/mnt/old", Source: "/dev/sdc1", Type: "ext4", ReadOnly: true},
			{Path: "/mnt/root", Source: "/dev/sdd1", Type: "ext4"},
			{Path: "/mnt/auto", Source: "systemd-1", Type: "autofs"},
			{Path: "/snap/core/1", Source: "/dev/loop1", Type: "squashfs", ReadOnly: true},
		},
		devices: map[string]device.Info{
			"/": disk("sda", device.SSD), "/data": disk("sda", device.SSD),
			"/run/media/ann/Backup Disk": disk("sdb", device.HDD), "/srv/bind of the disk": disk("sdb", device.HDD),
			"/mnt/nas":  {Medium: device.Remote, Key: "remote:cifs:nas", Server: "nas", Source: "//nas/backup"},
			"/mnt/root": disk("sdd", device.HDD), "/mnt/old": disk("sdc", device.HDD),
		},
		free:   map[string]uint64{"/data": 9 << 40, "/mnt/nas": 3 << 40, "/srv/bind of the disk": 1 << 40},
		names:  map[string][]string{"/home/ann": {"docs"}, "/mnt/nas": {"films"}},
		locked: []string{"/mnt/root"},
	}
}

func TestMountsOfSources(t *testing.T) {
	m := office()
	require.Empty(t, MountsOf(m, []string{"/home/ann", "/etc", "/tmp/x", "/boot/efi"}, "/home/ann"))
	require.Equal(t, []string{"/mnt/nas", "/data"},
		MountsOf(m, []string{"/mnt/nas", "/home/ann", "/data/photos", "/data/films"}, "/home/ann"))
	require.Empty(t, MountsOf(m, []string{"/data/photos"}, "/data/home"), "the home folder is there, or nothing is")
}

func TestPlacesAreOtherDisksFirst(t *testing.T) {
	m := office()
	places, err := Places(m, []string{"/home/ann"})
	require.NoError(t, err)
	require.Equal(t, []Place{
		{Repository: "/mnt/nas/tidemark", Name: "//nas/backup (share, cifs)", Free: 3 << 40,
			Total: 6 << 40},
		{Repository: "/srv/bind of the disk/tidemark",
			Name: `sdb1 "Backup Disk" (hdd, ext4)`, Free: 1 << 40,
			Total: 2 << 40},
		{Repository: "/data/tidemark", Name: "sda3 (ssd, xfs)", Free: 9 << 40, Total: 18 << 40,
			SameDisk: "/home/ann"},
	}, places)
	require.Equal(t, `sdb1 "Backup Disk" (hdd, ext4), 1.00 TiB free of 2.00 TiB`, places[1].Text())
	for _, path := range m.looked {
		for _, never := range []string{"/mnt/auto", "/proc", "/boot", "/snap", "/mnt/old", "/mnt/cd"} {
			require.False(t, within(path, never), "%s is not examined: it may block, or belongs to the system", path)
		}
	}
}

// A repository that exists comes first among disks of the same rank, and is used as it is.
func TestPlacesFindRepository(t *testing.T) {
	for _, at := range []string{"/srv/bind of the disk", "/srv/bind of the disk/tidemark"} {
		m := office()
		m.names[at] = []string{"config", "keys", "packs", "snapshots"}
		places, err := Places(m, []string{"/home/ann"})
		require.NoError(t, err)
		require.True(t, places[0].Holds)
		require.Equal(t, at, places[0].Repository)
		require.Contains(t, places[0].Text(), "holds a repository")
	}
}

// A share whose server is down is left out, and the others are found.
func TestPlacesWithoutSilentShare(t *testing.T) {
	m := office()
	m.silent = []string{"/mnt/nas"}
	places, err := Places(m, []string{"/home/ann"})
	require.NoError(t, err)
	require.Len(t, places, 2)
	require.NotContains(t, places[0].Repository, "nas")
}

func TestPlacesAreFew(t *testing.T) {
	m := office()
	for i := range 30 {
		point := "/mnt/many/" + strings.Repeat("x", i+1)
		m.mounts = append(m.mounts, localfs.Mount{Path: point, Source: "/dev/x" + point, Type: "ext4"})
		m.devices[point] = disk("x"+point, device.HDD)
	}
	places, err := Places(m, nil)
	require.NoError(t, err)
	require.Len(t, places, mostPlaces)
}

func TestSameDisk(t *testing.T) {
	m := office()
	require.Equal(t, "/home/ann", SameDisk(m, "/data/new/folder", []string{"/mnt/nas", "/home/ann"}))
	require.Equal(t, "/home/ann", SameDisk(m, "/home/ann/.local/share/tidemark", []string{"/home/ann"}))
	require.Empty(t, SameDisk(m, "/mnt/nas/x", []string{"/home/ann"}))
	require.Empty(t, SameDisk(m, "/run/media/ann/Backup Disk/x", []string{"/home/ann"}))
	m.devices["/tmp"], m.devices["/dev/shm"] = device.Info{Medium: device.Memory}, device.Info{Medium: device.Memory}
	require.Equal(t, "/tmp/x", SameDisk(m, "/dev/shm/r", []string{"/tmp/x"}), "memory is lost together")
}

// What a person types is the repository itself, unless the folder is in use for something else.
func TestRepositoryOfTypedFolder(t *testing.T) {
	m := office()
	m.names["/data/empty"] = nil
	m.names["/data/repo"] = []string{"config", "keys"}
	m.names["/data/disk"] = []string{"lost+found"}
	m.names["/data/disk2"], m.names["/data/disk2/tidemark"] = []string{"tidemark"}, []string{"config", "keys"}
	m.names["/data/other"] = []string{"config"} // as of another program
	for folder, want := range map[string]string{
		"/data/new": "/data/new", "/data/empty": "/data/empty", "/data/repo": "/data/repo",
		"/data/disk":  "/data/disk/tidemark",
		"/data/disk2": "/data/disk2/tidemark", "/data/other": "/data/other/tidemark",
	} {
		require.Equal(t, want, Repository(m, folder))
	}
}

func TestExcludesAreOfTheHomeFolder(t *testing.T) {
	require.Contains(t, Excludes("/home/ann", "linux", []string{"/home/ann"}), "/home/ann/.cache")
	require.Contains(t, Excludes("/home/ann", "linux", []string{"/"}), "/home/ann/.cache",
		"a source above the home folder")
	require.Contains(t, Excludes("/Users/ann", "darwin", []string{"/Users/ann"}), "/Users/ann/Library/Caches")
	require.Empty(t, Excludes("/home/ann", "linux", []string{"/etc", "/home/ann/docs", "/home/annabel"}))
	require.Empty(t, Excludes("", "linux", []string{"/"}))
	require.Contains(t, Excludes("/home/a[n]*", "linux", []string{"/home/a[n]*"}), `/home/a\[n]\*/.cache`)
}

// Host sees this machine: a folder, what does not exist yet, and no error for what is strange.
func TestHost(t *testing.T) {
	h, dir := &Host{}, t.TempDir()
	v, err := h.Look(filepath.Join(dir, "not", "yet"))
	require.NoError(t, err)
	require.True(t, v.Missing && v.Folder && v.Writable)
	require.NotZero(t, v.Total)
	mounts, err := h.Mounts()
	require.NoError(t, err)
	require.NotEmpty(t, mounts)
	require.Empty(t, h.Label("/dev/nosuch"))
	_, err = h.Names(filepath.Join(dir, "nosuch"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Places(h, []string{dir})
	require.NoError(t, err)
}
