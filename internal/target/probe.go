package target

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Options says how a folder is probed.
type Options struct {
	Pass *iopolicy.Pass   // to the device of a folder; nil: unthrottled. A share uses the gate of its Store.
	Now  func() time.Time // nil: time.Now
	// Known adds what earlier runs found out about the device of a folder. Nil: nothing.
	Known func(device.Info) device.Info
}

// prober runs the probes and collects their results.
type prober struct {
	known  func(device.Info) device.Info // Options.Known
	ctx    context.Context
	name   string                        // of the scratch folder
	open   func(name string) store.Store // opens a folder next to it as a store
	report *Report
	now    func() time.Time
	flush  func() error // times flushes of the scratch folder
	share  bool         // the target is on a server that tidemark talks to
	link   store.Link   // to it
}

// Run probes the existing folder path. A folder that refuses files, or is full, yields a report. An error means that it
// could not be probed (ErrNotFolder: there is no such folder), that it went away, or that ctx ended; it wraps the
// cause.
func Run(ctx context.Context, path string, opt Options) (*Report, error) {
	report, err := runFolder(ctx, path, opt)
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", path, err)
	}
	return report, nil
}

func runFolder(ctx context.Context, path string, opt Options) (*Report, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	door := localfs.IOContext{Ctx: ctx, Pass: opt.Pass}
	p := newProber(ctx, &Report{Path: path}, opt)
	if err := p.describe(door); err != nil || p.report.Verdict() == Unfit {
		return p.report, err
	}
	p.flush = func() error { return p.timeFlush(door, filepath.Join(path, p.name)) }
	return p.report, p.end(local.Scratch(ctx, path, opt.Pass, p.all))
}

// RunServer probes the folder of a Store on a server. Report and error are those of Run.
func RunServer(ctx context.Context, st store.Remote, opt Options) (*Report, error) {
	p := newProber(ctx, &Report{Path: st.Location()}, opt)
	p.share, p.flush = true, p.serverFlush
	err := p.connection(st)
	if err == nil {
		err = st.Scratch(ctx, p.all)
	}
	if err = p.end(err); err != nil {
		return nil, fmt.Errorf("probe %s: %w", p.report.Path, err)
	}
	return p.report, nil
}

func newProber(ctx context.Context, report *Report, opt Options) *prober {
	p := &prober{ctx: ctx, report: report, now: opt.Now, known: opt.Known}
	if p.now == nil {
		p.now = time.Now
	}
	return p
}

// all runs the probes that write, in a scratch folder.
func (p *prober) all(name string, open func(name string) store.Store) error {
	p.name, p.open = name, open
	st := open(name)
	for _, probe := range []func(store.Store) error{p.write, p.rename, p.caseFolding, p.clock, p.exclusive} {
		if err := probe(st); err != nil {
			return err
		}
	}
	return p.flush()
}

// end turns a refusal of the target into a row of the report. It returns all other errors.
func (p *prober) end(err error) error {
	if stop := context.Cause(p.ctx); stop != nil {
		return errors.Join(stop, err)
	}
	if err == nil || interrupted(err) {
		return err
	}
	remedy := "a repository cannot be kept here: see the error and the system log"
	var known *store.Problem
	switch {
	case errors.Is(err, store.ErrNoSpace):
		remedy = "free some space, or raise the quota, and check again"
	case p.share && errors.As(err, &known) && known.Do != "":
		remedy = known.Do
	case errors.Is(err, store.ErrDenied):
		remedy = "let this user write to the folder"
	case p.share:
		remedy = "a repository cannot be kept here: see the error and the log of the server"
	}
	p.report.add("write", Unfit, fmt.Sprintf("The target refuses: %v.", store.Brief(err)), remedy)
	return nil
}

// interrupted reports whether err says nothing about the target: the run ended, or the target went away.
func interrupted(err error) bool {
	return errors.Is(err, localfs.ErrStopped) || errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrTemporary)
}

func openFolder(door localfs.IOContext, path string) (*localfs.Dir, error) {
	dir, err := door.OpenDir(path)
	switch {
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, localfs.ErrNotDir):
		return nil, fmt.Errorf("%w: name the folder that holds the repository, or is to hold it (%w)", ErrNotFolder, err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w; is the disk or share mounted? (%w)", ErrNotFolder, err)
	}
	return dir, err
}

// describe reports the file system and the device of the folder, without writing.
func (p *prober) describe(door localfs.IOContext) error {
	dir, err := openFolder(door, p.report.Path)
	if err != nil {
		return err
	}
	defer dir.Release()
	if p.report.Device, err = device.NewFinder().At(dir); err != nil {
		return err
	}
	if p.known != nil {
		p.report.Device = p.known(p.report.Device)
	}
	if p.report.Identity, err = IdentityOf(dir, p.report.Device); err != nil {
		return err
	}
	info, err := dir.FS()
	if err != nil {
		return err
	}
	name := human.Device(p.report.Device.Name(), p.report.Device.Medium.String())
	what := fmt.Sprintf("%s on %s. %s", info.Type, name, p.report.Device.Why)
	switch {
	case info.Pseudo:
		p.report.add("file system", Unfit, what, "choose a folder on a disk or a share")
	case info.ReadOnly:
		p.report.add("file system", Unfit, what+" It is mounted read-only.", "mount it for writing")
	case p.report.Device.Medium == device.Memory:
		p.report.add("file system", Degraded, what, "a repository here is lost when the machine is turned off")
	default:
		p.report.add("file system", Good, what, "")
	}
	return nil
}

// connection reports how requests to the server are protected.
func (p *prober) connection(st store.Remote) (err error) {
	if p.link, err = st.Describe(p.ctx); err != nil {
		return err
	}
	l := p.link
	p.report.Device = device.Info{Medium: device.Remote, FS: l.Protocol, Server: l.Server, Source: l.Source,
		Why: "tidemark talks to the server itself."}
	p.report.Identity = Identity{FS: l.Protocol, Source: l.Source}
	result := Good
	if l.Remedy != "" {
		result = Degraded
	}
	p.report.add("connection", result, l.What, l.Remedy)
	return nil
}
