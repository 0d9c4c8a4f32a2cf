package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// folders writes a source of 12 directories on three levels with 3 files of 1,000 bytes each.
func folders(t *testing.T) (dir string, files, bytes uint64) {
	t.Helper()
	dir = filepath.Join(testkit.RamDir(t), "src")
	content := map[string]string{}
	for i := range 12 {
		at := []string{"%d", "%d/below", "%d/below/deep"}[i%3]
		for k := range 3 {
			name := filepath.Join(fmt.Sprintf(at, i/3), fmt.Sprint("f", k))
			content[name] = strings.Repeat(name+" ", 1000)[:1000]
		}
	}
	kit.Written(t, dir, content)
	kit.Settle()
	return dir, 36, 36000
}

// slowTarget takes a while for each pack, so that the packs of a backup wait for it. It looks at each snapshot that is
// published.
type slowTarget struct {
	store.Store
	t         *testing.T
	sending   atomic.Int64
	published func(id string)
}

// Put waits before it stores a pack. When a snapshot is published, no pack may be under way.
func (s *slowTarget) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Pack {
		s.sending.Add(1)
		defer s.sending.Add(-1)
		time.Sleep(2 * time.Millisecond)
	}
	if name.Kind == store.Snapshot {
		assert.Zero(s.t, s.sending.Load(), "a snapshot is published while packs are being sent")
	}
	err := s.Store.Put(ctx, name, data)
	if name.Kind == store.Snapshot && s.published != nil {
		s.published(name.ID)
	}
	return err
}

// slowly makes each blob a pack of its own, for a backup to a slow target with checkpoints as often as possible.
func slowly(job backup.Job) backup.Job {
	job.Checkpoint = 1
	job.Session.Tuning = session.Tuning{Frame: 1, DataPack: 1}
	return job
}

func slow(t *testing.T) (*kit.Engine, *slowTarget) {
	t.Helper()
	target := &slowTarget{Store: mem.New(), t: t}
	return kit.NewEngine(t, target), target
}

func listed(t *testing.T, e *kit.Engine) (all []repo.Listed) {
	t.Helper()
	require.NoError(t, e.With(func(r *repo.Repository) (err error) {
		all, err = r.Snapshots(context.Background())
		return err
	}))
	return all
}

// backUp runs a job, with a function that is called for each partial snapshot.
func backUp(e *kit.Engine, job backup.Job, each func(n int, cancel context.CancelCauseFunc)) (out *backup.Outcome,
	totals report.Totals, partial int, err error,
) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	l := report.New(time.Now)
	l.OnIssue(func(i report.Issue) {
		if i.Op == "checkpoint" {
			partial++
			each(partial, cancel)
		}
	})
	err = e.With(func(r *repo.Repository) error {
		out, err = backup.Run(ctx, r, job, l)
		return err
	})
	return out, l.Snapshot(), partial, err
}

// TestFirstBackupPublishesPartialSnapshots: a first backup with many checkpoints reads, stores and counts all as one
// without, and leaves only the whole snapshot.
func TestFirstBackupPublishesPartialSnapshots(t *testing.T) {
	testkit.Slow(t)
	dir, files, bytes := folders(t)
	e := kit.NewEngine(t, nil)
	_, want, err := e.Backup(e.Job(dir))
	require.NoError(t, err)
	for _, scanners := range []int{1, 4} {
		for name, noCache := range map[string]bool{"cached": false, "uncached": true} {
			t.Run(fmt.Sprint(scanners, name), func(t *testing.T) {
				e, _ := slow(t)
				job := slowly(e.Job(dir))
				job.NoDirCache = noCache
				job.Parallel = kit.Parallel(scanners, 2, 2)
				out, totals, partial, err := backUp(e, job, func(int, context.CancelCauseFunc) {})
				require.NoError(t, err)
				require.NotZero(t, partial)
				require.Equal(t, bytes, totals.Bytes.Read)
				require.Equal(t, want.Bytes.AfterDedup, totals.Bytes.AfterDedup)
				require.Equal(t, report.ComparedOf[uint64]{New: files}, totals.Files)
				require.Equal(t, want.Dirs, totals.Dirs)
				for _, pair := range [][2]uint64{
					{want.Objects.Inspected, totals.Objects.Inspected}, {want.Objects.Dirs, totals.Objects.Dirs},
					{want.Objects.Unchanged, totals.Objects.Unchanged}, {want.Bytes.Inspected, totals.Bytes.Inspected},
					{want.Bytes.Wanted, totals.Bytes.Wanted}, {want.Objects.Expired, totals.Objects.Expired},
				} {
					require.Equal(t, pair[0], pair[1])
				}
				require.False(t, out.Snapshot.Partial)
				all := listed(t, e)
				require.Len(t, all, 1, "the partial snapshots are removed")
				require.Equal(t, out.ID, all[0].ID)
				e.RequireSound()
				e.RequireRestored(dir)
				again, totals, err := e.Backup(e.Job(dir))
				require.NoError(t, err)
				require.Zero(t, totals.Bytes.Read)
				require.Equal(t, e.Subtree(out, dir), e.Subtree(again, dir))
				forced := e.Job(dir)
				forced.Source.Comparing.Force = true
				again, _, err = e.Backup(forced)
				require.NoError(t, err)
				require.Equal(t, e.Subtree(out, dir), e.Subtree(again, dir))
			})
		}
	}
}

