package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/reread"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/dircache"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Reread is what the re-read after a snapshot found: see Again.
type Reread struct {
	Files      uint64       `json:"files"` // reread
	Bytes      uint64       `json:"bytes"`
	Seconds    float64      `json:"seconds"`                     // not part of `total_duration`
	Unreadable []string     `json:"unreadable"`                  // lists: errors
	Differing  []event.Path `json:"differing"`                   // files with other content but the same change time
	Old        format.ID    `json:"old_snapshot,omitzero"`       // compared with, if files differ
	Protected  format.ID    `json:"protected_snapshot,omitzero"` // keeps the old content until removed by ID
}

// RereadOptions schedules the re-read.
type RereadOptions struct {
	Days int          // each unchanged file is read again at least once in so many days; 0: never
	All  bool         // read all files now, however long it takes
	Now  time.Time    // zero: the current time
	Boot sysinfo.Boot // zero: that of this machine
}

const (
	// rereadPause is the shortest time between two shares, so that frequent runs are not slowed.
	rereadPause = time.Hour
	// rereadLimit is the time after which a share ends. What it lacks is added to the next one.
	rereadLimit = time.Hour
	// bootFactor is how many daily shares are read in the first day after a boot.
	bootFactor = 4
	// scheduleGap stands for the time between two runs when the cache knows of one only.
	scheduleGap = 24 * time.Hour

	day = 24 * time.Hour
)

// rereadState is kept in the cache between runs.
type rereadState struct {
	Paid  time.Time // the shares up to this moment are read
	After []byte    // the path at which the last one ended

	Boot sysinfo.Boot // of the last run
	Runs [2]time.Time // when the last run and the one before it started
	Cut  bootState
}

// bootState is the re-read of what a power cut before the last boot may have damaged. A file system can lose power
// after it wrote the data of a file and before it wrote the inode: then the file has new data and its old times. Those
// files were being written to shortly before, so most of them have a time in the window of the last run.
type bootState struct {
	Window reread.Window // files with a time in it are read first; zero: none are left to read
	After  []byte        // the path at which the last walk through them ended
	Extra  uint64        // budget beside the ordinary shares
	Ends   time.Time     // Extra lapses then
}

// pending reports whether files of the window are left to read.
func (b *bootState) pending() bool { return !b.Window.Until.IsZero() }

// note records a run that started at start under boot, and begins a window if the machine has been booted since the
// last run. An earlier window that is not read yet becomes part of it. Of the runs within one rereadPause only the
// first is recorded, so that frequent runs do not write to the cache; it reports whether there is something to write.
func (s *rereadState) note(boot sysinfo.Boot, start, now time.Time, daily uint64) (changed bool) {
	if boot.Known() && s.Boot.Known() && boot.ID != s.Boot.ID && !s.Runs[0].IsZero() {
		from := s.Runs[1]
		if from.IsZero() {
			from = s.Runs[0].Add(-scheduleGap)
		}
		if s.Cut.pending() && s.Cut.Window.From.Before(from) {
			from = s.Cut.Window.From
		}
		until := boot.At
		if until.IsZero() || until.After(start) {
			until = start
		}
		s.Cut = bootState{
			Window: reread.Window{From: from, Until: until}, Extra: (bootFactor - 1) * daily, Ends: now.Add(day),
		}
	}
	if boot.Known() && boot.ID != s.Boot.ID {
		s.Boot, changed = boot, true
	}
	if gap := start.Sub(s.Runs[0]); gap >= rereadPause || gap < 0 {
		s.Runs, changed = [2]time.Time{start, s.Runs[0]}, true
	}
	if !now.Before(s.Cut.Ends) {
		s.Cut.Extra = 0
	}
	return changed
}

