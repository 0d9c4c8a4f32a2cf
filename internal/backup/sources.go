package backup

import (
	"cmp"
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

	ifRight = ". If that is right, run the backup once with --expect-shrink"
)

// Found is what a backup found of one source.
type Found struct {
	Path string
	snapshot.Held
	Message string // why the snapshot is doubted; "": it is not
	Warning string // most of its files changed; "": they did not
}

// earlier is what a snapshot holds of a source: the last one that held it whole, or a later partial one.
type earlier struct {
	snapshot.Count
	id      format.ID // zero: the snapshot was removed
	at      tree.Time
	rules   []string
	partial bool
}

// String describes it for a message.
func (e *earlier) String() string {
	text := "it had " + amountOf(&e.Count)
	if e.id.IsZero() {
		return text
	}
	kind := "snapshot"
	if e.partial {
		kind = "partial snapshot"
	}
	return fmt.Sprintf("%s in %s %s of %s", text, kind, e.id.Short(), time.Unix(e.at.Sec, 0).Format("2006-01-02 15:04"))
}

func amountOf(c *snapshot.Count) string {
	return human.Plural(c.Files, "file") + " (" + human.Size(c.Bytes) + ")"
}

// judge compares what was found of each source with what earlier snapshots of this host hold of it. A source that lost
// data is recorded as a failure.
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
		for _, before := range job.before(listed, path) {
			if f.State, f.Message = job.state(path, p, &before); f.State == snapshot.Whole {
				continue
			}
			f.Expected, f.Failed = before.Count, max(f.Failed, 1)
			if f.State != snapshot.Unreadable || p.err != nil { // otherwise each object in it was reported
				l.Fail(path, "source", errors.New(f.Message))
			}
			break
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
	case !p.found && !before.partial: // excluded by a rule
		return snapshot.Whole, ""
	case p.amount.Files == 0 && p.amount.failed > 0:
		return snapshot.Unreadable, "nothing in it could be read" + had
	case job.Source.Shrink.Accept:
	case !p.found:
		return snapshot.Empty, "a rule excludes it" + had + ifRight
	case p.amount.Files == 0 && before.Files > 0:
		return snapshot.Empty, "the folder is empty" + had + mounted
	case before.comparable(job.Label.Rules) && job.Source.Shrink.exceeded(&before.Count, &p.amount.Count):
		return snapshot.Shrunk, "it has " + amountOf(&p.amount.Count) + had + ifRight
	}
	return snapshot.Whole, ""
}

// comparable reports whether a backup with some rules should have about as much. A partial snapshot goes after such a
// backup, so that one with other rules is compared with it, too, and one of a few files.
func (e *earlier) comparable(rules []string) bool {
	return e.partial || e.Files >= leastFiles && slices.Equal(e.rules, rules)
}

func (s ShrinkLimit) exceeded(before, now *snapshot.Count) bool {
	percent := s.Percent
	if percent == 0 {
		percent = defaultShrink
	}
	less := func(before, now uint64) bool { return float64(now) < float64(before)*(1-percent/100) }
	return less(before.Files, now.Files) || less(before.Bytes, now.Bytes)
}

// before returns what is expected of a source, the largest first: what the last snapshot has that held it whole, and
// what partial snapshots have that no such one follows.
func (job *Job) before(listed []repo.Listed, source string) (all []earlier) {
	for _, l := range listed {
		if l.Snapshot == nil || !l.Snapshot.Partial || l.Snapshot.Host != job.Label.Host {
			continue
		}
		h, ok := l.Snapshot.HeldOf(source)
		if ok && !slices.ContainsFunc(listed, func(whole repo.Listed) bool {
			_, follows := repo.Follows(l.Snapshot, whole.Snapshot, source)
			return follows
		}) {
			all = append(all, earlier{h.Count, l.ID, l.Snapshot.Time, l.Snapshot.Rules, true})
		}
	}
	all = append(all, job.lastWhole(listed, source))
	slices.SortStableFunc(all, func(a, b earlier) int { return cmp.Compare(b.Files, a.Files) })
	return all
}

// lastWhole returns what the last snapshot has that held a source whole. With other rules a backup takes more or less,
// so that a snapshot with the rules of this job comes first.
func (job *Job) lastWhole(listed []repo.Listed, source string) earlier {
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
		if l.Snapshot == nil || l.Snapshot.Partial || !of(l.Snapshot) {
			continue
		}
		h, ok := l.Snapshot.HeldOf(source)
		switch {
		case !ok:
		case !h.Doubted() && (!known || e.Count == h.Count):
			return earlier{h.Count, l.ID, l.Snapshot.Time, l.Snapshot.Rules, false}
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
