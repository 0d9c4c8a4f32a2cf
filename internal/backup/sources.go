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
	Command string  // accepts it once; "": the same backup with --expect-shrink
}

const (
	defaultShrink = 50
	// leastFiles is how many files a source must have had: of a few, half is soon removed on purpose.
	leastFiles = 10
	// leastBytes is how many bytes a source must have lost: of less, half is soon removed on purpose.
	leastBytes = 64 << 10
	// leastChanged is how many files must have changed before a part of all is worth a warning.
	leastChanged = 20
)

// Found is what a backup found of one source.
type Found struct {
	Path string
	snapshot.Held
	Message string // why the snapshot is doubted; "": it is not
	Warning string // most of its files changed, or it is a symbolic link; "": neither
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
func (job *Job) judge(found []*place, listed []repo.Listed, from *parents, l *report.Ledger) (all []Found) {
	if job.Stdin != nil {
		return nil
	}
	for i, path := range job.Label.Sources {
		f := Found{Path: path}
		p := found[i]
		if p != nil {
			f.Count, f.Failed = p.amount.Count, p.amount.failed
			if f.Warning = p.amount.warning(path, from.had(job, path)); p.link {
				f.Warning = "source " + human.Printable(path) + " is a symbolic link, and only the link is backed up: " +
					"name what it leads to"
			}
		}
		var before earlier
		for _, before = range job.before(listed, path) {
			if f.State, f.Message = job.state(path, p, &before); f.State != snapshot.Whole {
				break
			}
		}
		if f.State == snapshot.Whole && p != nil && p.found && p.amount.Files == 0 && job.unseen(listed, path) {
			f.State, f.Message = snapshot.Empty, "the folder is empty. Is its disk mounted?"+job.ifRight()
		}
		if f.State == snapshot.Whole && job.Source.Shrink.Accept {
			f.Accepted = 1
		}
		if f.State != snapshot.Whole {
			f.Expected, f.Failed = before.Count, max(f.Failed, 1)
			if f.State != snapshot.Unreadable || p.err != nil { // otherwise each object in it was reported
				l.Doubt(path, errors.New(f.Message))
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
	case p.found && p.amount.Files == 0 && p.amount.failed > 0:
		return snapshot.Unreadable, "nothing in it could be read" + had
	case job.Source.Shrink.Accept || before.Files == 0:
		return snapshot.Whole, ""
	}
	if !slices.Equal(before.rules, job.Label.Rules) {
		had += "; the rules changed, too"
	}
	now := &p.amount.Count
	switch {
	case !p.found: // excluded by a rule, or it vanished
		return snapshot.Empty, "a rule excludes it" + had + "." + job.ifRight()
	case now.Files == 0:
		return snapshot.Empty, "the folder is empty" + had + mounted + job.ifRight()
	case now.Bytes == 0 && before.Bytes > 0:
		return snapshot.Empty, "it has " + amountOf(now) + had + "." + job.ifRight()
	case job.Source.Shrink.exceeded(before, now):
		return snapshot.Shrunk, "it has " + amountOf(now) + had + "." + job.ifRight()
	}
	return snapshot.Whole, ""
}

// ifRight says how to accept what a source has now.
func (job *Job) ifRight() string {
	if command := job.Source.Shrink.Command; command != "" {
		return " If that is right, run once: '" + command + "'"
	}
	return " If that is right, run the backup once with --expect-shrink"
}

// unseen reports whether a job of the service has never found a source as it should be. If it is empty, it may be on a
// disk that is not mounted, as it may have been in a backup by hand.
func (job *Job) unseen(listed []repo.Listed, source string) bool {
	return job.Label.Job != "" && !job.Source.Shrink.Accept && !slices.ContainsFunc(listed, func(l repo.Listed) bool {
		s := l.Snapshot
		if s == nil || s.Partial || s.Job == "" || s.Host != job.Label.Host {
			return false
		}
		h, known := s.HeldOf(source)
		return known && !h.Doubted()
	})
}

func (s ShrinkLimit) exceeded(before *earlier, now *snapshot.Count) bool {
	percent := s.Percent
	if percent == 0 {
		percent = defaultShrink
	}
	files, bytes := uint64(leastFiles), uint64(leastBytes)
	if before.partial { // it goes after a backup that is not in doubt
		files, bytes = 0, 0
	}
	less := func(before, now, least uint64) bool {
		return before >= least && float64(now) < float64(before)*(1-percent/100)
	}
	return less(before.Files, now.Files, files) || less(before.Bytes, now.Bytes, now.Bytes+bytes)
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
// so that a snapshot with the rules of this job comes first. The one that held the source may have other rules.
func (job *Job) lastWhole(listed []repo.Listed, source string) earlier {
	same := lastWhole(listed, source, func(s *snapshot.Snapshot) bool {
		return s.Host == job.Label.Host && slices.Equal(s.Rules, job.Label.Rules)
	})
	if same.Files > 0 && !same.id.IsZero() {
		return same
	}
	// Snapshots with these rules may all be in doubt, since one with other rules had more.
	all := lastWhole(listed, source, func(s *snapshot.Snapshot) bool { return s.Host == job.Label.Host })
	if same.Files > 0 && same.Count != all.Count {
		return same
	}
	return all
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

// had returns how many files the snapshot compared with has of a source; 0: it is not known.
func (p *parents) had(job *Job, source string) uint64 {
	if p.Damaged { // files that it has may look new
		return 0
	}
	for _, l := range p.from {
		if job.covers(l, source) {
			h, _ := l.Snapshot.HeldOf(source)
			return h.Files
		}
	}
	return 0
}

// warning reports that most files of a source changed, as when ransomware encrypts them. had is the number of its files
// in the snapshot before, if it is known. Files that are gone count if as many new ones came.
func (a *amount) warning(path string, had uint64) string {
	all := a.Files + a.unread
	if had == 0 {
		had = all - min(all, a.fresh)
	}
	renamed := min(a.fresh, had+a.fresh-min(all, had+a.fresh))
	changed, what := a.rewritten+renamed, "have other content than in the snapshot before"
	switch {
	case a.unread > changed:
		changed, what = a.unread, "could be read in the snapshot before, and cannot now"
	case renamed > 0:
		what = "have other content or names than in the snapshot before"
	}
	if changed < leastChanged || changed <= had/2 {
		return ""
	}
	return fmt.Sprintf("source %s: %s of %s files %s", human.Printable(path), human.Count(changed), human.Count(had), what)
}