// RereadShare reads a share of the files of the snapshot of out again, such that each is read once in Days, and
// compares them with it. The share belongs to the time since the last one; the first run only begins to count. After a
// new boot the re-read begins with the files that a power cut may have changed without a trace, and takes bootFactor
// daily shares.
//
// The old content of a file that differs is kept by another snapshot of the same tree, which no policy of forget drops.
// The next backup reads the file whatever its times are. The result is nil if there was nothing to do.
func RereadShare(ctx context.Context, r *repo.Repository, job *Job, out *Outcome, opt RereadOptions) (*Reread, error) {
	if opt.All {
		opt.Days = max(opt.Days, 1)
	}
	if opt.Days <= 0 || out.ID.IsZero() || job.Stdin != nil || job.NoDirCache {
		return nil, nil
	}
	cache, err := r.DirCache()
	if err != nil || cache == nil {
		return nil, err
	}
	if opt.Now.IsZero() {
		opt.Now = time.Now()
	}
	if !opt.Boot.Known() {
		opt.Boot = sysinfo.ThisBoot()
	}
	s := &share{ctx: ctx, repo: r, job: job, out: out, cache: cache, now: opt.Now,
		report: &Reread{Unreadable: []string{}, Differing: []event.Path{}}}
	if err := s.load(opt); err != nil {
		return nil, err
	}
	start := time.Now()
	s.until = start.Add(rereadLimit)
	read := s.read
	if opt.All {
		read = s.readAll
	}
	readErr := read()
	s.report.Seconds = time.Since(start).Seconds()
	if len(s.differing) > 0 {
		s.report.Old = out.ID
		if err := s.protect(); err != nil {
			return s.report, err
		}
	}
	if readErr != nil && ctx.Err() == nil {
		return s.report, fmt.Errorf("read files again: %w", readErr)
	}
	if err := s.save(); err != nil || !s.walked {
		return nil, err
	}
	return s.report, nil
}

// share is the re-read after one run.
type share struct {
	ctx   context.Context
	repo  *repo.Repository
	job   *Job
	out   *Outcome
	cache *dircache.Cache
	now   time.Time
	until time.Time

	state  rereadState
	first  bool          // the cache knew of no earlier run: only begin to count
	dirty  bool          // state is not the one in the cache
	cycle  time.Duration // in which each file is read once
	total  uint64        // cost of all files of the snapshot
	walked bool
	report *Reread

	differing []string // those of the report, relative to the root
}

// load reads the state from the cache and adds this run to it.
func (s *share) load(opt RereadOptions) error {
	s.cycle = time.Duration(opt.Days) * day * 9 / 10 // a tenth is reserve for runs that are left out
	content := s.out.Snapshot.Stats.Content
	s.total = content.Bytes + reread.ObjectCost*(content.Files+content.Others)
	kept, err := s.cache.Value("reread " + s.job.cacheKey())
	if err != nil {
		return err
	}
	ahead := s.now.Add(time.Duration(opt.Days) * day)
	// the clock was set back
	if json.Unmarshal(kept, &s.state) != nil || s.state.Paid.IsZero() || s.state.Paid.After(ahead) {
		s.first, s.state = true, rereadState{Paid: s.now}
	}
	start := s.out.Snapshot.Start
	daily := uint64(float64(s.total) * float64(day) / float64(s.cycle))
	s.dirty = s.state.note(opt.Boot, start.Std(), s.now, daily)
	return nil
}

// readAll reads every file, from the first one on.
func (s *share) readAll() error {
	const forever = 100 * 365 * day
	s.walked, s.until = true, time.Now().Add(forever)
	found, err := s.walk(reread.Part{Budget: math.MaxUint64})
	if s.state.After = []byte(found.Reached); err == nil && found.Reached == "" {
		s.state.Paid = s.now
	}
	return err
}

func (s *share) save() error {
	if !s.dirty && !s.walked {
		return nil
	}
	kept, err := json.Marshal(&s.state)
	if err != nil {
		return err
	}
	return s.cache.SetValue("reread "+s.job.cacheKey(), kept)
}

// read spends the ordinary share that is due and the extra budget of a new boot: first on the window of the boot, then
// on the ordinary walk.
func (s *share) read() error {
	due := min(s.now.Sub(s.state.Paid), s.cycle)
	if due < rereadPause {
		due = 0
	}
	ordinary := uint64(float64(s.total) * float64(due) / float64(s.cycle))
	budget, cut := ordinary+s.state.Cut.Extra, &s.state.Cut
	if s.first || budget == 0 {
		return nil
	}
	s.walked = true
	var spent uint64
	defer func() { s.pay(spent, ordinary, due) }()
	if cut.pending() {
		found, err := s.walk(reread.Part{After: string(cut.After), Budget: budget, Times: &cut.Window})
		if spent, cut.After = found.Cost, []byte(found.Reached); err != nil {
			return err
		}
		if found.Reached == "" {
			cut.Window = reread.Window{}
		}
	}
	if spent >= budget || cut.pending() {
		return nil
	}
	found, err := s.walk(reread.Part{After: string(s.state.After), Budget: budget - spent})
	spent += found.Cost
	s.state.After = []byte(found.Reached)
	return err
}

