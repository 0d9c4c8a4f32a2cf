package change

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/backup/reread"
	"github.com/tidemark-backup/tidemark/internal/forget"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

const day = 24 * time.Hour

// readAgain reads the share that is due at a moment, on a machine that has been running for long.
func readAgain(e *kit.Engine, job backup.Job, out *backup.Outcome, now time.Time) *backup.Reread {
	e.T.Helper()
	return readAgainAfter(e, job, out, now, sysinfo.Boot{ID: [16]byte{1}, At: time.Now().Add(-day)})
}

// readAgainAfter is readAgain on a machine that was booted as boot describes.
func readAgainAfter(e *kit.Engine, job backup.Job, out *backup.Outcome, now time.Time,
	boot sysinfo.Boot) (again *backup.Reread) {
	e.T.Helper()
	require.NoError(e.T, e.With(func(r *repo.Repository) (err error) {
		opt := backup.RereadOptions{Days: 90, Now: now, Boot: boot}
		again, err = backup.RereadShare(context.Background(), r, &job, out, opt)
		return err
	}))
	return again
}

// On tmpfs the kernel does not report dirty pages, so a write through a mapping leaves no trace at all. The periodic
// reread finds it. The next snapshot then has the new content, and forget keeps the old one.
func TestMissedWritesAreFoundByReadingAgain(t *testing.T) {
	t.Parallel()
	src := testkit.RamDir(t)
	kit.Written(t, src, map[string]string{"a/other": string(testkit.Noise(1, 5000)), "tiny": "tiny", "z/last": "last"})
	m := kit.MapFile(t, filepath.Join(src, "mfile"), 300<<10)
	m.Write("first ")
	kit.Settle()
	e := kit.NewEngine(t, nil)
	job := e.Job(src)
	start := time.Now()
	first, _, err := e.Backup(job)
	require.NoError(t, err)
	require.Nil(t, readAgain(e, job, first, start), "the first run only begins to count")
	ctime, _ := m.Changed(t)
	m.Write("second")
	if after, _ := m.Changed(t); after != ctime {
		t.Skip("this file system notices writes through mappings")
	}
	missed, totals, err := e.Backup(job)
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read, "size and times of the file are unchanged")

	again := readAgain(e, job, missed, start.Add(90*day))
	require.NotNil(t, again)
	require.Equal(t, []event.Path{event.NewPath(src + "/mfile")}, again.Differing)
	require.EqualValues(t, 4, again.Files)
	require.Empty(t, again.Unreadable)
	require.False(t, again.Protected.IsZero())

	next, _, err := e.Backup(job)
	require.NoError(t, err)
	require.Equal(t, "second", e.Objects(next.Snapshot.Tree, src)["mfile"].Data[:6])
	_, totals, err = e.Backup(job)
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read, "it is read for one snapshot only")
	require.Empty(t, readAgain(e, job, next, start.Add(180*day)).Differing)

	require.NoError(t, e.With(func(r *repo.Repository) error {
		listed, err := r.Snapshots(context.Background())
		require.NoError(t, err)
		policy := forget.Policy{Last: 1}
		kept := map[string][]string{}
		for _, v := range policy.Apply(listed, time.Now()) {
			if v.Keep {
				kept[v.ID.String()] = v.Reasons
			}
		}
		require.Len(t, kept, 2)
		require.Equal(t, []string{repo.Protected}, kept[again.Protected.String()])
		return nil
	}))
	var old string
	require.NoError(t, e.With(func(r *repo.Repository) error {
		found, err := r.FindSnapshot(context.Background(), again.Protected.String(), repo.Filter{})
		require.NoError(t, err)
		old = e.Objects(found.Snapshot.Tree, src)["mfile"].Data[:6]
		return nil
	}))
	require.Equal(t, "first ", old)
	e.RequireSound()
}

// All files are read on request, also in the first run, and are not due again for a whole cycle.
func TestAllFilesAreReadAgainOnRequest(t *testing.T) {
	t.Parallel()
	src := testkit.RamDir(t)
	kit.Written(t, src, map[string]string{"a/other": string(testkit.Noise(1, 5000)), "tiny": "tiny", "z/last": "last"})
	m := kit.MapFile(t, filepath.Join(src, "mfile"), 300<<10)
	m.Write("first ")
	kit.Settle()
	e := kit.NewEngine(t, nil)
	job := e.Job(src)
	out, _, err := e.Backup(job)
	require.NoError(t, err)
	m.Write("second")
	var again *backup.Reread
	require.NoError(t, e.With(func(r *repo.Repository) (err error) {
		opt := backup.RereadOptions{All: true, Boot: sysinfo.Boot{ID: [16]byte{1}, At: time.Now().Add(-day)}}
		again, err = backup.RereadShare(context.Background(), r, &job, out, opt)
		return err
	}))
	require.NotNil(t, again)
	require.EqualValues(t, 4, again.Files)
	require.Equal(t, []event.Path{event.NewPath(src + "/mfile")}, again.Differing)
	require.False(t, again.Protected.IsZero())
	require.Nil(t, readAgain(e, job, out, time.Now().Add(time.Minute)), "nothing is due")
}

