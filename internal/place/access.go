package place

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/store/sftp"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// Access returns what opening a location needs.
func (p *Place) Access(at location.Location) location.Access {
	access := location.Access{Connect: p.connect, Share: p.shareOptions, Bucket: p.bucketOptions, SSH: p.sshOptions,
		Read: p.Intake.Begin, Retry: p.noteRetry,
		Back: func() { p.noteBack("the target") }, Limit: p.limiter, Before: p.Before}
	if !at.OnServer() {
		access.Gate = p.governor.Gate(nil, at.Folder)
	}
	return access
}

// requests returns the requests so far that the provider of the store charges for.
func (p *Place) requests() (r report.Requests) {
	r.Put, r.Get, r.Delete = p.charged.Charged()
	return r
}

// noteRetry reports an operation that will be tried again.
func (p *Place) noteRetry(what string, err error) {
	why := strings.TrimPrefix(store.Brief(err).Error(), what+": ")
	p.Intake.Outages.Begin(why)
	p.cfg.Note(fmt.Sprintf("%s: %s; trying again", what, why))
}

// noteBack reports that a target answers again.
func (p *Place) noteBack(what string) {
	p.Intake.Outages.End()
	p.cfg.Note(what + " is back")
}

// Dial returns the connection of this place to a location on a server, and opens it if there is none.
func (p *Place) Dial(ctx context.Context, at location.Location) (store.Remote, error) {
	for _, st := range p.remotes {
		if st.Location() == at.String() {
			return st, nil
		}
	}
	return at.Dial(ctx, p.Access(at))
}

// connect connects to a server until the end of the run. A mistyped password may be entered again.
func (p *Place) connect(dial func() (store.Remote, error)) (store.Remote, error) {
	for i := 1; ; i++ {
		st, err := dial()
		if errors.Is(err, smb.ErrLogon) && p.logon.Asked() && i < Attempts {
			p.logon.Forget()
			p.cfg.Show(fmt.Sprintf("%v\n", err))
			continue
		}
		if err != nil {
			return nil, err
		}
		p.remotes = append(p.remotes, st)
		return st, nil
	}
}

// Logon returns the source of passwords for servers; nil: no share was used yet.
func (p *Place) Logon() *unlock.Logon { return p.logon }

// makeLogon makes the source of passwords for servers.
func (p *Place) makeLogon() {
	if p.logon != nil {
		return
	}
	p.logon = &unlock.Logon{Share: p.spec.Share()}
	p.logon.Tickets.Cache, _ = p.cfg.Env("KRB5CCNAME")
	p.logon.Tickets.Config, _ = p.cfg.Env("KRB5_CONFIG")
	if terminal := unlock.OpenTerminal(p.cfg.Terminal); terminal != nil {
		p.logon.Ask = terminal.Ask
	}
}

// bucketOptions returns the settings of the connections to an S3 server.
func (p *Place) bucketOptions(t s3.Target) (s3.Options, error) {
	b := p.spec.Bucket()
	o := s3.Options{Keys: s3.Keys{File: b.Credentials, Env: p.cfg.Env},
		Bucket: s3.Bucket{Region: b.Region, Class: b.Class}, Plain: !b.TLS, Connections: p.sessions(), Requests: &p.charged}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if value, _ := p.cfg.Env(name); o.Bucket.Region == "" {
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
	var err error
	if o.Bucket.Lock, err = s3.ParseLock(b.Lock); err != nil {
		return o, fmt.Errorf("--s3-lock: %w", err)
	}
	o.Pass = p.governor.Remote(t.Host())
	return o, nil
}

// sshOptions returns the settings of the connection to a machine with SSH. What ssh asks appears on the terminal.
func (p *Place) sshOptions(t sftp.Target) sftp.Options {
	return sftp.Options{Channels: p.sessions(), Pass: p.governor.Remote(t.Host),
		Ask: unlock.OpenTerminal(p.cfg.Terminal) != nil, Silent: p.Intake.Outages.BeginAt, Back: p.Intake.Outages.End}
}

// shareOptions returns the settings of a connection: one session per upload, all behind one I/O gate.
func (p *Place) shareOptions(t smb.Target) smb.Options {
	p.makeLogon()
	s := p.spec.Share()
	o := smb.Options{
		Credentials: func(ctx context.Context) (smb.Secret, error) { return p.logon.Secret(ctx, t) },
		Parallel:    smb.Parallel{Sessions: p.sessions()},
		Patience: smb.Patience{Notify: func(err error) {
			p.Intake.Outages.Begin(err.Error())
			p.cfg.Note(fmt.Sprintf("%v; trying again", err))
		}, Back: func() { p.noteBack(t.Host) }},
		TCP: p.tcp(t.Host),
	}
	if dir := p.stateDir(); dir != "" {
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
	o.Pass = p.governor.Remote(t.Host)
	return o
}

// tcp returns the settings of the TCP connections to a server.
func (p *Place) tcp(host string) smb.TCP {
	window, buffer := p.spec.TCP()
	var once sync.Once
	return smb.TCP{Window: int(window), Write: int(buffer), Reduced: func(granted int) {
		once.Do(func() {
			p.cfg.Note(fmt.Sprintf("tcp-window-size %s: the system grants the connection to %s %s; raise its limit "+
				"(Linux: net.core.wmem_max and rmem_max) or lower the option", options.FormatSize(window), host,
				options.FormatSize(int64(granted))))
		})
	}}
}

// sessions returns the maximum number of connections to a server: the uploads of the backup, or those that a backup
// would start with.
func (p *Place) sessions() int {
	if p.Uploads > 0 {
		return p.Uploads
	}
	cpu := sysinfo.CPUCount()
	return p.spec.Parallel(cpu, options.Media{Target: device.Remote}).Workers.Uploads
}