// TestPartialSnapshotOfABackupThatWasStopped: after a first backup was stopped, what its last partial snapshot has can
// be restored, and is not read again.
func TestPartialSnapshotOfABackupThatWasStopped(t *testing.T) {
	dir, files, bytes := folders(t)
	e, target := slow(t)
	job := slowly(e.Job(dir))
	job.Parallel = kit.Parallel(1, 1, 1)
	stopped := errors.New("stopped")
	_, totals, partial, err := backUp(e, job, func(n int, cancel context.CancelCauseFunc) {
		if n == 3 {
			cancel(stopped)
		}
	})
	require.Error(t, err)
	require.Equal(t, 3, partial)
	all := listed(t, e)
	last := all[len(all)-1]
	for _, one := range all {
		require.True(t, one.Snapshot.Partial)
	}
	e.RequireSound()
	dst := filepath.Join(testkit.RamDir(t), "out")
	require.NoError(t, e.RestoreCtx(context.Background(), dir, restore.Target{Path: dst}))
	there := uint64(0)
	for _, o := range e.Objects(last.Snapshot.Tree, dir) {
		there += uint64(len(o.Data))
	}
	require.NotZero(t, there)
	require.Less(t, there, bytes)

	job = slowly(e.Job(dir))
	reader := &kit.Engine{T: t, Store: target.Store, Open: kit.OpenOptions(testkit.RamDir(t))}
	target.published = func(string) {
		for _, l := range listed(t, reader)[len(all):] {
			assert.GreaterOrEqual(t, 1000*l.Snapshot.Stats.Content.Files, there, "less than before would replace it")
		}
	}
	out, totals, _, err := backUp(e, job, func(int, context.CancelCauseFunc) {})
	require.NoError(t, err)
	require.Equal(t, bytes-there, totals.Bytes.Read)
	require.Equal(t, report.ComparedOf[uint64]{New: files}, totals.Files, "none is in a whole snapshot")
	require.Len(t, listed(t, e), 1)
	require.True(t, out.Snapshot.Parent.IsZero())
	e.RequireSound()
	e.RequireRestored(dir)
}

// TestPartialSnapshotIsNeverLatestSilently: latest is a partial snapshot only if there is no whole one, and then it is
// said.
func TestPartialSnapshotIsNeverLatestSilently(t *testing.T) {
	dir, _, _ := folders(t)
	e, _ := slow(t)
	var notes []string
	e.Open.Warn = func(text string) { notes = append(notes, text) } // with --quiet too
	latest := func() (found repo.Listed) {
		notes = nil
		require.NoError(t, e.With(func(r *repo.Repository) (err error) {
			found, err = r.FindSnapshot(context.Background(), repo.Latest, repo.Filter{})
			return err
		}))
		return found
	}
	stop := func(_ int, cancel context.CancelCauseFunc) { cancel(errors.New("stopped")) }
	job := slowly(e.Job(dir))
	_, _, _, err := backUp(e, job, stop)
	require.Error(t, err)
	require.True(t, latest().Snapshot.Partial)
	require.Contains(t, strings.Join(notes, "\n"), "is partial")
	other := filepath.Join(testkit.RamDir(t), "other")
	kit.Written(t, other, map[string]string{"f": "f"})
	made, _, err := e.Backup(e.Job(other))
	require.NoError(t, err)
	job = slowly(e.Job(dir))
	_, _, _, err = backUp(e, job, stop)
	require.Error(t, err)
	require.Equal(t, made.ID, latest().ID, "an older one that is whole")
	require.Empty(t, notes)
}

func noise(seed uint64, n int) string { return string(testkit.Noise(seed, n)) }

