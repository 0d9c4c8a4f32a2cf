package cli

import (
	"context"

	"github.com/tidemark-backup/tidemark/internal/gatehouse"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/pressure"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// gates returns the gates of this run. They are made when they are first asked for, with all places that it knows of.
func (a *app) gates() *gatehouse.House {
	t := a.task
	if t.house != nil {
		return t.house
	}
	if t.process == nil {
		a.yield(options.Attended)
	}
	io := a.spec.IO()
	runtime, err := a.runtimeDir()
	if err != nil {
		runtime = "" // nothing can be shared; serving the socket says why
	}
	places := t.sources
	if at, err := a.place(); err == nil && !at.onShare() {
		places = append(places[:len(places):len(places)], at.folder)
	}
	if cache := a.spec.Cache(); cache.Enabled && cache.Dir != "" {
		places = append(places[:len(places):len(places)], cache.Dir)
	}
	house, err := gatehouse.Open(gatehouse.Config{
		Client: t.client, Settings: io.Settings, Medium: io.Medium, Runtime: runtime, Blame: io.Blame, Idle: pressure.Idle(),
		Devices: a.devices,
	}, places...)
	if err != nil { // the medium is one of those that the options allow
		a.print.Note("the I/O policy does not hold: " + err.Error())
		return nil
	}
	t.mu.Lock()
	t.house = house
	t.mu.Unlock()
	return house
}

// gate is the way to the device of a path or an open directory.
func (a *app) gate(dir *localfs.Dir, path string) *iopolicy.Pass {
	if house := a.gates(); house != nil {
		return house.Gate(dir, path)
	}
	return nil
}

// turns tells whether a disk that turns lies behind a pass of gate.
func (a *app) turns(pass *iopolicy.Pass) bool {
	house := a.gates()
	return house != nil && house.Turns(pass)
}

// flush lets a write that waits for the device pass its gate.
func (a *app) flush(path string, write func() error) error {
	op := iopolicy.Op{Kind: iopolicy.Sync, Certain: true}
	// A key must be kept whatever becomes of the rest of the run.
	_, err := a.gate(nil, path).Do(context.Background(), op, func(int) (int, error) { return 0, write() })
	return err //nolint:wrapcheck // it is write's
}

// leave ends the sessions with a server, and closes the gates, at the end of the run, when nothing is open any more.
func (a *app) leave() {
	for _, st := range a.shares {
		if err := st.Close(); err != nil {
			a.print.Note(err.Error())
		}
	}
	if a.task == nil || a.task.house == nil {
		return
	}
	if err := a.task.house.Close(); err != nil && a.spec.Output().Verbose > 0 {
		a.print.Note(err.Error())
	}
}
