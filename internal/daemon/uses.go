package daemon

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// Uses is what a run of a job occupies, so that no other run may use it at the same time.
type Uses struct {
	Repository string
	Remote     bool // the repository is on another machine
	Disks      []device.Info
}

// Examine returns what a job uses. Paths that cannot be examined use no disk: the run reports them.
func Examine(j *job.Job) Uses {
	u := Uses{Repository: j.Repository}
	finder := device.NewFinder()
	paths := slices.Clone(j.Sources)
	if at, err := location.Parse(j.Repository); err == nil {
		if u.Remote = at.OnShare(); !u.Remote && filepath.IsAbs(at.Folder) {
			paths = append(paths, at.Folder)
			info, err := finder.Of(at.Folder)
			u.Remote = err == nil && info.Medium == device.Remote
		}
	}
	for _, path := range paths {
		if info, err := finder.Of(path); err == nil {
			u.Disks = append(u.Disks, info)
		}
	}
	return u
}

// conflict returns what both use; "" for nothing.
func (u *Uses) conflict(v *Uses) string {
	if u.Repository == v.Repository {
		return "repository"
	}
	for _, a := range u.Disks {
		for _, b := range v.Disks {
			if device.Overlaps(a, b) {
				return fmt.Sprintf("disk %s", a.Name())
			}
		}
	}
	return ""
}

// patience bounds what the loop waits for: a share that does not answer blocks each access to it.
const patience = 3 * time.Second

// examine sets what a job uses. A look at a mounted share that hangs is given up, and not repeated while it hangs.
func (s *service) examine(j *live) {
	j.uses = Uses{Repository: j.job.Repository}
	if j.looking == nil {
		j.looking = make(chan Uses, 1)
		go func(to chan<- Uses, of *job.Job) { to <- s.Uses(of) }(j.looking, j.job)
	}
	select {
	case j.uses = <-j.looking:
		j.looking = nil
	case <-time.After(patience):
	}
}
