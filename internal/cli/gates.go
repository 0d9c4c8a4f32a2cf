package cli

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/throttle"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/internal/throttle/foreign"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// gates returns the I/O gates of this run. The first call creates them for all known locations.
func (a *app) gates() *throttle.Manager {
	t := a.task
	if t.manager != nil {
		return t.manager
	}
	if t.process == nil && !t.brief {
		a.applyPolicy(options.Attended)
	}
	io := a.spec.IO()
	runtime, err := a.runtimeDir()
	if err != nil {
		runtime = "" // no shared state; serving the socket reports why
	}
	places := t.sources
	if at, err := a.location(); err == nil && !at.OnServer() {
		places = append(places[:len(places):len(places)], at.Folder)
	}
	state := a.stateDir()
	if state != "" {
		places = append(places[:len(places):len(places)], state)
	}
	manager, err := throttle.Open(throttle.Config{
		Client: t.client, Settings: io.Settings, Medium: io.Medium, Runtime: runtime, State: state, Blame: io.Blame,
		Idle:    foreign.Idle(),
		Devices: a.devices,
	}, places...)
	if err != nil { // the options allow only valid media
		a.print.Note("the I/O policy is not in effect: " + err.Error())
		return nil
	}
	t.mu.Lock()
	t.manager = manager
	t.mu.Unlock()
	return manager
}

// stateDir returns the folder in which runs on this machine keep what they measured; "" for none.
func (a *app) stateDir() string {
	if cache := a.spec.Cache(); cache.Enabled {
		return cache.Dir
	}
	return ""
}

// known returns what is known about a device, with what earlier runs measured.
func (a *app) known(info device.Info) device.Info { return throttle.Known(a.stateDir(), info) }

// gate returns the gate of the device of a path or an open directory.
func (a *app) gate(dir *localfs.Dir, path string) *iopolicy.Pass {
	if manager := a.gates(); manager != nil {
		return manager.Gate(dir, path)
	}
	return nil
}

// rotational reports whether the device of a gate is a rotational disk.
func (a *app) rotational(pass *iopolicy.Pass) bool {
	manager := a.gates()
	return manager != nil && manager.Rotational(pass)
}

// flush passes a write that waits for the device through its gate.
func (a *app) flush(path string, write func() error) error {
	op := iopolicy.Op{Kind: iopolicy.Sync, Certain: true}
	// A key must be stored even if the run is interrupted.
	_, err := a.gate(nil, path).Do(context.Background(), op, func(int) (int, error) { return 0, write() })
	return err //nolint:wrapcheck // it is write's
}

// leave closes the connections and the gates at the end of the run.
func (a *app) leave() {
	for _, st := range a.remotes {
		if err := st.Close(); err != nil {
			a.print.Note(err.Error())
		}
	}
	if a.task != nil {
		for _, c := range a.task.opened {
			caches.Opened(c.folder, c.location)
		}
	}
	if a.task == nil || a.task.manager == nil {
		return
	}
	if err := a.task.manager.Close(); err != nil && a.spec.Output().Verbose > 0 {
		a.print.Note(err.Error())
	}
}
