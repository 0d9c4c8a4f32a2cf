package machinestate

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

const (
	mountPoll   = 10 * time.Second // between two looks at the mount table
	callTimeout = 10 * time.Second // of pmset and diskutil
)

// Host is this machine.
type Host struct{}

// New returns this machine.
func New() *Host { return &Host{} }

// Power returns the state of the power supply. macOS has no public call that says whether a network is metered.
func (h *Host) Power(ctx context.Context) Power {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/usr/bin/pmset", "-g", "batt").Output()
	if err != nil {
		return Power{Charge: -1}
	}
	return powerOf(string(out))
}

// Inhibit keeps the machine awake until release is called or this process ends. A closed lid lets it sleep all the
// same. release may be called twice.
func (h *Host) Inhibit(context.Context, string) (release func()) {
	cmd := exec.Command("/usr/bin/caffeinate", "-i", "-w", strconv.Itoa(os.Getpid()))
	if cmd.Start() != nil {
		return func() {}
	}
	return sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
}

// Sleeps returns a channel that gets nothing: macOS announces a sleep only to programs with an event loop.
func (h *Host) Sleeps(context.Context) <-chan bool { return make(chan bool) }

// Ready does nothing, since Sleeps delays no sleep.
func (h *Host) Ready() {}

// Mounted returns where the volume with a name or UUID is mounted; by is "LABEL" or "UUID".
func (h *Host) Mounted(by, name string) (path string, ok bool) {
	return mountsOfMac(localfs.Mounts).find(by, name, func(uuid string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		return exec.CommandContext(ctx, "/usr/sbin/diskutil", "info", uuid).Output()
	})
}

// Changes returns a channel that gets a value when the mounts changed since the last value was received.
func (h *Host) Changes(ctx context.Context) <-chan struct{} {
	changes := make(chan struct{}, 1)
	go mountsOfMac(localfs.Mounts).watch(ctx, changes, mountPoll)
	return changes
}