// partials restores each partial snapshot when it is published, and returns how many files of a directory each has. All
// must be as in the source.
func partials(t *testing.T, target *slowTarget, src string) (files func(below string) []int) {
	t.Helper()
	var restored []string
	reader := &kit.Engine{T: t, Store: target.Store, Open: kit.OpenOptions(testkit.RamDir(t))}
	target.published = func(id string) {
		all := listed(t, reader)
		i := slices.IndexFunc(all, func(l repo.Listed) bool { return l.ID.String() == id })
		if !all[i].Snapshot.Partial {
			return
		}
		dst := filepath.Join(testkit.RamDir(t), "out")
		l := report.NewJob(report.Restore, time.Now)
		assert.NoError(t, reader.With(func(r *repo.Repository) error {
			_, err := restore.Run(context.Background(), r, restore.Selection{Tree: all[i].Snapshot.Tree, Sub: src},
				restore.Target{Path: dst, Verify: true}, 2, l)
			return err
		}))
		assert.Empty(t, l.Issues())
		kit.RequireNothingWrong(t, src, dst, "partial snapshot")
		restored = append(restored, dst)
	}
	return func(below string) (n []int) {
		for _, dst := range restored {
			found, err := filepath.Glob(filepath.Join(dst, below, "*"))
			require.NoError(t, err)
			n = append(n, len(found))
		}
		return n
	}
}

// TestCheckpointsOfOneDirectory: while the packs of one directory wait for a slow target, what is stored of it is
// published, and nothing else. A large file that is read for long delays no other file.
func TestCheckpointsOfOneDirectory(t *testing.T) {
	testkit.Slow(t)
	dir := filepath.Join(testkit.RamDir(t), "src")
	content := map[string]string{"large": noise(1, 8<<20)}
	for i := range 20 {
		content[fmt.Sprint("f", i)] = noise(uint64(i), 300<<10)
	}
	kit.Written(t, dir, content)
	kit.Settle()
	e, target := slow(t)
	published := partials(t, target, dir)
	_, totals, partial, err := backUp(e, slowly(e.Job(dir)), func(int, context.CancelCauseFunc) {})
	require.NoError(t, err)
	n := published("")
	require.Len(t, n, partial)
	require.NotEmpty(t, n)
	require.Less(t, n[0], len(content))
	require.IsNonDecreasing(t, n)
	require.EqualValues(t, 20*300<<10+8<<20, totals.Bytes.Read)
	require.Len(t, listed(t, e), 1)
	e.RequireSound()
	e.RequireRestored(dir)
}

// TestCheckpointsOfNewAndOldSources: a new source is published in parts while an old one beside it is in work
// as well. The old one is read once, and compared with its whole snapshot.
func TestCheckpointsOfNewAndOldSources(t *testing.T) {
	top := testkit.RamDir(t)
	early, late, other := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range 20 {
		name := fmt.Sprint(i/4, "/f", i%4)
		early[name], late[name] = noise(uint64(i), 1000), noise(uint64(100+i), 1000)
		other[name] = noise(uint64(200+i), 1000)
	}
	old, fresh := filepath.Join(top, "old"), filepath.Join(top, "new")
	kit.Written(t, old, early)
	kit.Settle()
	e, target := slow(t)
	first, _, err := e.Backup(e.Job(old))
	require.NoError(t, err)
	kit.Written(t, old, late)
	kit.Written(t, fresh, other)
	kit.Settle()
	published := partials(t, target, top)
	job := slowly(e.Job(old))
	job.Label.Sources = []string{fresh, old}
	job.Source.Root, err = backup.Sources(job.Label.Sources)
	require.NoError(t, err)
	job.Parallel = kit.Parallel(2, 2, 2)
	out, totals, _, err := backUp(e, job, func(int, context.CancelCauseFunc) {})
	require.NoError(t, err)
	both := published("*/*")
	require.NotEmpty(t, both)
	require.Less(t, both[0], 40, "of the two sources")
	require.Equal(t, report.ComparedOf[uint64]{New: 20, Changed: 20}, totals.Files)
	require.EqualValues(t, 40*1000, totals.Bytes.Read)
	require.Equal(t, first.ID, out.Snapshot.Parent)
	require.Len(t, listed(t, e), 2, "both are whole")
	e.RequireRestored(old)
	e.RequireRestored(fresh)
}

// hundred writes two sources of so many files each.
func hundred(t *testing.T, one, two string) {
	t.Helper()
	for k, source := range []string{one, two} {
		content := map[string]string{}
		for i := range 100 {
			content[fmt.Sprint(i%10, "/f", i)] = noise(uint64(100*k+i), 1000)
		}
		kit.Written(t, source, content)
	}
	kit.Settle()
}

