package gatehouse

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

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// onDisk returns a folder on something that has a gate.
func onDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if info, err := device.Of(dir); err != nil || info.Key == "" {
		t.Skip("needs a temporary folder on a device")
	}
	return dir
}

func house(t *testing.T, cfg Config, places ...string) *House {
	t.Helper()
	if cfg.Settings == (iopolicy.Settings{}) {
		cfg.Settings = iopolicy.Default()
	}
	h, err := Open(cfg, places...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

func runtimeDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "runtime")
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}

func TestOneGateForOneDevice(t *testing.T) {
	dir := onDisk(t)
	h := house(t, Config{}, filepath.Join(dir, "source"), filepath.Join(dir, "not/made/yet"))
	require.Len(t, h.Gates(), 1)
	require.Same(t, h.Gates()[0], h.Path(dir).Gate())
	open, err := localfs.OpenDir(dir)
	require.NoError(t, err)
	defer open.Release()
	require.Same(t, h.Gates()[0], h.Gate(open, dir).Gate())
	require.Same(t, h.Gates()[0], h.Gate(nil, dir).Gate())
	require.Len(t, h.Gates(), 1)
}

func TestMemoryHasNoGate(t *testing.T) {
	if info, err := device.Of("/dev/shm"); err != nil || info.Medium != device.Memory {
		t.Skip("needs a file system in memory at /dev/shm")
	}
	h := house(t, Config{}, "/dev/shm")
	require.Nil(t, h.Path("/dev/shm"))
	require.Empty(t, h.Gates())
	require.Empty(t, h.Report())
}

func TestAServerHasAGateOfItsOwn(t *testing.T) {
	dir, runtime := onDisk(t), runtimeDir(t)
	h := house(t, Config{Medium: "ssd", Runtime: runtime}, dir)
	pass := h.Remote("NAS.lan")
	require.NotNil(t, pass)
	require.Same(t, pass.Gate(), h.Remote("nas.LAN").Gate(), "names of machines are in any case")
	require.NotSame(t, pass.Gate(), h.Remote("other").Gate())
	require.NotSame(t, pass.Gate(), h.Path(dir).Gate())
	require.Len(t, h.Gates(), 3)
	r := h.Report()[1]
	require.Equal(t, "//nas.lan", r.Device)
	require.Equal(t, "remote", r.Medium, "whatever --medium says of disks")
	require.Equal(t, iopolicy.HDD, pass.Gate().Stats().Medium)
	require.Contains(t, r.Notes[len(r.Notes)-1], "Only other runs of tidemark are given way to.")

	grant, err := pass.Begin(t.Context(), iopolicy.Op{Kind: iopolicy.Write, Certain: true})
	require.NoError(t, err)
	grant.End(1 << 20)
	require.EqualValues(t, 1<<20, pass.Gate().Stats().Moved.Written)
	require.Zero(t, h.elsewhere(h.all()[0]), "none of it is taken off what the kernel counts at disks")
	require.False(t, h.all()[0].exact, "a server makes no operation at a disk dearer")

	other := house(t, Config{Client: iopolicy.NewClient(iopolicy.Throttle), Runtime: runtime})
	other.Remote("nas.lan")
	require.Len(t, h.all()[1].cooperating(), 1, "two runs at one server know of each other")
}

func TestAPlaceThatCannotBeLookedAtHasAGate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	h := house(t, Config{})
	require.NotNil(t, h.Path(filepath.Join(file, "below a file")))
	r := h.Report()
	require.Len(t, r, 1)
	require.Contains(t, r[0].Why, "cannot be found out")
	require.Contains(t, r[0].Notes[0], "Only other runs of tidemark are given way to.")
}

func TestMediumOfTheUser(t *testing.T) {
	dir := onDisk(t)
	require.Equal(t, iopolicy.SSD, house(t, Config{Medium: "ssd"}, dir).Gates()[0].Stats().Medium)
	require.Equal(t, iopolicy.HDD, house(t, Config{Medium: "hdd"}, dir).Gates()[0].Stats().Medium)
	require.Equal(t, "remote", house(t, Config{Medium: "remote"}, dir).Report()[0].Medium)
	_, err := Open(Config{Medium: "tape"})
	require.ErrorIs(t, err, device.ErrMedium)
}

// What the user says changes how the device is treated, not where its counters are.
func TestWatchingDoesNotFollowTheUsersWord(t *testing.T) {
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
	plain, said := house(t, Config{}, dir), house(t, Config{Medium: "remote"}, dir)
	mode, _ := plain.all()[0].watch.Mode()
	same, _ := said.all()[0].watch.Mode()
	require.Equal(t, mode, same)
	require.Equal(t, plain.Report()[0].Notes, said.Report()[0].Notes)
	require.Equal(t, "remote", said.Report()[0].Medium)
}

func TestWhatIsSaidToBeMemoryHasNoGate(t *testing.T) {
	require.Empty(t, house(t, Config{Medium: "memory"}, onDisk(t)).Gates())
}

