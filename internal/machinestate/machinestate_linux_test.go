package machinestate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// patience is how long a test waits for what happens at once on a machine that is not busy.
const patience = time.Minute

func TestMain(m *testing.M) { os.Exit(testkit.RunWithOwnMounts(m)) }

// supplies is a fake folder of power supplies: files by supply.
type supplies map[string]map[string]string

// hostWith returns a host with power supplies and without a bus.
func hostWith(t *testing.T, all supplies) *Host {
	t.Helper()
	h := New()
	h.supplies, h.disks, h.bus = t.TempDir(), t.TempDir(), "unix:path=/nonexistent/bus"
	for name, files := range all {
		dir := filepath.Join(h.supplies, name)
		require.NoError(t, os.Mkdir(dir, 0o755))
		for file, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644))
		}
	}
	return h
}

func battery(status, capacity string) map[string]string {
	return map[string]string{"type": "Battery", "present": "1", "status": status, "capacity": capacity}
}

func energy(status, now, full string) map[string]string {
	return map[string]string{"type": "Battery", "status": status, "energy_now": now, "energy_full": full, "capacity": "1"}
}

func mains(online string) map[string]string {
	return map[string]string{"type": "Mains", "online": online}
}

func TestPowerOfFakeSupplies(t *testing.T) {
	mouse := map[string]string{"type": "Battery", "scope": "Device", "status": "Discharging", "capacity": "7"}
	empty := map[string]string{"type": "Battery", "present": "0", "status": "Discharging", "capacity": "3"}
	for name, c := range map[string]struct {
		all  supplies
		want Power
	}{
		"a server":     {nil, Power{Charge: -1}},
		"mains only":   {supplies{"AC": mains("1")}, Power{Charge: -1}},
		"plugged in":   {supplies{"AC": mains("1"), "BAT0": battery("Charging", "40")}, Power{Charge: 40}},
		"full":         {supplies{"AC": mains("1"), "BAT0": battery("Full", "100")}, Power{Charge: 100}},
		"unplugged":    {supplies{"AC": mains("0"), "BAT0": battery("Discharging", "40")}, Power{true, 40, false}},
		"not charging": {supplies{"AC": mains("0"), "BAT0": battery("Not charging", "80")}, Power{Charge: 80}},
		"a charger that is weak": {supplies{"usb": {"type": "USB", "online": "1"}, "BAT0": battery("Discharging", "40")},
			Power{Charge: 40}},
		"a mouse":               {supplies{"hid": mouse, "AC": mains("1")}, Power{Charge: -1}},
		"a mouse and a battery": {supplies{"hid": mouse, "BAT0": battery("Discharging", "60")}, Power{true, 60, false}},
		"a bay without battery": {supplies{"BAT1": empty, "BAT0": battery("Full", "100")}, Power{Charge: 100}},
		"two batteries": {
			supplies{"BAT0": energy("Unknown", "0", "24000000"), "BAT1": energy("Discharging", "72000000", "72000000")},
			Power{true, 75, false},
		},
		"two batteries, one without energy": {
			supplies{"BAT0": energy("Discharging", "10", "20"), "BAT1": battery("Unknown", "90")}, Power{true, 70, false},
		},
		"a UPS on mains": {supplies{"ups": {"type": "UPS", "status": "Charging", "capacity": "90"}}, Power{Charge: -1}},
		"a UPS on battery": {
			supplies{"ups": {"type": "UPS", "status": "Discharging", "capacity": "55"}, "AC": mains("1"),
				"BAT0": battery("Full", "100")},
			Power{true, 55, false},
		},
		"nonsense": {
			supplies{"BAT0": {"type": "Battery", "status": "Discharging", "capacity": "many", "energy_full": "0"}, "x": {}},
			Power{true, -1, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, hostWith(t, c.all).Power(t.Context()))
		})
	}
	h := hostWith(t, nil)
	h.supplies = "/nonexistent"
	require.Equal(t, Power{Charge: -1}, h.Power(t.Context()))
}

