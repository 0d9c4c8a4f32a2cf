package daemon

import (
	"strconv"

	"github.com/tidemark-backup/tidemark/internal/record"
)

// drillFiles is how many files a restore drill restores.
const drillFiles = 20

// step returns a step of the run of a job.
func (s *service) step(j *live, name string) Step {
	return Step{Name: name, Args: s.args(j, name), Options: j.run.job.Content, Grace: j.run.job.Grace(name == "backup"),
		Failed: record.FailedFile(s.StateDir, j.run.rec.ID, name)}
}

// args returns the arguments of a step for this program.
func (s *service) args(j *live, name string) []string {
	r := j.run
	o := r.job.Spec.Job()
	command := name
	if name == "drill" {
		command = "check"
	}
	args := []string{command, "--option-file", r.job.File, "--json"}
	if r.job.Server != "" {
		args = append(args, "--server-name", r.job.Server)
	}
	if r.job.Group != "" && !r.job.Copies { // else the name of the server says it
		args = append(args, "--repo", r.job.Repository)
	}
	if name != "backup" && name != copyStep && r.job.Spec.IO().Auto {
		args = append(args, "--policy", "throttle") // it is not urgent; a backup chooses by itself
	}
	// Other machines and jobs may use the same repository, with policies of their own.
	own := []string{"--host", s.Host, "--exact-paths"}
	for _, source := range r.job.Sources {
		own = append(own, "--path", source)
	}
	switch name {
	case "backup":
		args = append(args, "--job", r.job.Name)
	case copyStep:
		args = append(append(args, "--new"), own...)
	case "forget":
		args = append(append(args, "--keep", o.Keep), own...)
	case "check":
		if now := s.Clock.Now(); now.Sub(j.Checked) < o.CheckEvery/10*9 || o.CheckEvery == 0 {
			break // only known damage is looked for
		}
		if c := r.job.Spec.Cache(); c.Enabled && c.Dir != "" {
			args = append(args, "--read-data-rolling", strconv.Itoa(o.CheckParts))
		} else { // without a cache it is not known what was read when
			args = append(args, "--read-data-subset", strconv.FormatFloat(100/float64(o.CheckParts), 'f', 3, 64)+"%")
		}
	case "drill":
		args = append(args, "--restore-sample", strconv.Itoa(drillFiles))
	}
	return args
}
