package daemon

import (
	"path/filepath"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// Remote reports whether the repository of a job is on another machine.
func Remote(j *job.Job) bool {
	at, err := location.Parse(j.Repository)
	if err != nil || at.OnServer() {
		return err == nil
	}
	if !filepath.IsAbs(at.Folder) {
		return false // it is below a disk
	}
	info, err := device.NewFinder().Of(at.Folder)
	return err == nil && info.Medium == device.Remote
}

// patience bounds what the loop waits for: a share that does not answer blocks each access to it.
const patience = 3 * time.Second

// examine finds out whether a job needs the network. A look at a mounted share that hangs is given up, and not repeated
// while it hangs.
func (s *service) examine(j *live) {
	j.remote = false
	if j.looking == nil {
		j.looking = make(chan bool, 1)
		go func(to chan<- bool, of *job.Job) { to <- s.Remote(of) }(j.looking, j.job)
	}
	select {
	case j.remote = <-j.looking:
		j.looking = nil
	case <-time.After(patience):
	}
}