// pay charges what was spent to the extra budget first, then to the share that was due.
func (s *share) pay(spent, ordinary uint64, due time.Duration) {
	extra := min(spent, s.state.Cut.Extra)
	s.state.Cut.Extra -= extra
	if ordinary > 0 {
		paid := float64(due) * float64(spent-extra) / float64(ordinary)
		s.state.Paid = s.now.Add(-due).Add(time.Duration(paid))
	}
}

// walk reads a part of the snapshot and adds what it found to the report.
func (s *share) walk(part reread.Part) (reread.Result, error) {
	part.Until = s.until
	found, err := reread.Run(s.ctx, reread.Config{
		Load: s.repo.LoadBlob, Hasher: s.repo.Keys().Hasher(), Tree: s.out.Snapshot.Tree, Root: s.job.Source.Root,
		Gate: s.job.Source.Gate, Part: part,
	})
	r := s.report
	r.Files, r.Bytes = r.Files+found.Files, r.Bytes+found.Bytes
	for _, err := range found.Unreadable {
		r.Unreadable = append(r.Unreadable, err.Error())
	}
	for _, name := range found.Differing {
		if !slices.Contains(s.differing, name) {
			s.differing = append(s.differing, name)
			r.Differing = append(r.Differing, event.NewPath("/"+name))
		}
	}
	return found, err
}

// protect keeps the old content of the files that differ, and has the next backup read them.
func (s *share) protect() error {
	protected, err := protect(context.WithoutCancel(s.ctx), s.repo, s.job, s.out, s.differing)
	if err != nil {
		return fmt.Errorf("protect the old content of %s: %w", s.differing[0], err)
	}
	s.report.Protected = protected
	return s.cache.SetValue("differing "+s.job.cacheKey(), []byte(strings.Join(s.differing, "\x00")))
}

// protect saves a snapshot of the same tree that forget drops only by its ID.
func protect(ctx context.Context, r *repo.Repository, job *Job, out *Outcome, differing []string) (id format.ID,
	err error) {
	sn := *out.Snapshot
	sn.Parent = out.ID
	sn.Tags = append(slices.Clone(sn.Tags), repo.Protected)
	sn.Description = fmt.Sprintf("old content of %d files that changed without a new change time: %q", len(differing),
		differing[0])
	opt := repo.SessionOptions{Holder: job.Session.Holder}
	err = r.WithSession(ctx, opt, func(ctx context.Context, s *repo.Session) error {
		reliable, err := s.FilterParents(ctx)
		if err != nil {
			return err
		}
		if !reliable(out.ID, out.Snapshot) {
			return fmt.Errorf("snapshot %s was removed just now, or a prune has not checked it yet", out.ID.Short())
		}
		id, err = s.Save(ctx, &sn)
		return err
	})
	return id, err
}

// cacheKey identifies the job among those of this machine.
func (job *Job) cacheKey() string {
	sources := slices.Sorted(slices.Values(job.Label.Sources))
	sum := sha256.Sum256([]byte(job.Label.Host + "\x00" + strings.Join(sources, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// differing maps the path of a directory to those of its files that the last re-read found to differ from the snapshot.
// The backup reads them whatever their times are.
type differing map[string][]string

func (job *Job) differing(cache *dircache.Cache) differing {
	if cache == nil || job.Stdin != nil || job.NoDirCache {
		return nil
	}
	kept, err := cache.Value("differing " + job.cacheKey())
	if err != nil || len(kept) == 0 {
		return nil // a cache that cannot be read is replaced
	}
	d := differing{}
	for name := range strings.SplitSeq(string(kept), "\x00") {
		dir := "/" + strings.TrimPrefix(path.Dir("/"+name), "/")
		d[dir] = append(d[dir], path.Base(name))
	}
	return d
}

// in returns those of a directory.
func (d differing) in(dir *scan.Directory) []string {
	if len(d) == 0 {
		return nil
	}
	return d[dir.Path()]
}
