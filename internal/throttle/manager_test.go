package throttle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// onDisk returns a folder on something that has a gate.
func onDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if info, err := device.NewFinder().Of(dir); err != nil || info.Key == "" {
		t.Skip("needs a temporary folder on a device")
	}
	return dir
}

func newManager(t *testing.T, cfg Config, places ...string) *Manager {
	t.Helper()
	if cfg.Settings == (iopolicy.Settings{}) {
		cfg.Settings = iopolicy.DefaultSettings()
	}
	m := Open(cfg, places...)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// Gates returns the gates made so far, in that order.
func (m *Manager) Gates() []*iopolicy.Gate {
	var gates []*iopolicy.Gate
	for _, e := range m.all() {
		gates = append(gates, e.gate)
	}
	return gates
}

func runtimeDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "runtime")
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}

func TestOneGateForOneDevice(t *testing.T) {
	dir := onDisk(t)
	m := newManager(t, Config{}, filepath.Join(dir, "source"), filepath.Join(dir, "not/made/yet"))
	require.Len(t, m.Gates(), 1)
	require.Same(t, m.Gates()[0], m.Path(dir).Gate())
	open, err := localfs.OpenDir(dir)
	require.NoError(t, err)
	defer open.Release()
	require.Same(t, m.Gates()[0], m.Gate(open, dir).Gate())
	require.Same(t, m.Gates()[0], m.Gate(nil, dir).Gate())
	require.Len(t, m.Gates(), 1)
}

func TestMemoryHasNoGate(t *testing.T) {
	if info, err := device.NewFinder().Of("/dev/shm"); err != nil || info.Medium != device.Memory {
		t.Skip("needs a file system in memory at /dev/shm")
	}
	m := newManager(t, Config{}, "/dev/shm")
	require.Nil(t, m.Path("/dev/shm"))
	require.Empty(t, m.Gates())
	require.Empty(t, m.Report(iopolicy.Throttle))
}

func TestAServerHasAGateOfItsOwn(t *testing.T) {
	dir, runtime := onDisk(t), runtimeDir(t)
	m := newManager(t, Config{Medium: device.SSD, Folders: Folders{Runtime: runtime}}, dir)
	pass := m.Remote("NAS.lan")
	require.NotNil(t, pass)
	require.Same(t, pass.Gate(), m.Remote("nas.LAN").Gate(), "names of machines are in any case")
	require.NotSame(t, pass.Gate(), m.Remote("other").Gate())
	require.NotSame(t, pass.Gate(), m.Path(dir).Gate())
	require.Len(t, m.Gates(), 3)
	r := m.Report(iopolicy.Throttle)[1]
	require.Equal(t, "//nas.lan", r.Device)
	require.Equal(t, "remote", r.Medium, "whatever --medium says of disks")
	require.Equal(t, iopolicy.HDD, pass.Gate().Stats().Medium)
	require.Contains(t, r.Notes[len(r.Notes)-1], "The job yields only to other runs of tidemark.")

	grant, err := pass.Begin(t.Context(), iopolicy.Op{Kind: iopolicy.Write, Certain: true})
	require.NoError(t, err)
	grant.End(1 << 20)
	require.EqualValues(t, 1<<20, pass.Gate().Stats().Moved.Written)
	require.Zero(t, m.elsewhere(m.all()[0]), "none of it is taken off what the kernel counts at disks")
	require.False(t, m.all()[0].exact, "a server makes no operation at a disk dearer")

	other := newManager(t, Config{Client: iopolicy.NewClient(iopolicy.Throttle), Folders: Folders{Runtime: runtime}})
	other.Remote("nas.lan")
	require.Len(t, m.all()[1].cooperating(), 1, "two runs at one server know of each other")
}

func TestUnreadablePathHasAGate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	m := newManager(t, Config{})
	require.NotNil(t, m.Path(filepath.Join(file, "below a file")))
	r := m.Report(iopolicy.Throttle)
	require.Len(t, r, 1)
	require.Contains(t, r[0].Why, "cannot be found out")
	require.Contains(t, r[0].Notes[0], "The job yields only to other runs of tidemark.")
}

