package output

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// DefinedJobs lists the jobs of an option file, each with its next time. Without a file, its name is "".
func DefinedJobs(list []*job.Job, invalid []job.Invalid, file string, now time.Time) Record {
	var all []any
	t := table{head: []string{"Job", "Schedule", "Next", "Repository~", "Sources~"}}
	for _, j := range list {
		e, next := definition(j, now, 1), "-"
		if len(e.Next) > 0 {
			next = e.Next[0].Format(dateMinute)
		}
		t.add(j.Name, human.Printable(e.Schedule), next, human.Printable(j.Repository),
			human.Printable(strings.Join(j.Sources, " ")))
		all = append(all, event.Of("job_definition", e))
	}
	for _, one := range invalid {
		all = append(all, event.Of("job_definition", &event.JobDefinition{Name: one.Name, File: file,
			Sources: []string{}, Next: []time.Time{}, Problem: one.Err.Error()}))
	}
	return &result{func(w *show.Page) {
		if len(all) == 0 {
			where := "there is no option file"
			if file != "" {
				where = "there is no job in " + human.Printable(file)
			}
			fmt.Fprintf(w, "%s: 'tidemark job add' makes one\n", where)
			return
		}
		t.write(w)
		for _, one := range invalid {
			w.Linef("%s: invalid: %s", human.Printable(one.Name), oneLine(one.Err.Error()))
		}
		fmt.Fprintf(w, "\noption file: %s\n", human.Printable(file))
	}, all}
}

// oneLine returns the lines of a message in one.
func oneLine(text string) string { return human.Harmless(strings.ReplaceAll(text, "\n", "; ")) }

// dateMinute is the layout of a time of a schedule.
const dateMinute = "2006-01-02 15:04"

// shownTimes is how many times of a schedule are shown.
const shownTimes = 5

// DefinedJob is one job of an option file, its next times, and its options.
func DefinedJob(j *job.Job, now time.Time) Record {
	options, e := shownOptions(j.Spec), definition(j, now, shownTimes)
	e.Options = eventsOf("option", options)
	var next []string
	for _, at := range e.Next {
		next = append(next, at.Format(dateMinute+" Mon -0700"))
	}
	if len(next) == 0 {
		next = []string{"none; start it by hand"}
	}
	const indent = "\n              "
	return one("job_definition", e, func(w *show.Page) {
		fmt.Fprintf(w, "job %s\n  schedule    %s\n  next        %s\n  sources     %s\n  repository  %s\n  "+
			"options     %s\n\n", j.Name, human.Printable(e.Schedule), strings.Join(next, indent),
			printableList(j.Sources, indent), human.Printable(j.Repository), human.Printable(j.File))
		writeOptions(w, options)
	})
}

// shownOptions returns the options that are set, and those of the service that have a value.
func shownOptions(spec *options.Spec) []options.Effective {
	service := map[string]bool{}
	for _, o := range options.Table() {
		service[o.Name] = o.Group == options.GroupJob || o.Group == options.GroupNotify
	}
	return slices.DeleteFunc(spec.Effective(), func(one options.Effective) bool {
		return one.Origin == "default" && (!service[one.Name] || one.Value == "")
	})
}

func definition(j *job.Job, now time.Time, times int) *event.JobDefinition {
	return &event.JobDefinition{
		Name: j.Name, File: j.File, Sources: j.Sources, Repository: j.Repository,
		Schedule: j.Schedule.String(), Next: nextTimes(j, now, times),
	}
}

// nextTimes returns the next n times of the schedule; fewer if it has no more.
func nextTimes(j *job.Job, now time.Time, n int) []time.Time {
	all := []time.Time{}
	for at := j.Schedule.Next(now); len(all) < n && !at.IsZero(); at = j.Schedule.Next(at) {
		all = append(all, at)
	}
	return all
}