// The shares of the runs of one cycle cover each file, and a share is in proportion to the time since the last one.
func TestEveryFileIsReadAgainInTime(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	src := testkit.RamDir(t)
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("d%d/e%d/f%d", i%3, i%20, i)] = string(testkit.Noise(uint64(i), 1000))
	}
	kit.Written(t, src, files)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	job := e.Job(src)
	out, _, err := e.Backup(job)
	require.NoError(t, err)
	now := time.Now()
	require.Nil(t, readAgain(e, job, out, now))
	require.Nil(t, readAgain(e, job, out, now.Add(time.Minute)), "not with every run")
	read, largest := uint64(0), uint64(0)
	for range 90 {
		now = now.Add(day)
		again := readAgain(e, job, out, now)
		require.NotNil(t, again)
		require.Empty(t, again.Differing)
		read, largest = read+again.Files, max(largest, again.Files)
	}
	require.GreaterOrEqual(t, read, uint64(len(files)))
	require.Less(t, read, uint64(len(files)*5/4))
	require.LessOrEqual(t, largest, uint64(len(files)/20), "spread over the runs")

	require.Nil(t, readAgain(e, job, out, now), "nothing is due")
}

// In the first day after a boot, four shares are spent: first on the search for files with a time in the window of the
// boot, here without a result, and then on the ordinary walk.
func TestFourSharesAreReadAfterABoot(t *testing.T) {
	t.Parallel()
	src := testkit.RamDir(t)
	files := map[string]string{}
	const count, size = 810, 100 // ten files in each daily share: a tenth of the 90 days is reserve
	for i := range count {
		files[fmt.Sprintf("d%d/f%d", i%9, i)] = string(testkit.Noise(uint64(i), size))
	}
	kit.Written(t, src, files)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	job := e.Job(src)
	out, _, err := e.Backup(job)
	require.NoError(t, err)
	start, first := out.Snapshot.Start.Sec, time.Now()
	after := func(id byte, d time.Duration) *backup.Reread {
		out.Snapshot.Start.Sec = start + int64(d/time.Second)
		boot := sysinfo.Boot{ID: [16]byte{id}, At: first.Add(d - time.Hour)}
		return readAgainAfter(e, job, out, first.Add(d), boot)
	}
	require.Nil(t, after(1, 10*day), "the first run only begins to count")
	require.InDelta(t, 10, after(1, 11*day).Files, 2)
	const search = float64(count*reread.SkipCost) / (reread.ObjectCost + size) // in files
	require.InDelta(t, 40-search, after(2, 12*day).Files, 2)
	require.Nil(t, after(2, 12*day+time.Minute), "the budget of the boot is spent")
	require.InDelta(t, 10, after(2, 13*day).Files, 2)
}

// A power cut between the write of data and the write of the inode leaves new data under an old change time. The first
// run after a boot reads such files at once, although nothing is due; a file that was left alone before the boot is not
// read.
func TestFilesWrittenBeforeABootAreReadAtOnce(t *testing.T) {
	t.Parallel()
	src := testkit.RamDir(t)
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("a/old%d", i)] = string(testkit.Noise(uint64(i), 2000))
	}
	kit.Written(t, src, files)
	kit.Settle()
	e := kit.NewEngine(t, nil)
	job := e.Job(src)
	start := time.Now()
	before, _, err := e.Backup(job) // the run before the last one
	require.NoError(t, err)
	require.Nil(t, readAgain(e, job, before, start), "the first run only begins to count")

	m := kit.MapFile(t, filepath.Join(src, "z"), 300<<10)
	m.Write("first ")
	kit.Settle()
	last, _, err := e.Backup(job)
	require.NoError(t, err)
	last.Snapshot.Start.Sec += 7200 // as if it had come two hours later
	require.Nil(t, readAgain(e, job, last, start), "nothing is due")
	ctime, _ := m.Changed(t)
	m.Write("second")
	if after, _ := m.Changed(t); after != ctime {
		t.Skip("this file system notices writes through mappings")
	}
	cut := sysinfo.Boot{ID: [16]byte{2}, At: time.Now()}
	missed, totals, err := e.Backup(job)
	require.NoError(t, err)
	require.Zero(t, totals.Bytes.Read, "the times of the file are unchanged")
	again := readAgainAfter(e, job, missed, start, cut)
	require.NotNil(t, again, "at once")
	require.EqualValues(t, 1, again.Files)
	require.Equal(t, []event.Path{event.NewPath(src + "/z")}, again.Differing)
	require.False(t, again.Protected.IsZero())

	next, _, err := e.Backup(job)
	require.NoError(t, err)
	require.Equal(t, "second", e.Objects(next.Snapshot.Tree, src)["z"].Data[:6])
	e.RequireSound()
}
