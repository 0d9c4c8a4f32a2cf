package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// prober tries one thing after another and writes the report.
type prober struct {
	ctx    context.Context
	folder folder
	lock   func() error
	held   func() uint64 // requests that waited for somebody who had the file open; nil: there are none
	report *Report
	now    func() time.Time
	device device.Info
	stable bool // the type of the file system is known to keep inode numbers
	share  bool // we talk to the server ourselves
	full   bool // nothing can be written, so that nothing else is tried
}

// all runs the probes of a mounted folder.
func (p *prober) all() error {
	return p.each(p.write, p.rename, p.flush, p.flushNames, p.names, p.foldsCase, p.otherNames, p.times, p.inodes, p.locks)
}

// each runs some probes. Only a refusal, the loss of the target, or the end of ctx, ends them early.
func (p *prober) each(probes ...func() error) error {
	for _, probe := range probes {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		if p.full {
			return nil
		}
		err := probe()
		if errors.Is(err, localfs.ErrStopped) {
			return err
		}
		if err != nil {
			return &refusal{err}
		}
	}
	return nil
}

// judge turns a refusal by a server into a row of the report. What is left says nothing about the server.
func (p *prober) judge(err error) error {
	if err == nil || ends(err) || p.ctx.Err() != nil {
		return err
	}
	p.refused(err)
	return nil
}

// otherWay says what else there is than what was tried.
func (p *prober) otherWay() string {
	if p.share {
		return "another share, or other settings of the server (mangled names, catia)"
	}
	return "another way to mount it"
}

// away reports whether err says that the file system is not there any more, or its server or daemon.
func away(err error) bool {
	for _, errno := range []unix.Errno{
		unix.ENOTCONN, unix.ESTALE, unix.ENODEV, unix.ENXIO, unix.ESHUTDOWN, unix.EHOSTDOWN, unix.EHOSTUNREACH,
		unix.ECONNABORTED, unix.ECONNRESET, unix.ETIMEDOUT,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// refused says what the target's refusal means.
func (p *prober) refused(err error) {
	remedy := "tidemark cannot keep a repository here: look at what the system says, and at its log"
	switch {
	case errors.Is(err, store.ErrNoSpace):
		remedy = store.FreeSpace + ", or raise the quota on the server, and check again"
	case errors.Is(err, store.ErrDenied):
		remedy = "let this user write: on the share, in this folder, and on the server's disk"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		remedy = store.FreeSpace + ", or raise the quota, and check again"
	case errors.Is(err, unix.EROFS):
		remedy = "mount it for writing"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		remedy = "run as the user who owns the folder, or grant this user access to it"
	case away(err), errors.Is(err, unix.EIO), errors.Is(err, localfs.ErrVanished):
		remedy = "the target went away or fails: connect or mount it, and check again"
	case p.share:
		remedy = "tidemark cannot keep a repository here: look at the log of the server"
	}
	p.report.add("write", Unfit, fmt.Sprintf("the target refuses: %v", store.Brief(err)), remedy)
}

// fileSystem reports what is known without trying anything.
func (p *prober) fileSystem(info localfs.FSInfo) {
	what := fmt.Sprintf("%s on %s. %s", info.Type, orUnknown(p.device.Name()), p.device.Why)
	switch {
	case info.Pseudo:
		p.report.add("file system", Unfit, what, "choose a folder on a disk or a share")
	case info.ReadOnly:
		p.report.add("file system", Unfit, what+" It is mounted read-only.", "mount it for writing")
	case p.device.Medium == device.Memory:
		p.report.add("file system", Degraded, what,
			"a repository here is gone when the machine is turned off; tidemark treats it as any other")
	case info.Remote:
		p.report.add("file system", Good, what,
			"what is written is read back, as the system in between answers for a machine that it does not control")
	default:
		p.report.add("file system", Good, what, "")
	}
}

func orUnknown(name string) string {
	if name == "" {
		return "an unknown device"
	}
	return name
}

// space reports how much may be written.
func (p *prober) space(s space) {
	what := s.String()
	switch {
	case s.files == 0 && s.allFiles > 0:
		p.report.add("space", Unfit, what, "the file system can hold no more files: remove some, and check again")
	case s.left() == 0 && s.size > 0: // what is kept for root counts as used: others rely on it
		p.full = true
		p.report.add("space", Unfit, what,
			"it is full: "+store.FreeSpace+", raise the quota, or choose a larger target, and check again")
	case s.left() < leastSpace:
		p.report.add("space", Degraded, what, store.FreeSpace+": a backup stops when it is used up; what it stored until then "+
			"is kept and not sent twice")
	default:
		p.report.add("space", Good, what, "")
	}
}
