package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// settleTime is the age from which on an option file is read: a younger one may still be written.
const settleTime = 2 * time.Second

// errYoung: the option file was changed a moment ago.
var errYoung = errors.New("the option file is changing; the service reads it within a minute")

// stamp identifies a version of the option file.
type stamp struct {
	size     int64
	modified time.Time
	exists   bool
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime(), true}
}

// young reports whether the file may still be written.
func (f stamp) young(now time.Time) bool {
	age := now.Sub(f.modified)
	return f.exists && age >= 0 && age < settleTime
}

// firstLoad reads the option file when the service starts, which it does even if no job can be used, unless there is no
// file, or the service ends after its runs.
func (s *service) firstLoad() error {
	err := errYoung
	for range 5 {
		if !stampOf(s.OptionFile).young(s.Clock.Now()) {
			err = s.reload("")
		}
		if !errors.Is(err, errYoung) {
			break
		}
		<-s.Clock.After(settleTime)
	}
	if err != nil && (s.Once || errors.Is(err, os.ErrNotExist)) {
		return err
	}
	s.unusable(err)
	return nil
}

// reload reads the option file. Runs go on with the options they began with. A job that is not there any more is
// reported, except for the one that was removed.
func (s *service) reload(removed string) error {
	before := stampOf(s.OptionFile)
	jobs, invalid, err := s.Load()
	if stampOf(s.OptionFile) != before {
		return errYoung
	}
	s.read = before
	if err != nil {
		return err
	}
	s.problem, s.state.Problem = "", ""
	was := s.jobs
	old := slices.Concat(was, s.left)
	s.jobs = nil
	for _, one := range jobs {
		s.jobs = append(s.jobs, s.define(old, one))
	}
	s.invalid = nil
	for _, one := range invalid {
		s.keep(old, one)
	}
	s.left = slices.DeleteFunc(old, func(j *live) bool { return j.run == nil || slices.Contains(s.jobs, j) })
	for _, j := range slices.Clone(s.left) {
		if j.run.process == nil { // it waits, and no order could name it
			j.run.end = stopped
			s.finish(j)
		}
	}
	text := s.OptionFile + ": " + human.Plural(uint64(len(jobs)), "job")
	if len(invalid) > 0 {
		text += fmt.Sprintf(", %d invalid", len(invalid))
	}
	text += s.nextRun()
	s.send(&record.Event{Kind: record.Loaded, Text: text})
	s.reportGone(was, removed)
	return nil
}

// nextRun says which job is due next and when; "" if one is due now, or none ever.
func (s *service) nextRun() string {
	var first *live
	var when time.Time
	for _, j := range s.jobs {
		if at, _ := s.dueTime(j); !j.Paused && !at.IsZero() && (first == nil || at.Before(when)) {
			first, when = j, at
		}
	}
	if first == nil || !when.After(s.Clock.Now()) {
		return ""
	}
	return fmt.Sprintf("; the next run: %s at %s", first.job.Name, when.Format("2006-01-02 15:04"))
}

// reportGone reports the jobs that are not in the option file any more: it may have been cut off.
func (s *service) reportGone(was []*live, removed string) {
	for i, j := range was {
		name := cmp.Or(j.job.Group, j.job.Name)
		same := func(o *live) bool { return strings.EqualFold(cmp.Or(o.job.Group, o.job.Name), name) }
		if slices.ContainsFunc(s.jobs, same) || slices.ContainsFunc(was[:i], same) || strings.EqualFold(name, removed) {
			continue
		}
		s.send(&record.Event{Kind: record.Invalid, Job: name, Text: "job " + name +
			" is no longer in the option file and does not run any more; if that is not meant, put it back"})
	}
}

func named(jobs []*live, name string) *live {
	i := slices.IndexFunc(jobs, func(j *live) bool { return strings.EqualFold(j.job.Name, name) })
	if i < 0 {
		return nil
	}
	return jobs[i]
}

// define returns a valid job with its state.
func (s *service) define(old []*live, one *job.Job) *live {
	j := named(old, one.Name)
	if j == nil || j.job.Name != one.Name {
		j = &live{memory: s.remembered(one.Name), job: one}
	}
	if j.run == nil && j.job.Schedule.String() != one.Schedule.String() {
		j.due = time.Time{}
	}
	j.job, j.invalid, j.Invalid = one, "", ""
	if j.run == nil {
		j.align(s.Clock.Now())
	}
	return j
}

