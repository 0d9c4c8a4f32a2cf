package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
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

// TestFirstBackupPublishesPartialSnapshots: a first backup that is cut at each directory reads, stores and counts all
// as one that is not, and leaves only the whole snapshot.
func TestFirstBackupPublishesPartialSnapshots(t *testing.T) {
	dir, files, bytes := folders(t)
	e := kit.NewEngine(t, nil)
	_, want, err := e.Backup(e.Job(dir))
	require.NoError(t, err)
	for _, scanners := range []int{1, 4} {
		for name, noCache := range map[string]bool{"cached": false, "uncached": true} {
			t.Run(fmt.Sprint(scanners, name), func(t *testing.T) {
				e := kit.NewEngine(t, nil)
				job := e.Job(dir)
				job.Checkpoint, job.NoDirCache = 1, noCache
				job.Parallel = kit.Parallel(scanners, 2, 2)
				out, totals, partial, err := backUp(e, job, func(int, context.CancelCauseFunc) {})
				require.NoError(t, err)
				require.Greater(t, partial, 3)
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

// TestPartialSnapshotOfABackupThatWasCut: after a first backup was stopped, what its last partial snapshot has can be
// restored, and is not read again.
func TestPartialSnapshotOfABackupThatWasCut(t *testing.T) {
	dir, files, bytes := folders(t)
	e := kit.NewEngine(t, nil)
	job := e.Job(dir)
	job.Checkpoint, job.Parallel = 1, kit.Parallel(1, 1, 1)
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
	require.Equal(t, uint64(9000), there, "three directories")

	job = e.Job(dir)
	job.Checkpoint = 1
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
	e := kit.NewEngine(t, nil)
	var notes []string
	e.Open.Notify = func(text string) { notes = append(notes, text) }
	latest := func() (found repo.Listed) {
		notes = nil
		require.NoError(t, e.With(func(r *repo.Repository) (err error) {
			found, err = r.FindSnapshot(context.Background(), repo.Latest, repo.Filter{})
			return err
		}))
		return found
	}
	stop := func(_ int, cancel context.CancelCauseFunc) { cancel(errors.New("stopped")) }
	job := e.Job(dir)
	job.Checkpoint = 1
	_, _, _, err := backUp(e, job, stop)
	require.Error(t, err)
	require.True(t, latest().Snapshot.Partial)
	require.Contains(t, strings.Join(notes, "\n"), "is partial")
	other := filepath.Join(testkit.RamDir(t), "other")
	kit.Written(t, other, map[string]string{"f": "f"})
	made, _, err := e.Backup(e.Job(other))
	require.NoError(t, err)
	job = e.Job(dir)
	job.Checkpoint = 1
	_, _, _, err = backUp(e, job, stop)
	require.Error(t, err)
	require.Equal(t, made.ID, latest().ID, "an older one that is whole")
	require.Empty(t, notes)
}
