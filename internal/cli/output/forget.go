package output

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// ForgottenGroup is what becomes of the snapshots of one group.
type ForgottenGroup struct {
	Heading  string
	Verdicts []forget.Verdict
	Waits    string // why the policy removes none; "": it may
}

// Forgotten is what a forget drops.
type Forgotten struct {
	Groups []ForgottenGroup
	Named  bool // by their IDs, and not by a policy
	DryRun bool
	Prune  bool // a prune follows

	Dropped map[format.ID]bool // those that are gone
	Undo    bool               // they can be brought back
}

// Drop returns the snapshots that go.
func (f *Forgotten) Drop() (drop []repo.Listed) {
	for _, g := range f.Groups {
		for _, v := range g.Verdicts {
			if !v.Keep {
				drop = append(drop, v.Listed)
			}
		}
	}
	return drop
}

// Text writes a table for each group: what stays and why, and what goes.
func (f *Forgotten) Text(w *show.Page) {
	dropped, kept := uint64(0), uint64(0)
	for _, g := range f.Groups {
		if g.Heading != "" {
			w.Linef("%s", g.Heading)
		}
		if g.Waits != "" {
			w.Linef("waits: nothing is removed, since %s", g.Waits)
		}
		t := table{head: []string{"", "ID", "Time", "Host~", "Tags~", "Reasons|"}}
		for _, v := range g.Verdicts {
			word := "remove"
			switch {
			case v.Keep:
				word = "keep"
				kept++
			case f.failed(&v):
				word = "failed"
			default:
				dropped++
			}
			if v.Snapshot == nil {
				t.add(word, v.ID.Short(), "?", "cannot be read", "", "")
				continue
			}
			t.add(word, v.ID.Short(), stamp(v.Snapshot.Time), human.Printable(v.Snapshot.Host),
				printableList(v.Snapshot.Tags, ","), strings.Join(v.Reasons, ", "))
		}
		if len(g.Verdicts) > 0 {
			t.write(w)
		}
	}
	fmt.Fprintf(w, "%s: %s", would(f.DryRun, "removed"), human.Plural(dropped, "snapshot"))
	if !f.Named {
		fmt.Fprintf(w, "; kept: %d", kept)
	}
	fmt.Fprintln(w)
	switch {
	case dropped == 0 || f.DryRun:
	case !f.Undo:
		fmt.Fprintln(w, "they cannot be brought back, since the disk is full")
	case !f.Prune:
		w.Linef("'tidemark forget --undo ID' brings one back until a prune removes its data")
	}
}

// failed reports whether a snapshot that was to go is still there.
func (f *Forgotten) failed(v *forget.Verdict) bool { return !f.DryRun && !v.Keep && !f.Dropped[v.ID] }

// Judged is the event of a snapshot that was judged by a forget.
type Judged struct {
	DryRun  bool     `json:"dry_run,omitempty"`
	ID      string   `json:"id"`
	ShortID string   `json:"short_id"`
	Keep    bool     `json:"keep"`
	Failed  bool     `json:"failed,omitempty"`
	Reasons []string `json:"reasons"`
	Waits   string   `json:"waits,omitempty"`
	Host    string   `json:"hostname"`
	Time    string   `json:"time"`
	Tags    []string `json:"tags"`
	Paths   []string `json:"paths"`
}

// Events returns an object for each snapshot.
func (f *Forgotten) Events() []any {
	var all []any
	for _, g := range f.Groups {
		for _, v := range g.Verdicts {
			j := &Judged{DryRun: f.DryRun, ID: v.ID.String(), ShortID: v.ID.Short(), Keep: v.Keep,
				Failed: f.failed(&v), Reasons: append([]string{}, v.Reasons...), Waits: g.Waits, Tags: []string{},
				Paths: []string{}}
			if s := v.Snapshot; s != nil {
				j.Host, j.Time = s.Host, s.Time.Std().Format("2006-01-02T15:04:05.999999999Z07:00")
				j.Tags = append(j.Tags, s.Tags...)
				j.Paths = event.Paths(s.Sources)
			}
			all = append(all, event.Of("forget", j))
		}
	}
	return all
}

func would(dry bool, what string) string {
	if dry {
		return "would be " + what
	}
	return what
}