func TestPolicyIsToldToTheOthers(t *testing.T) {
	dir, runtime := onDisk(t), runtimeDir(t)
	h := house(t, Config{Client: iopolicy.NewClient(iopolicy.Throttle), Runtime: runtime}, dir)
	other := house(t, Config{Client: iopolicy.NewClient(iopolicy.Standard), Runtime: runtime}, dir)
	policies := func() (all []iopolicy.Policy) {
		for _, p := range other.all()[0].peers.Processes() {
			all = append(all, p.Policy)
		}
		return all
	}
	require.ElementsMatch(t, []iopolicy.Policy{iopolicy.Throttle, iopolicy.Standard}, policies())
	h.SetPolicy(iopolicy.Utility)
	require.Equal(t, iopolicy.Utility, h.Client().Policy())
	require.ElementsMatch(t, []iopolicy.Policy{iopolicy.Utility, iopolicy.Standard}, policies())
	require.Equal(t, "utility", h.Report()[0].Policy)
	require.Len(t, other.all()[0].cooperating(), 1, "oneself is no peer")
}

func TestAnUnsafeRuntimeFolderIsTold(t *testing.T) {
	dir, runtime := onDisk(t), runtimeDir(t)
	require.NoError(t, os.Chmod(runtime, 0o777))
	h := house(t, Config{Runtime: runtime}, dir)
	require.Contains(t, h.Report()[0].Notes[0], "Other runs of tidemark count as strangers here: ")
}

func TestAnnouncement(t *testing.T) {
	dir, runtime := onDisk(t), runtimeDir(t)
	key, err := device.Of(dir)
	require.NoError(t, err)
	state, err := shared.Attach(runtime, key.Key, shared.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, state.Close()) }()
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
	require.NoError(t, a.Close())
	require.Empty(t, announced())

	a, err = Announce(runtime, os.Getpid(), iopolicy.Utility, dir)
	require.NoError(t, err)
	require.NoError(t, a.Leave())
	require.Equal(t, []iopolicy.Policy{iopolicy.Utility}, announced(), "as long as the process lives")
	_, err = Announce(runtime, 1<<22+1, iopolicy.Utility, dir)
	require.ErrorIs(t, err, shared.ErrNoProcess)
}

func TestManyAskAtOnce(t *testing.T) {
	dir := onDisk(t)
	h := house(t, Config{Client: iopolicy.NewClient(iopolicy.Throttle), Runtime: runtimeDir(t), Blame: true}, dir)
	h.SetPolicy(iopolicy.Important) // so that nobody waits, whatever else this machine does
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				grant, err := h.Path(filepath.Join(dir, "x")).Begin(context.Background(), iopolicy.Op{Kind: iopolicy.Write})
				if err != nil {
					t.Error(err)
					return
				}
				_ = h.Report()
				grant.End(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 400, h.Gates()[0].Stats().Operations)
	require.EqualValues(t, 400, h.Gates()[0].Stats().Moved.Written)
}

// TestAPolicyIsNotLostOnANewDevice: the policy changes while a device is met for the first time. What the others are told is
// the last word.
func TestAPolicyIsNotLostOnANewDevice(t *testing.T) {
	h := house(t, Config{Client: iopolicy.NewClient(iopolicy.Throttle), Runtime: runtimeDir(t)})
	for i := range 200 {
		p := []iopolicy.Policy{iopolicy.Important, iopolicy.Throttle}[i%2]
		var both sync.WaitGroup
		both.Go(func() { h.Remote(fmt.Sprint("server", i)) })
		both.Go(func() {
			for range i { // at other moments of that
				h.Client().Policy()
				runtime.Gosched()
			}
			h.SetPolicy(p)
		})
		both.Wait()
		for _, process := range h.all()[i].peers.Processes() {
			require.Equal(t, p, process.Policy, "device %d", i)
		}
	}
}

// TestSlotsAreAsFarApartAsTheMediumThatWasMeasured: a disk that says that it turns, and does not.
func TestSlotsAreAsFarApartAsTheMediumThatWasMeasured(t *testing.T) {
	h := house(t, Config{Runtime: runtimeDir(t)})
	r := h.build(device.Info{Medium: device.HDD, Weak: true, Key: "veiled"}, device.HDD, false)
	defer func() { require.NoError(t, r.close()) }()
	now := time.Now()
	worseAfter := func(at time.Time) bool {
		ok, _ := r.peers.Claim(1, at, 5*time.Millisecond)
		require.True(t, ok)
		ok, _ = r.peers.Claim(3, at.Add(6*time.Millisecond), 25*time.Millisecond)
		return ok
	}
	require.False(t, worseAfter(now.Add(-200*time.Millisecond)), "a disk that turns is left alone for longer")
	for range 64 {
		r.observe(iopolicy.Read, 100*time.Microsecond, iopolicy.Bytes{Read: 4096})
	}
	require.Equal(t, iopolicy.SSD, r.gate.Stats().Medium)
	require.True(t, worseAfter(now.Add(-100*time.Millisecond)))
}