// align forgets the results of a job whose repository is another one, or that has a new source: none of its backups is
// there, or has it. The state of a repository stays if only a source is new. A run has ended before.
func (j *live) align(now time.Time) {
	m, one := j.memory, j.job
	moved := m.Repository != one.Repository && (m.Repository != "" || one.Group != "")
	grown := m.Sources != nil && slices.ContainsFunc(one.Sources, func(source string) bool {
		return !slices.Contains(m.Sources, source)
	})
	if moved || grown {
		was := *m
		*m = memory{Since: now, Began: was.Began, Retry: was.Retry, Alert: was.Alert, Unsent: was.Unsent,
			Running: was.Running, LastRun: was.LastRun, Paused: was.Paused, PausedUntil: was.PausedUntil}
		if !moved {
			m.Pruned, m.Unused, m.Checked, m.Drilled = was.Pruned, was.Unused, was.Checked, was.Drilled
			m.Damage, m.Rechecked, m.RepoID = was.Damage, was.Rechecked, was.RepoID
		}
	}
	m.Repository, m.Sources = one.Repository, one.Sources
}

// learnRepository records the ID of the repository of a backup, "" if it is unknown. If another one was there before,
// at the same place, nothing is known of the new one.
func (m *memory) learnRepository(id string) (replaced bool) {
	if id == "" {
		return false
	}
	if replaced = m.RepoID != "" && m.RepoID != id; replaced {
		m.LastProven, m.Pruned, m.Checked, m.Drilled, m.Rechecked = time.Time{}, time.Time{}, time.Time{}, time.Time{},
			time.Time{}
		m.Damage, m.Unused = "", false
	}
	m.RepoID = id
	return replaced
}

// remembered returns what is remembered of a job, from now on if it is new.
func (s *service) remembered(name string) *memory {
	m := s.state.Jobs[name]
	if m == nil {
		now := s.Clock.Now()
		m = &memory{Since: now, Began: now}
		s.state.Jobs[name] = m
	}
	return m
}

// keep has a job with a mistake run as it was, if it was valid, and reports the mistake once.
func (s *service) keep(old []*live, one job.Invalid) {
	text := one.Err.Error()
	m := s.remembered(one.Name)
	valid := false
	for _, j := range old {
		if strings.EqualFold(j.job.Name, one.Name) || strings.EqualFold(j.job.Group, one.Name) {
			j.invalid, m, valid = text, j.memory, true
			s.jobs = append(s.jobs, j)
		}
	}
	if valid {
		text += "; it runs as it was before"
	} else {
		s.invalid = append(s.invalid, one)
		text += "; it does not run"
	}
	if m.Invalid != text {
		m.Invalid = text
		s.send(&record.Event{Kind: record.Invalid, Job: one.Name, Text: text})
	}
}

// reloadNow reads the option file, from which a job may have been removed on purpose. A file that cannot be used is
// reported and changes nothing.
func (s *service) reloadNow(removed string) error {
	s.notify("RELOADING=1")
	defer s.notify("READY=1")
	err := s.reload(removed)
	s.unusable(err)
	s.save()
	return err
}

// unusable reports once why no job of the option file can be used. A file that may still be written is read again.
func (s *service) unusable(err error) {
	if err == nil || errors.Is(err, errYoung) {
		return
	}
	s.problem = err.Error()
	if errors.Is(err, job.ErrUnfinished) {
		s.read = stamp{} // its end may come
	}
	if s.state.Problem != s.problem {
		s.state.Problem = s.problem
		s.send(&record.Event{Kind: record.Invalid, Text: "the option file cannot be used: " + s.problem +
			"; the jobs stay as they were"})
	}
}

// reloadChanged reads the option file if it is another one than was read, and may be complete. For one that ends within
// a line, that is reported after a minute.
func (s *service) reloadChanged(now time.Time) {
	file := stampOf(s.OptionFile)
	if !file.exists || file == s.read || file.young(now) {
		return
	}
	if err := s.reload(""); !errors.Is(err, job.ErrUnfinished) || now.Sub(file.modified) >= tick {
		s.unusable(err)
	} else {
		s.read = stamp{}
	}
	s.save()
}

// describeInvalid returns the state of the jobs that have never been valid.
func (s *service) describeInvalid() (all []event.DaemonJob) {
	for _, one := range s.invalid {
		m := s.remembered(one.Name)
		all = append(all, event.DaemonJob{Name: one.Name, Sources: []string{}, State: "invalid", Problem: one.Err.Error(),
			LastRun: brief(m.LastRun), Failures: m.Failures, Incomplete: m.Incomplete, LastBackup: m.LastBackup,
			LastProven: m.LastProven})
	}
	return all
}
