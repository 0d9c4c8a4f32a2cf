// Package place is the repository that the options name: where it is, how it is reached, and what opens it.
//
//	options ► Location ► Access: gates, limits, retries ► Store ─┐
//	                                                             ├► Open ► repo.Repository, with its cache
//	options, key files of this machine, a person ► Secrets ──────┘
//
// A run has one Place, and a copy has a second one Beside it. Close ends what they opened.
package place

import (
	"errors"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/governor"
	"github.com/tidemark-backup/tidemark/internal/machinestate"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/limit"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/throttle"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/internal/throttle/foreign"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// Config is what places of a run have in common.
type Config struct {
	Env      options.Env
	Devices  *device.Finder
	Terminal any               // where prompts appear, if it is a terminal: see unlock.OpenTerminal
	Note     func(text string) // for people
	Warn     func(text string) // that --quiet does not suppress
	Show     func(text string) // for people only
}

// Place is the repository that the options name, whether or not it exists.
type Place struct {
	Intake  report.Intake // what is read from the repository
	Sources []string      // of a backup; set before the first gate is needed
	Uploads int           // of a backup, at once; 0: not known
	Before  time.Time     // the repository is read as it was before this time; zero: as it is
	Frames  int           // bytes of opened frames that the repository keeps; 0: as usual

	RemindKeys bool // also report keys that are gone as an earlier run reported

	cfg      Config
	spec     *options.Spec
	governor *governor.Governor
	limiter  *limit.Limiter // of all repositories of the run; nil: no limits

	logon   *unlock.Logon     // nil: no share was used yet
	remotes []store.Remote    // to be closed
	opened  map[string]string // locations of repositories by their cache folders: recorded at the end
	charged s3.Requests       // of a bucket
	typed   *options.Secret   // passphrase that a person typed; nil: it is not kept
	beside  []*Place          // closed with this one
}

// New returns a place without options: call Use.
func New(cfg Config) *Place {
	p := &Place{cfg: cfg, opened: make(map[string]string)}
	p.Intake.Requests = p.requests
	return p
}

// Use has the place follow options from now on, and its I/O a governor. What is connected and what was typed stays.
func (p *Place) Use(spec *options.Spec, g *governor.Governor) {
	p.spec, p.governor = spec, g
	l := spec.Limits()
	p.limit(limit.New(l.Upload, l.Download))
}

// limit applies limits to the stores that are opened from now on.
func (p *Place) limit(l *limit.Limiter) {
	p.limiter = l
	p.Intake.Limits, p.Intake.Limited = p.spec.Limits(), l.Progress
}

// Beside returns a second place of the same run, with the same limits. It is closed with p.
func (p *Place) Beside(spec *options.Spec) *Place {
	other := New(p.cfg)
	other.spec, other.governor = spec, p.governor
	other.limit(p.limiter)
	p.beside = append(p.beside, other)
	return other
}

// NameError is a location that is malformed, or not named at all.
type NameError struct{ Err error }

// Error implements error.
func (e *NameError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *NameError) Unwrap() error { return e.Err }

// Parse reads a location, and finds the disk of one that names a disk.
func Parse(text string) (location.Location, error) {
	at, err := location.Parse(text)
	if err != nil {
		return at, &NameError{err}
	}
	return at.Find(machinestate.New().Mounted)
}

// Location returns where the repository is.
func (p *Place) Location() (location.Location, error) {
	text := p.spec.Repository().Location
	if text == "" {
		return location.Location{}, &NameError{errors.New("name a repository with --repo or " +
			"TIDEMARK_REPOSITORY: this user has no home directory")}
	}
	return Parse(text)
}

// Medium returns the medium of the repository, whether or not it exists yet. An option has no effect on that of a
// server, which is always another machine.
func (p *Place) Medium() device.Medium { return p.medium(p.spec.IO().Medium) }

// Remote reports whether the repository is known to be on another machine.
func (p *Place) Remote() bool { return p.medium(device.Unknown) == device.Remote }

// medium returns the medium; said is the value of --medium.
func (p *Place) medium(said device.Medium) device.Medium {
	at, err := p.Location()
	switch {
	case err != nil:
		return device.Unknown // opening it reports the error
	case at.OnServer():
		return device.Remote
	}
	return p.cfg.Devices.Medium(said, at.Folder)
}

// OpenGates makes the gates for all locations that are known.
func (p *Place) OpenGates(client *iopolicy.Client) *throttle.Manager {
	runtime, err := shared.RuntimeDir(p.cfg.Env)
	if err != nil {
		runtime = "" // no shared state; serving the socket reports why
	}
	paths := slices.Clone(p.Sources)
	if at, err := p.Location(); err == nil && !at.OnServer() {
		paths = append(paths, at.Folder)
	}
	state := p.stateDir()
	if state != "" {
		paths = append(paths, state)
	}
	io := p.spec.IO()
	return throttle.Open(throttle.Config{
		Client: client, Settings: io.Settings, Medium: io.Medium, Blame: io.Blame,
		Folders: throttle.Folders{Runtime: runtime, State: state},
		Idle:    foreign.Idle(), Devices: p.cfg.Devices,
	}, paths...)
}

// Known returns what is known about a device, with what earlier runs measured.
func (p *Place) Known(info device.Info) device.Info { return throttle.Known(p.stateDir(), info) }

// stateDir returns the folder in which runs on this machine keep what they measured; "" for none.
func (p *Place) stateDir() string {
	if cache := p.spec.Cache(); cache.Enabled {
		return cache.Dir
	}
	return ""
}

// Close closes the connections at the end of the run, and records which caches it has used.
func (p *Place) Close() {
	for _, st := range p.remotes {
		if err := st.Close(); err != nil {
			p.cfg.Note(err.Error())
		}
	}
	for folder, location := range p.opened {
		caches.Opened(folder, location)
	}
	for _, other := range p.beside {
		other.Close()
	}
}
