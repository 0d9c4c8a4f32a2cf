package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/cli/unlock"
	"github.com/tidemark-backup/tidemark/internal/machinestate"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/limit"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/store/meter"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/store/sftp"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// location returns where the repository is.
func (a *app) location() (location.Location, error) {
	text := a.spec.Repository().Location
	if text == "" {
		return location.Location{}, usagef("name a repository with --repo or TIDEMARK_REPOSITORY: this user has no " +
			"home directory")
	}
	return parseLocation(text)
}

// parseLocation reads a location, and finds the disk of one that names a disk.
func parseLocation(text string) (location.Location, error) {
	at, err := location.Parse(text)
	if err != nil {
		return at, &usageError{err}
	}
	return at.Find(machinestate.New().Mounted) //nolint:wrapcheck // it names the location
}

// mediumOf returns the medium of a location, whether or not it exists yet. word is the value of --medium; it has no
// effect on a share, which is always on another machine.
func mediumOf(at location.Location, devices *device.Finder, word string) device.Medium {
	if at.OnServer() {
		return device.Remote
	}
	return medium(devices, word, at.Folder)
}

// isRemote reports whether a location is known to be on another machine.
func isRemote(at location.Location, devices *device.Finder) bool {
	return mediumOf(at, devices, "") == device.Remote
}

// access returns what opening at needs.
func (a *app) access(at location.Location) location.Access {
	access := location.Access{Connect: a.connect, Share: a.shareOptions, Bucket: a.bucketOptions, SSH: a.sshOptions,
		Observe: a.observeReads, Retry: a.noteRetry,
		Back: func() { a.noteBack("the target") }, Limit: a.limiter}
	if !at.OnServer() {
		access.Gate = a.governor.Gate(nil, at.Folder)
	}
	return access
}

// limitTransfers applies limits to the repositories that this run opens from now on.
func (a *app) limitTransfers(o options.Limits) {
	a.limiter = limit.New(limit.Rates(o))
	a.intake.Limits, a.intake.Limited = report.Limits(o), a.limiter.Progress
}

// observeReads counts what is read from the repository.
func (a *app) observeReads(ctx context.Context, op meter.Operation) func(meter.Result) {
	if op != meter.Get {
		return nil
	}
	end := a.intake.Begin(ctx)
	return func(r meter.Result) {
		pack := ""
		if r.Name.Kind == store.Pack {
			pack = r.Name.ID
		}
		end(pack, r.Bytes)
	}
}

// requests returns the requests so far that the provider of the store charges for.
func (a *app) requests() (r report.Requests) {
	r.Put, r.Get, r.Delete = a.charged.Charged()
	return r
}

// noteRetry reports an operation that will be tried again.
func (a *app) noteRetry(what string, err error) {
	why := strings.TrimPrefix(store.Brief(err).Error(), what+": ")
	a.intake.Outages.Begin(why)
	a.print.Note(fmt.Sprintf("%s: %s; trying again", what, why))
}

// noteBack reports that a target answers again.
func (a *app) noteBack(what string) {
	a.intake.Outages.End()
	a.print.Note(what + " is back")
}

// connect connects to a server until the end of the run. A mistyped password may be entered again.
func (a *app) connect(dial func() (store.Remote, error)) (store.Remote, error) {
	for i := 1; ; i++ {
		st, err := dial()
		if errors.Is(err, smb.ErrLogon) && a.logon.Asked() && i < attempts {
			a.logon.Forget()
			a.print.Show(fmt.Sprintf("%v\n", err))
			continue
		}
		if err != nil {
			return nil, err
		}
		a.remotes = append(a.remotes, st)
		return st, nil
	}
}

// makeLogon makes the source of passwords for servers.
func (a *app) makeLogon() {
	if a.logon != nil {
		return
	}
	a.logon = &unlock.Logon{Share: a.spec.Share()}
	a.logon.Tickets.Cache, _ = a.Env("KRB5CCNAME")
	a.logon.Tickets.Config, _ = a.Env("KRB5_CONFIG")
	if terminal := unlock.OpenTerminal(a.Err); terminal != nil {
		a.logon.Asker = terminal
	}
}

// bucketOptions returns the settings of the connections to an S3 server.
func (a *app) bucketOptions(t s3.Target) (s3.Options, error) {
	b := a.spec.Bucket()
	o := s3.Options{Keys: s3.Keys{File: b.Credentials, Env: a.Env}, Bucket: s3.Bucket{Region: b.Region, Class: b.Class},
		Plain: !b.TLS, Connections: a.sessions(), Requests: &a.charged}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if value, _ := a.Env(name); o.Bucket.Region == "" {
			o.Bucket.Region = value
		}
	}
	switch b.Style {
	case "path":
		o.Bucket.Style = s3.InPath
	case "host":
		o.Bucket.Style = s3.InHost
	}
	if b.CA != "" {
		var err error
		if o.CA, err = os.ReadFile(b.CA); err != nil {
			return o, fmt.Errorf("read --s3-ca: %w", err)
		}
	}
	o.Pass = a.governor.Remote(t.Host())
	return o, nil
}

// sshOptions returns the settings of the connection to a machine with SSH. What ssh asks appears on the terminal.
func (a *app) sshOptions(t sftp.Target) sftp.Options {
	return sftp.Options{Channels: a.sessions(), Ask: unlock.OpenTerminal(a.Err) != nil, Pass: a.governor.Remote(t.Host)}
}

// shareOptions returns the settings of a connection: one session per upload, all behind one I/O gate.
func (a *app) shareOptions(t smb.Target) smb.Options {
	a.makeLogon()
	s := a.spec.Share()
	o := smb.Options{
		Credentials: func(ctx context.Context) (smb.Secret, error) { return a.logon.Secret(ctx, t) },
		Parallel:    smb.Parallel{Sessions: a.sessions()},
		Patience: smb.Patience{Notify: func(err error) {
			a.intake.Outages.Begin(err.Error())
			a.print.Note(fmt.Sprintf("%v; trying again", err))
		}, Back: func() { a.noteBack(t.Host) }},
		TCP: a.tcp(t.Host),
	}
	if dir := a.stateDir(); dir != "" {
		o.Known = filepath.Join(dir, "servers")
	}
	switch {
	case s.Encrypt:
		o.Protection = smb.Encrypted
	case !s.Sign:
		o.Protection = smb.AsOffered
	}
	switch s.Verify {
	case "full":
		o.Verify = smb.VerifyFull
	case "off":
		o.Verify = smb.VerifyOff
	}
	o.Pass = a.governor.Remote(t.Host)
	return o
}

// tcp returns the settings of the TCP connections to a server.
func (a *app) tcp(host string) smb.TCP {
	transfer := a.spec.Transfer()
	var once sync.Once
	return smb.TCP{Window: int(transfer.WindowBytes), Write: int(transfer.BufferBytes), Reduced: func(granted int) {
		once.Do(func() {
			a.print.Note(fmt.Sprintf("tcp-window-size %s: the system grants the connection to %s %s; raise its limit "+
				"(Linux: net.core.wmem_max and rmem_max) or lower the option", options.FormatSize(transfer.WindowBytes), host,
				options.FormatSize(int64(granted))))
		})
	}}
}

// sessions returns the maximum number of connections to a server: the uploads of the backup, or those that a backup
// would start with.
func (a *app) sessions() int {
	if a.uploads > 0 {
		return a.uploads
	}
	cpu := sysinfo.CPUCount()
	return a.spec.Parallel(cpu, options.Media{Target: device.Remote}).Workers.Uploads
}
