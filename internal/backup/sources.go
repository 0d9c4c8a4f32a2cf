package backup

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// ShrinkLimit is how much less a source may have than in the snapshot before.
type ShrinkLimit struct {
	Percent float64 // of its files or bytes; 0: defaultShrink
	Accept  bool    // whatever is there now is right
}

const (
	defaultShrink = 50
	// leastFiles is how many files a source must have had: of a few, half is soon removed on purpose.
	leastFiles = 10
	// leastChanged is how many files must have changed before a part of all is worth a warning.
	leastChanged = 100
)

// Found is what a backup found of one source.
type Found struct {
	Path string
	snapshot.Held
	Message string // why the snapshot is doubted; "": it is not
	Warning string // most of its files changed; "": they did not
}

// earlier is what the last snapshot holds that held a source whole.
type earlier struct {
	snapshot.Count
	id    format.ID // zero: the snapshot was removed
	at    tree.Time
	rules []string
}

// String describes it for a message.
func (e *earlier) String() string {
	text := "it had " + amountOf(&e.Count)
	if e.id.IsZero() {
		return text
	}
	return fmt.Sprintf("%s in snapshot %s of %s", text, e.id.Short(), time.Unix(e.at.Sec, 0).Format("2006-01-02 15:04"))
}

func amountOf(c *snapshot.Count) string {
	return human.Plural(c.Files, "file") + " (" + human.Size(c.Bytes) + ")"
}

// judge compares what was found of each source with what the last snapshot of this host holds of it. A source that
// lost data is recorded as a failure.
func (job *Job) judge(found []*place, listed []repo.Listed, l *report.Ledger) (all []Found) {
	if job.Stdin != nil {
		return nil
	}
	for i, path := range job.Label.Sources {
		f := Found{Path: path}
		p := found[i]
		if p != nil {
			f.Count, f.Failed = p.amount.Count, p.amount.failed
			f.Warning = p.amount.warning(path)
		}
		before := job.before(listed, path)
		f.State, f.Message = job.state(path, p, &before)
		if f.State != snapshot.Whole {
			f.Expected = before.Count
			f.Failed = max(f.Failed, 1)
			if f.State != snapshot.Unreadable || p.err != nil { // otherwise each object in it was reported
				l.Fail(path, "source", errors.New(f.Message))
			}
		}
		all = append(all, f)
	}
	return all
}

// state returns the state of a source, and why it is not whole.
func (job *Job) state(path string, p *place, before *earlier) (s snapshot.State, why string) {
	had, mounted := "", ""
	if before.Files > 0 {
		had, mounted = "; "+before.String(), ". Is its disk mounted?"
	}
	absent := job.Source.Absent[path]
	switch {
	case errors.Is(absent, ErrMissing):
		return snapshot.Missing, absent.Error() + had + mounted
	case absent != nil:
		return snapshot.Missing, absent.Error() + had
	case p == nil:
		return snapshot.Whole, ""
	case errors.Is(p.err, ErrMissing):
		return snapshot.Missing, p.err.Error() + had + mounted
	case p.err != nil:
		return snapshot.Unreadable, "it cannot be read: " + p.err.Error() + had
	case !p.found: // excluded by a rule
		return snapshot.Whole, ""
	case p.amount.Files == 0 && p.amount.failed > 0:
		return snapshot.Unreadable, "nothing in it could be read" + had
	case job.Source.Shrink.Accept:
	case p.amount.Files == 0 && before.Files > 0:
		return snapshot.Empty, "the folder is empty" + had + mounted
	case slices.Equal(before.rules, job.Label.Rules) && job.Source.Shrink.exceeded(&before.Count, &p.amount.Count):
		return snapshot.Shrunk, fmt.Sprintf("it has %s; %s. If that is right, run the backup once with --expect-shrink",
			amountOf(&p.amount.Count), before.String())
	}
	return snapshot.Whole, ""
}

func (s ShrinkLimit) exceeded(before, now *snapshot.Count) bool {
	percent := s.Percent
	if percent == 0 {
		percent = defaultShrink
	}
	less := func(before, now uint64) bool { return float64(now) < float64(before)*(1-percent/100) }
	return before.Files >= leastFiles && (less(before.Files, now.Files) || less(before.Bytes, now.Bytes))
}

// before returns what is expected of a source. With other rules a backup takes more or less of it, so that a snapshot
// with the rules of this job comes first.
func (job *Job) before(listed []repo.Listed, source string) earlier {
	same := lastWhole(listed, source, func(s *snapshot.Snapshot) bool {
		return s.Host == job.Label.Host && slices.Equal(s.Rules, job.Label.Rules)
	})
	if same.Files > 0 {
		return same
	}
	return lastWhole(listed, source, func(s *snapshot.Snapshot) bool { return s.Host == job.Label.Host })
}

// lastWhole returns what the last of some snapshots holds in which a source was whole.
func lastWhole(listed []repo.Listed, source string, of func(*snapshot.Snapshot) bool) (e earlier) {
	known := false
	for _, l := range slices.Backward(listed) {
		if l.Snapshot == nil || !of(l.Snapshot) {
			continue
		}
		h, ok := l.Snapshot.HeldOf(source)
		switch {
		case !ok:
		case !h.Doubted() && (!known || e.Count == h.Count):
			return earlier{h.Count, l.ID, l.Snapshot.Time, l.Snapshot.Rules}
		case !known:
			known, e = true, earlier{Count: h.Expected, rules: l.Snapshot.Rules}
		}
	}
	return e
}

// warning reports that most files of a source changed, as when ransomware encrypts them.
func (a *amount) warning(path string) string {
	all := a.Files + a.unread
	changed, what := a.rewritten, "have other content than in the snapshot before"
	if a.unread > changed {
		changed, what = a.unread, "could be read in the snapshot before, and cannot now"
	}
	if changed < leastChanged || changed <= all/2 {
		return ""
	}
	return fmt.Sprintf("source %s: %s of %s files %s", human.Printable(path), human.Count(changed), human.Count(all), what)
}