func TestMediumOfTheUser(t *testing.T) {
	dir := onDisk(t)
	require.Equal(t, iopolicy.SSD, newManager(t, Config{Medium: device.SSD}, dir).Gates()[0].Stats().Medium)
	require.Equal(t, iopolicy.HDD, newManager(t, Config{Medium: device.HDD}, dir).Gates()[0].Stats().Medium)
	require.Equal(t, "remote", newManager(t, Config{Medium: device.Remote}, dir).Report(iopolicy.Throttle)[0].Medium)
}

// A setting of the user changes how the device is treated, not where its counters are.
func TestWatchingIgnoresMedium(t *testing.T) {
	for _, c := range []struct{ found, said, want device.Medium }{
		{device.SSD, device.Remote, device.SSD},
		{device.Unknown, device.Remote, device.Unknown},
		{device.Memory, device.Remote, device.Unknown},
		{device.Remote, device.SSD, device.Remote},
		{device.Remote, device.Remote, device.Remote},
		{device.HDD, device.SSD, device.SSD},
		{device.Memory, device.HDD, device.HDD},
		{device.HDD, device.HDD, device.HDD},
	} {
		require.Equal(t, c.want, watched(device.Info{Medium: c.said}, c.found).Medium, "%s said to be %s", c.found, c.said)
	}
	dir := onDisk(t)
	plain, said := newManager(t, Config{}, dir), newManager(t, Config{Medium: device.Remote}, dir)
	mode, _ := plain.all()[0].watch.Mode()
	same, _ := said.all()[0].watch.Mode()
	require.Equal(t, mode, same)
	require.Equal(t, plain.Report(iopolicy.Throttle)[0].Notes, said.Report(iopolicy.Throttle)[0].Notes)
	require.Equal(t, "remote", said.Report(iopolicy.Throttle)[0].Medium)
}

func TestMediumMemoryHasNoGate(t *testing.T) {
	require.Empty(t, newManager(t, Config{Medium: device.Memory}, onDisk(t)).Gates())
}

func TestPolicyIsPublished(t *testing.T) {
	dir, runtime := onDisk(t), runtimeDir(t)
	m := newManager(t, Config{Client: iopolicy.NewClient(iopolicy.Throttle), Folders: Folders{Runtime: runtime}}, dir)
	other := newManager(t, Config{Client: iopolicy.NewClient(iopolicy.Standard), Folders: Folders{Runtime: runtime}}, dir)
	policies := func() (all []iopolicy.Policy) {
		for _, p := range other.all()[0].peers.Processes() {
			all = append(all, p.Policy)
		}
		return all
	}
	require.ElementsMatch(t, []iopolicy.Policy{iopolicy.Throttle, iopolicy.Standard}, policies())
	m.SetPolicy(iopolicy.Utility)
	require.Equal(t, iopolicy.Utility, m.cfg.Client.Policy())
	require.ElementsMatch(t, []iopolicy.Policy{iopolicy.Utility, iopolicy.Standard}, policies())
	require.Equal(t, "utility", m.Report(iopolicy.Utility)[0].Policy)
	require.Len(t, other.all()[0].cooperating(), 1, "oneself is no peer")
}

func TestUnsafeRuntimeDirIsReported(t *testing.T) {
	dir, runtime := onDisk(t), runtimeDir(t)
	require.NoError(t, os.Chmod(runtime, 0o777))
	m := newManager(t, Config{Folders: Folders{Runtime: runtime}}, dir)
	require.Contains(t, m.Report(iopolicy.Throttle)[0].Notes[0], "Other runs of tidemark count as strangers here: ")
}

