package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/scope"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// Times of a check of what macOS allows.
const (
	dialTime  = 3 * time.Second  // of all connections, below the time in which a service has to answer
	startTime = 10 * time.Second // until a service that was installed answers
)

// mac asks macOS what it allows this process. Tests replay its answers.
type mac struct {
	names func(folder string) ([]string, error) // of some entries of a folder; of /Users: of all
	dial  func(ctx context.Context, address string) error
}

func newMac() mac {
	return mac{
		names: func(folder string) ([]string, error) {
			f, err := os.Open(folder)
			if err != nil {
				return nil, err
			}
			defer func() { _ = f.Close() }()
			names, err := f.Readdirnames(1000)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return names, err
		},
		dial: func(ctx context.Context, address string) error {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				_ = c.Close()
			}
			return err
		},
	}
}

// fullDisk lists folders of the homes in sources, which are absolute, that macOS shows to programs with Full Disk
// Access only. That brings up no question on the screen, as ~/Documents or ~/Library/Containers would. TCC.db is no
// sign: without the permission it may look missing (docs/adr/0031-mac-service.md).
func (m mac) fullDisk(sources []string) (allowed event.Allowed, hidden string) {
	allowed = event.Unknown
	for _, home := range m.homes(sources) {
		for _, name := range []string{"Mail", "Messages", "Safari"} {
			folder := filepath.Join(home, "Library", name)
			names, err := m.names(folder)
			switch {
			case errors.Is(err, syscall.EPERM): // missing permissions of a file are EACCES
				return event.Denied, folder
			case err == nil && len(names) > 0: // an empty list proves nothing
				allowed = event.Granted
			}
		}
	}
	return allowed, ""
}

// homes returns the home folders that contain a source, or lie in one.
func (m mac) homes(sources []string) (all []string) {
	const users = "/Users"
	for _, source := range sources {
		switch rest, below := strings.CutPrefix(filepath.Clean(source), users+"/"); {
		case below:
			name, _, _ := strings.Cut(rest, "/")
			all = append(all, filepath.Join(users, name))
		case scope.Within(users, source):
			names, _ := m.names(users) // an error: nothing is known
			for _, name := range names {
				all = append(all, filepath.Join(users, name))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// servers connects to servers ("host:port"). macOS 15 and later answers EHOSTUNREACH for a program without Local
// Network, and so does the network for a server that is away.
func (m mac) servers(ctx context.Context, servers []string) (allowed event.Allowed, noWay string) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	errs := make([]error, len(servers))
	var dials sync.WaitGroup
	for i, address := range servers {
		dials.Go(func() { errs[i] = m.dial(ctx, address) })
	}
	dials.Wait()
	allowed = event.Unknown
	for i, err := range errs {
		switch {
		case errors.Is(err, syscall.EHOSTUNREACH):
			return event.Doubtful, servers[i]
		case err == nil, errors.Is(err, syscall.ECONNREFUSED):
			allowed = event.Granted
		}
	}
	return allowed, ""
}

// access returns what checks what macOS allows this process for the jobs; nil on other systems.
func (l *jobList) access(ctx context.Context) func() *event.Access {
	if runtime.GOOS != "darwin" {
		return nil
	}
	return func() *event.Access { return newMac().accessOf(ctx, l.all()) }
}

// accessOf checks what macOS allows this process for jobs.
func (m mac) accessOf(ctx context.Context, jobs []*job.Job) *event.Access {
	var sources, servers []string
	for _, j := range jobs {
		sources = append(sources, j.Sources...)
		if at, err := location.Parse(j.Repository); err == nil && at.OnServer() {
			servers = append(servers, at.Address.Dialled())
		}
	}
	slices.Sort(servers)
	found := &event.Access{}
	found.FullDisk, found.Hidden = m.fullDisk(sources)
	found.Servers, found.NoWay = m.servers(ctx, slices.Compact(servers))
	return found
}

// askAccess asks a service that starts what macOS allows it: the answer for the terminal is another one. nil: the
// service does not answer in time, or does not know.
func askAccess(ctx context.Context, s control.Service) *event.Access {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		d, err := s.Do(ctx, control.Command{Action: control.CheckAccess})
		if !errors.Is(err, control.ErrNoDaemon) {
			return d.Access // nil with an error
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// adviceFor says what to allow a service, from what it found; found nil: nothing is known. root is exempt from Local
// Network.
func adviceFor(found *event.Access, program string, root bool) (notes []string) {
	const again = "; then run 'tidemark service uninstall' and 'tidemark service install' again"
	if found == nil {
		found = &event.Access{FullDisk: event.Unknown, Servers: event.Unknown}
	}
	switch found.FullDisk {
	case event.Denied:
		notes = append(notes, "macOS hides "+found.Hidden+" and more from the service, so backups lack it: "+
			fullDiskAccess(program)+again)
	case event.Unknown:
		notes = append(notes, "macOS hides the data of many programs, unless the service may read them: "+
			fullDiskAccess(program))
	}
	switch {
	case found.Servers == event.Doubtful && root:
		notes = append(notes, "the service finds no way to "+found.NoWay+": see whether it is switched on")
	case found.Servers == event.Doubtful:
		notes = append(notes, "the service finds no way to "+found.NoWay+": see whether it is switched on; "+
			localNetwork+again)
	case found.Servers == event.Unknown && !root:
		notes = append(notes, localNetwork)
	}
	return notes
}

// watch shows the progress of a backup until stop is called, which prints what to allow on macOS.
func (a *app) watch(ctx context.Context, l *report.Ledger) (stop func()) {
	var hidden atomic.Bool
	l.OnIssue(func(i report.Issue) {
		if hiddenBy(runtime.GOOS, i) {
			hidden.Store(true)
		}
	})
	end := a.print.Watch(ctx, l)
	return func() {
		end()
		if hidden.Load() {
			a.print.Note("macOS hides files of other programs from tidemark: " + fullDiskAccess(a.Program) +
				"; then run it again")
		}
	}
}

// hiddenBy reports whether a system hides a file from a program without Full Disk Access: opening it is EPERM, where
// missing permissions of a file are EACCES.
func hiddenBy(system string, i report.Issue) bool {
	return system == "darwin" && errors.Is(i.Err, syscall.EPERM) && scope.Within(i.Path, "/Users")
}

// fullDiskAccess says how to give a program that permission.
func fullDiskAccess(program string) string {
	return "open System Settings, Privacy & Security, Full Disk Access, and add " + program +
		" for the service, or the terminal for commands by hand"
}

// localNetwork says how a service of a user reaches a server in macOS 15 and later; those of root always do.
const localNetwork = "from macOS 15 on, allow tidemark in System Settings, Privacy & Security, Local Network, or " +
	"when macOS asks; without it, the service finds no way to a server of its network"