// TestPartialSnapshotStaysUntilItsSourcesAreThere: a partial snapshot may have the only copy of a file, so it goes when
// whole snapshots have all its sources, and not with a source that is missing or has files that cannot be read.
func TestPartialSnapshotStaysUntilItsSourcesAreThere(t *testing.T) {
	dir := filepath.Join(testkit.RamDir(t), "src")
	one, two := filepath.Join(dir, "0"), filepath.Join(dir, "1")
	hundred(t, one, two)
	e, _ := slow(t)
	sources := func(paths ...string) backup.Job {
		job := e.Job(dir)
		job.Label.Sources = paths
		var err error
		job.Source.Root, err = backup.Sources(paths)
		require.NoError(t, err)
		return job
	}
	partly := func() (n int) {
		for _, l := range listed(t, e) {
			if l.Snapshot.Partial {
				n++
			}
		}
		return n
	}
	_, _, _, err := backUp(e, slowly(sources(one, two)), func(_ int, cancel context.CancelCauseFunc) {
		if all := listed(t, e); all[len(all)-1].Snapshot.Held[1].Files > 0 {
			cancel(errors.New("stopped"))
		}
	})
	require.Error(t, err)
	require.NotZero(t, partly())
	_, _, err = e.Backup(sources(one))
	require.NoError(t, err)
	require.NotZero(t, partly(), "the other source is in no snapshot")
	aside := filepath.Join(filepath.Dir(dir), "aside")
	require.NoError(t, os.Rename(two, aside))
	_, _, err = e.Backup(sources(one, two))
	require.NoError(t, err)
	require.NotZero(t, partly(), "it is missing in the whole snapshot")
	require.NoError(t, os.Rename(aside, two))
	_, _, err = e.Backup(sources(two))
	require.NoError(t, err)
	require.Zero(t, partly(), "each is in a whole snapshot")
}

// TestPartialSnapshotIsWhatWasThere: what a partial snapshot has of a source is expected of the next backup, so that it
// stays if the source is missing, empty or much smaller, until a person accepts that.
func TestPartialSnapshotIsWhatWasThere(t *testing.T) {
	testkit.Slow(t)
	move := func(from, to string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, os.Rename(from, to)) }
	}
	top := testkit.RamDir(t)
	s1, s2 := filepath.Join(top, "s1"), filepath.Join(top, "s2")
	clear := func(t *testing.T) { require.NoError(t, os.RemoveAll(s2)); require.NoError(t, os.Mkdir(s2, 0o755)) }
	for name, c := range map[string]struct {
		change func(*testing.T)
		tags   []string
		rules  []string
		state  snapshot.State
		words  string
	}{
		"missing": {change: move(s2, s2+".real"), state: snapshot.Missing, words: "in partial snapshot "},
		"empty":   {change: clear, state: snapshot.Empty, words: "in partial snapshot "},
		"shrunk": {change: func(t *testing.T) {
			clear(t)
			kit.Written(t, s2, map[string]string{"only": "one"})
		}, state: snapshot.Shrunk, words: "in partial snapshot "},
		"other rules": {change: clear, rules: []string{"exclude x"}, state: snapshot.Empty},
		"protected":   {change: func(*testing.T) {}, tags: []string{"x", repo.Protected}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(s2+".real"))
			require.NoError(t, os.RemoveAll(s2))
			hundred(t, s1, s2)
			e, _ := slow(t)
			job := func() backup.Job {
				job := e.JobOf(s1, s2)
				job.Label.Tags = c.tags
				return job
			}
			var last repo.Listed
			first := slowly(job())
			first.Parallel = kit.Parallel(1, 1, 1)
			_, _, _, err := backUp(e, first, func(_ int, cancel context.CancelCauseFunc) {
				all := listed(t, e)
				if last = all[len(all)-1]; last.Snapshot.Held[1].Files > 2 {
					cancel(errors.New("stopped"))
				}
			})
			require.Error(t, err)
			partial := last.Snapshot
			require.True(t, partial.Partial)
			require.Equal(t, partial.Stats.Content.Files, partial.Held[0].Files+partial.Held[1].Files)
			require.Equal(t, partial.Held[1].Bytes, 1000*partial.Held[1].Files)
			there := func() bool {
				return slices.ContainsFunc(listed(t, e), func(l repo.Listed) bool { return l.ID == last.ID })
			}
			c.change(t)
			kit.Settle()
			for range 2 {
				again := job()
				again.Label.Rules = c.rules
				out, _, err := e.Backup(again)
				require.NoError(t, err)
				require.True(t, there())
				require.Equal(t, c.state, out.Sources[1].State, out.Sources[1].Message)
				require.Contains(t, out.Sources[1].Message, c.words)
				require.Equal(t, c.state != snapshot.Whole, out.Failed)
				require.Equal(t, c.state != snapshot.Whole, out.Snapshot.Held[1].Expected == partial.Held[1].Count)
			}
			accepted := job()
			accepted.Source.Shrink.Accept = true
			out, _, err := e.Backup(accepted)
			require.NoError(t, err)
			if c.tags != nil || c.state == snapshot.Missing {
				require.True(t, there())
				return
			}
			require.False(t, out.Failed)
			require.False(t, there())
		})
	}
}