func TestAnnouncement(t *testing.T) {
	dir, runtime := onDisk(t), runtimeDir(t)
	key, err := device.NewFinder().Of(dir)
	require.NoError(t, err)
	state, err := shared.Attach(runtime, key.Key, shared.Options{})
	require.NoError(t, err)
	defer state.Close()
	announced := func() (all []iopolicy.Policy) {
		for _, p := range state.Processes() {
			if p.Announced && p.Live && p.PID == os.Getpid() {
				all = append(all, p.Policy)
			}
		}
		return all
	}
	a, err := Announce(runtime, os.Getpid(), iopolicy.Utility, dir, filepath.Dir(dir), "/dev/shm")
	require.NoError(t, err)
	require.Equal(t, []iopolicy.Policy{iopolicy.Utility}, announced(), "once on each device")
	a.SetPolicy(iopolicy.Throttle)
	require.Equal(t, []iopolicy.Policy{iopolicy.Throttle}, announced())
	a.Close()
	require.Empty(t, announced())

	a, err = Announce(runtime, os.Getpid(), iopolicy.Utility, dir)
	require.NoError(t, err)
	a.Leave()
	require.Equal(t, []iopolicy.Policy{iopolicy.Utility}, announced(), "as long as the process lives")
	_, err = Announce(runtime, 1<<22+1, iopolicy.Utility, dir)
	require.ErrorIs(t, err, shared.ErrNoProcess)
}

func TestConcurrentUse(t *testing.T) {
	dir := onDisk(t)
	m := newManager(t, Config{Client: iopolicy.NewClient(iopolicy.Throttle),
		Folders: Folders{Runtime: runtimeDir(t)}, Blame: true}, dir)
	m.SetPolicy(iopolicy.Important) // no operation waits, whatever else this machine does
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				grant, err := m.Path(filepath.Join(dir, "x")).Begin(context.Background(), iopolicy.Op{Kind: iopolicy.Write})
				if err != nil {
					t.Error(err)
					return
				}
				_ = m.Report(iopolicy.Throttle)
				grant.End(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 400, m.Gates()[0].Stats().Operations)
	require.EqualValues(t, 400, m.Gates()[0].Stats().Moved.Written)
}

// TestPolicyOfNewDevices: the policy changes while a device is added. The others receive the latest policy.
func TestPolicyOfNewDevices(t *testing.T) {
	m := newManager(t, Config{Client: iopolicy.NewClient(iopolicy.Throttle), Folders: Folders{Runtime: runtimeDir(t)}})
	for i := range 200 {
		p := []iopolicy.Policy{iopolicy.Important, iopolicy.Throttle}[i%2]
		var both sync.WaitGroup
		both.Go(func() { m.Remote(fmt.Sprint("server", i)) })
		both.Go(func() {
			for range i { // at other moments of that
				m.cfg.Client.Policy()
				runtime.Gosched()
			}
			m.SetPolicy(p)
		})
		both.Wait()
		for _, process := range m.all()[i].peers.Processes() {
			require.Equal(t, p, process.Policy, "device %d", i)
		}
	}
}

// TestSpacingFollowsTheClassifiedMedium: a disk that wrongly claims to be rotational.
func TestSpacingFollowsTheClassifiedMedium(t *testing.T) {
	m := newManager(t, Config{Folders: Folders{Runtime: runtimeDir(t)}})
	r := m.newEntry(device.Info{Medium: device.HDD, Weak: true, Key: "veiled"}, device.HDD, false)
	defer func() { r.watch.Close(); r.peers.Close() }()
	now := time.Now()
	worseAfter := func(at time.Time) bool {
		ok, _ := r.peers.Claim(1, at, 5*time.Millisecond)
		require.True(t, ok)
		ok, _ = r.peers.Claim(3, at.Add(6*time.Millisecond), 25*time.Millisecond)
		return ok
	}
	require.False(t, worseAfter(now.Add(-200*time.Millisecond)), "a disk that turns is left alone for longer")
	for range 64 {
		r.served(100*time.Microsecond, 4096)
	}
	require.Eventually(t, func() bool { return r.gate.Stats().Medium == iopolicy.SSD }, 10*time.Second, time.Millisecond)
	require.True(t, worseAfter(now.Add(-100*time.Millisecond)))
}
