package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// prober tries one thing after another and writes the report.
type prober struct {
	ctx    context.Context
	folder folder
	lock   func() error
	report *Report
	now    func() time.Time
	device device.Info
	stable bool // the type of the file system is known to keep inode numbers
}

// all runs the probes that need a folder. Only a refusal, or the end of ctx, ends them early.
func (p *prober) all() error {
	for _, probe := range []func() error{
		p.write, p.rename, p.flush, p.flushNames, p.names, p.foldsCase, p.otherNames, p.times, p.inodes, p.locks,
	} {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
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

// refused says what the target's refusal means.
func (p *prober) refused(err error) {
	remedy := "tidemark cannot keep a repository here: look at what the system says, and at its log"
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		remedy = "free some space or raise the quota, and check again"
	case errors.Is(err, unix.EROFS):
		remedy = "mount it for writing"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		remedy = "run as the user who owns the folder, or grant this user access to it"
	case errors.Is(err, unix.ESTALE), errors.Is(err, unix.ENOTCONN), errors.Is(err, unix.EIO), errors.Is(err, localfs.ErrVanished):
		remedy = "the target went away or fails: connect or mount it, and check again"
	}
	p.report.add("write", Unfit, fmt.Sprintf("the target refuses: %v", err), remedy)
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
	case s.left() < leastSpace:
		p.report.add("space", Degraded, what, "free some space: a backup stops when it is used up; what it stored until then "+
			"is kept and not sent twice")
	default:
		p.report.add("space", Good, what, "")
	}
}