func TestADiskIsFoundByItsName(t *testing.T) {
	h := hostWith(t, nil)
	devices := t.TempDir()
	link := func(by, name, device string) {
		folder := filepath.Join(h.disks, "by-"+by)
		require.NoError(t, os.MkdirAll(folder, 0o755))
		require.NoError(t, os.Symlink(filepath.Join(devices, device), filepath.Join(folder, name)))
	}
	for device, label := range map[string]string{"sdb1": `Backup\x20Disk`, "dm-0": `a\x2fb`, "sdc1": `loose`,
		"sdd1": `Zürich`} {
		require.NoError(t, os.WriteFile(filepath.Join(devices, device), nil, 0o600))
		link("label", label, device)
	}
	link("label", "gone", "gone")
	link("uuid", "5EFA-01C7", "sdb1")
	link("uuid", "f2a4a1b2-0000-4000-8000-00000000c0de", "sdd1")
	require.NoError(t, os.Symlink("dm-0", filepath.Join(devices, "mapper")))
	at := func(path, device string, whole bool) localfs.Mount {
		return localfs.Mount{Path: path, Source: filepath.Join(devices, device), Local: whole}
	}
	table := []localfs.Mount{
		{Path: "/proc", Source: "proc"}, at("/bind", "sdb1", false), at("/media/me/Backup Disk", "sdb1", true),
		at("/mnt/a", "mapper", true), at("/srv/zh", "sdd1", false),
		{Path: "/asked", Source: "/dev/vdz", Local: true}, {Path: "/mnt/nas", Source: "nas:/asked"},
		{Path: "/mnt/dead", Source: "/dev/shm/repository", Type: "fuse.tidemark"},
	}
	h.mounts = func() ([]localfs.Mount, error) { return table, nil }
	var asked []string
	h.named = func(path, by, name string) bool {
		asked = append(asked, path)
		return by+name == "LABELinside" || by+name == "LABELloose"
	}
	for disk, want := range map[[2]string]string{
		{"LABEL", "Backup Disk"}: "/media/me/Backup Disk", {"LABEL", "a/b"}: "/mnt/a", {"LABEL", "Zürich"}: "/srv/zh",
		{"LABEL", "loose"}: "", {"LABEL", "gone"}: "", {"LABEL", ""}: "", {"LABEL", `Backup\x20Disk`}: "",
		{"LABEL", "other"}: "", {"LABEL", "backup disk"}: "", {"UUID", "5efa-01c7"}: "/media/me/Backup Disk",
		{"UUID", "F2A4A1B2-0000-4000-8000-00000000C0DE"}: "/srv/zh", {"UUID", "loose"}: "",
		{"LABEL", "inside"}: "/asked",
	} {
		path, ok := h.Mounted(disk[0], disk[1])
		require.Equal(t, want, path, disk)
		require.Equal(t, want != "", ok, disk)
	}
	require.NotContains(t, asked, "/mnt/nas", "a server was asked for the label of a disk")
	require.NotContains(t, asked, "/mnt/dead", "a mount whose program may be dead was asked")
	h.mounts = func() ([]localfs.Mount, error) { return nil, os.ErrPermission }
	_, ok := h.Mounted("LABEL", "a/b")
	require.False(t, ok)
	require.Equal(t, "Backup Disk", UnescapeLabel(`Backup\x20Disk`))
	require.Equal(t, `a\x2`, UnescapeLabel(`a\x2`))
	require.Equal(t, `a\xzz`, UnescapeLabel(`a\xzz`))
}

// Without udev, the kernel answers for the mounted file systems.
func TestFileSystemsAreAsked(t *testing.T) {
	testkit.Slow(t)
	const uuid = "f2a4a1b2-0000-4000-8000-00000000c0de"
	at := testkit.Disk(t, 64<<20, "mkfs.ext4", "-q", "-F", "-L", "Blue Disk", "-U", uuid)
	h := hostWith(t, nil)
	path, ok := h.Mounted("LABEL", "Blue Disk")
	require.True(t, ok)
	require.Equal(t, at, path)
	_, ok = h.Mounted("LABEL", "Blue")
	require.False(t, ok)
	if path, ok = h.Mounted("UUID", uuid); !ok {
		t.Log("this kernel reports no UUID")
	} else {
		require.Equal(t, at, path)
	}
}

// receive waits for a value of a channel.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func TestAMountIsAChange(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	at := t.TempDir()
	testkit.NoLeaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := hostWith(t, nil).Changes(ctx)
	mounted := 0
	t.Cleanup(func() {
		for range mounted {
			_ = unix.Unmount(at, unix.MNT_DETACH)
		}
	})
	// A change before the table is watched is not reported, so the first one is repeated.
	for done := false; !done; {
		err := unix.Mount("tidemark", at, "tmpfs", 0, "")
		if errors.Is(err, unix.EPERM) {
			t.Skip("needs the right to mount")
		}
		require.NoError(t, err)
		mounted++
		require.Less(t, mounted, 1000)
		select {
		case <-changes:
			done = true
		case <-time.After(patience / 1000):
		}
	}
	for ; mounted > 0; mounted-- {
		for len(changes) > 0 { // of an earlier one
			<-changes
		}
		require.NoError(t, unix.Unmount(at, 0))
		receive(t, changes)
	}
}

func TestChangesAreCoalesced(t *testing.T) {
	changes := make(chan struct{}, 1)
	for range 3 {
		signal(changes)
	}
	receive(t, changes)
	require.Empty(t, changes)
}
