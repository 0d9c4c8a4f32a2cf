package cli

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/scope"
)

// privacy notices what macOS hides from a program without Full Disk Access: opening it is EPERM, where missing
// permissions of a file are EACCES.
type privacy struct {
	system string // runtime.GOOS
	hidden atomic.Uint64
}

// watch shows the progress of a backup until stop is called, which prints what to allow on macOS.
func (a *app) watch(ctx context.Context, l *report.Ledger) (stop func()) {
	p := &privacy{system: runtime.GOOS}
	l.OnIssue(p.see)
	end := a.print.Watch(ctx, l)
	return func() {
		end()
		if advice := p.advice(a.Program); advice != "" {
			a.print.Note(advice)
		}
	}
}

// see takes an issue of a backup.
func (p *privacy) see(i report.Issue) {
	if p.system == "darwin" && errors.Is(i.Err, syscall.EPERM) && scope.Within(i.Path, "/Users") {
		p.hidden.Add(1)
	}
}

// advice says how to give a program Full Disk Access; "" if nothing was hidden.
func (p *privacy) advice(program string) string {
	if p.hidden.Load() == 0 {
		return ""
	}
	return "macOS hides files of other programs from tidemark: " + fullDiskAccess(program) + "; then run it again"
}

func fullDiskAccess(program string) string {
	return "open System Settings, Privacy & Security, Full Disk Access, and add " + program +
		" for the service, or the terminal for commands by hand"
}

// localNetwork says how a service of a user reaches a server in macOS 15 and later; those of root always do.
const localNetwork = "from macOS 15 on, allow tidemark in System Settings, Privacy & Security, Local Network, or " +
	"when macOS asks; without it, the service finds no way to a server of its network"
