package roundtrip

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// A page that was dirty while it was read can be changed afterwards without a new change time. The next backup reads
// such a file again, with and without the directory cache, and the one after that does not, if the page was written out
// meanwhile.
func TestWritesThroughAMappingAreNotMissed(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for name, change := range map[string]func(*backup.Job){
		"with the cache":    func(*backup.Job) {},
		"without the cache": func(j *backup.Job) { j.NoDirCache = true },
		"one by one":        func(j *backup.Job) { j.Source.Reading.Singly = true },
	} {
		t.Run(name, func(t *testing.T) {
			src := testkit.TempDir(t)
			var files []*kit.Mapped
			for name, size := range map[string]int{"small": 8 << 10, "small too": 9 << 10, "medium": 100 << 10,
				"large": 3 << 20} {
				files = append(files, kit.MapFile(t, filepath.Join(src, name), size))
			}
			require.NoError(t, os.Link(filepath.Join(src, "small"), filepath.Join(src, "another name")))
			e := kit.NewEngine(t, nil)
			job := e.Job(src)
			change(&job)
			// A sync(2) of another process in between writes out the page, and then a write does move the change time.
			hidden := false
			for try := 0; try < 20 && !hidden; try++ {
				hidden = missesNoWrite(e, job, src, files)
			}
			require.True(t, hidden, "no page stayed dirty for long enough")
			for _, f := range files {
				require.NoError(t, f.File.Sync())
			}
			kit.Settle()
			_, _, err := e.Backup(job)
			require.NoError(t, err)
			_, totals, err := e.Backup(job)
			require.NoError(t, err)
			require.Zero(t, totals.Bytes.Read, "the pages are clean: nothing to read again")
			e.RequireRestored(src)
		})
	}
}

// missesNoWrite makes a backup while pages are dirty, and one after they were changed again. It reports false if the
// change times moved.
func missesNoWrite(e *kit.Engine, job backup.Job, src string, files []*kit.Mapped) bool {
	t := e.T.(*testing.T)
	before := map[string]unix.Timespec{}
	for _, f := range files {
		f.Write("first ")
		ctime, dirty := f.Changed(t)
		if dirty == 0 {
			return false
		}
		before[f.Path] = ctime
	}
	kit.Settle()
	_, _, err := e.Backup(job)
	require.NoError(t, err)
	hidden := true
	for _, f := range files {
		f.Write("second")
		ctime, _ := f.Changed(t)
		hidden = hidden && ctime == before[f.Path]
	}
	kit.Settle()
	out, _, err := e.Backup(job)
	require.NoError(t, err)
	found := e.Objects(out.Snapshot.Tree, src)
	require.Len(t, found, len(files)+1)
	for name, o := range found {
		require.True(t, strings.HasPrefix(o.Data, "second"), "%s has old content: %.6q", name, o.Data)
	}
	return hidden
}
