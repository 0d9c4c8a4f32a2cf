package change

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/backup/read"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

var serializations = []options.Serialization{
	options.SharedDynamic, options.SharedStatic, options.Dynamic, options.Static,
}

// bigSize is more than what the pipeline holds between reading and storing, so that a file of this size is still being
// read when its first pack is stored.
const bigSize = 12 << 20

// changingJob stores packs early, one at a time.
func changingJob(e *kit.Engine, src string, how options.Serialization) backup.Job {
	job := e.Job(src)
	job.Source.Reading.Serialization, job.Source.Reading.Retries = how, 2
	job.Session.Uploads, job.Session.Tuning.DataPack, job.Session.Level = 1, 512<<10, -1
	job.Parallel = kit.Parallel(1, 1, 1)
	return job
}

// TestFileThatChangesOnceWhileItIsRead changes a file at a known moment: after its first pieces were read, and before
// its last ones.
func TestFileThatChangesOnceWhileItIsRead(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	changes := map[string]func(f *os.File) error{
		"written": func(f *os.File) error { _, err := f.WriteAt([]byte("changed"), 10); return err },
		"grown":   func(f *os.File) error { _, err := f.WriteAt([]byte("more"), bigSize); return err },
		"cut":     func(f *os.File) error { return f.Truncate(bigSize / 2) },
		"emptied": func(f *os.File) error { return f.Truncate(0) },
		"written with its old time": func(f *os.File) error { // only ctime shows it
			info, err := f.Stat()
			if err == nil {
				_, err = f.WriteAt([]byte("changed"), bigSize-10)
			}
			if err == nil {
				err = os.Chtimes(f.Name(), info.ModTime(), info.ModTime())
			}
			return err
		},
	}
	for i, name := range slices.Sorted(maps.Keys(changes)) {
		change, some := changes[name], serializations
		if !testkit.Long() {
			some = some[i%len(some):][:1] // each change and each serialization once
		}
		for _, how := range some {
			t.Run(fmt.Sprintf("%s, %s", name, how), func(t *testing.T) { changeOnce(t, how, change) })
		}
	}
}

func changeOnce(t *testing.T, how options.Serialization, change func(*os.File) error) {
	src := testkit.RamDir(t)
	path := filepath.Join(src, "big")
	original := testkit.Noise(1, bigSize)
	require.NoError(t, os.WriteFile(path, original, 0o644))
	kit.Settle()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	inner := mem.New()
	e := kit.NewEngine(t, inner)
	var once sync.Once
	var changeErr error
	e.Store = &kit.OnPut{Store: inner, OnPack: func() { once.Do(func() { changeErr = change(f) }) }}
	made, totals, err := e.Backup(changingJob(e, src, how))
	require.NoError(t, err)
	require.NoError(t, changeErr)
	final, err := os.ReadFile(path)
	require.NoError(t, err)
	require.False(t, bytes.Equal(original, final))

	got := e.Objects(made.Snapshot.Tree, src)["big"]
	switch how {
	case options.SharedDynamic, options.SharedStatic:
		require.Equal(t, tree.Retried, got.Outcome)
		require.True(t, string(final) == got.Data, "the second attempt is the new state")
		// A file system sets the size of a truncated file before its time: a stat in between sees two changes.
		require.Contains(t, []uint64{1, 2}, totals.Objects.Retries)
		require.Empty(t, e.Failures())
	case options.Dynamic:
		require.Equal(t, tree.Dynamic, got.Outcome)
		require.EqualValues(t, 1, totals.Objects.Changing)
		require.Empty(t, e.Failures())
	case options.Static:
		require.Equal(t, tree.Skipped, got.Outcome)
		require.Empty(t, got.Content)
		require.False(t, made.Failed == false, "a file without content is a failure")
		require.Len(t, e.Failures(), 1)
	}
	e.RequireSound()

	made, _, err = e.Backup(changingJob(e, src, how)) // it has come to rest
	require.NoError(t, err)
	got = e.Objects(made.Snapshot.Tree, src)["big"]
	require.LessOrEqual(t, got.Outcome, tree.Retried)
	require.True(t, string(final) == got.Data)
}

// TestFileThatNeverRests is written to whenever a pack of it is stored, so that no attempt finds it at rest.
func TestFileThatNeverRests(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for _, how := range serializations {
		t.Run(how.String(), func(t *testing.T) {
			src := testkit.RamDir(t)
			path := filepath.Join(src, "big")
			require.NoError(t, os.WriteFile(path, testkit.Noise(1, bigSize), 0o644))
			kit.Settle()
			inner := mem.New()
			e := kit.NewEngine(t, inner)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			defer f.Close()
			writes := uint64(0)
			e.Store = &kit.OnPut{Store: inner, OnPack: func() {
				writes++
				for at := int64(0); at < bigSize; at += 64 << 10 { // all is new again: the next attempt makes packs, too
					_, err := f.WriteAt(binary.BigEndian.AppendUint64(nil, writes), at)
					require.NoError(t, err)
				}
			}}
			made, totals, err := e.Backup(changingJob(e, src, how))
			require.NoError(t, err)
			got := e.Objects(made.Snapshot.Tree, src)["big"]
			retries := uint64(2)
			if how == options.Dynamic || how == options.Static {
				retries = 0
			}
			require.Equal(t, retries, totals.Objects.Retries)
			if how == options.Dynamic || how == options.SharedDynamic {
				require.Equal(t, tree.Dynamic, got.Outcome)
				require.Empty(t, e.Failures())
				return
			}
			require.Equal(t, tree.Skipped, got.Outcome)
			require.Len(t, e.Failures(), 1)
			require.Contains(t, e.Failures()[0], read.ErrChanging.Error())
			dst := filepath.Join(testkit.RamDir(t), "out")
			_, err = e.Restore(src, kit.Target(dst))
			require.NoError(t, err)
			require.Len(t, e.Failures(), 1, "a restore reports the missing content")
			require.NoFileExists(t, filepath.Join(dst, "big"))
		})
	}
}

// TestUnchangedMeansOneState writes a file again and again, block by block, so that at any moment it is a number of
// blocks of one version followed by blocks of the version before. A file that a backup reports as unchanged must be in
// such a state. Any other content must be reported as changed.
func TestUnchangedMeansOneState(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const block, blocks = 4096, 40 // one read of the batch covers the blocks
	for _, how := range serializations {
		t.Run(how.String(), func(t *testing.T) {
			src := testkit.RamDir(t)
			path := filepath.Join(src, "f")
			fill := func(f *os.File, n uint64) error {
				if n%97 == 0 {
					kit.Settle() // a rest, in which an attempt may succeed
				}
				text := []byte(strings.Repeat(fmt.Sprintf("%016d", n/blocks), block/16))
				_, err := f.WriteAt(text, int64(n%blocks)*block)
				return err
			}
			f, err := os.Create(path)
			require.NoError(t, err)
			for n := range uint64(blocks) {
				require.NoError(t, fill(f, n))
			}
			defer f.Close()
			stop, stopped := make(chan struct{}), make(chan error, 1)
			go func() {
				var err error
				for n := uint64(blocks); err == nil; n++ {
					select {
					case <-stop:
						stopped <- nil
						return
					default:
						err = fill(f, n)
					}
				}
				stopped <- err
			}()
			e := kit.NewEngine(t, nil)
			outcomes := map[tree.Outcome]int{}
			for range 12 {
				job := e.Job(src)
				job.Source.Reading.Serialization, job.Source.Reading.Retries = how, 3
				made, _, err := e.Backup(job)
				require.NoError(t, err)
				got := e.Objects(made.Snapshot.Tree, src)["f"]
				outcomes[got.Outcome]++
				if got.Outcome <= tree.Retried {
					requireOneState(t, got.Data, block)
				} else {
					require.Contains(t, []tree.Outcome{tree.Dynamic, tree.Skipped}, got.Outcome)
				}
			}
			close(stop)
			require.NoError(t, <-stopped)
			e.RequireSound()
			t.Logf("outcomes: %v", outcomes)
		})
	}
}

// requireOneState requires versions v+1 … v+1, v … v.
func requireOneState(t *testing.T, data string, block int) {
	t.Helper()
	var first, last uint64
	for off := 0; off < len(data); off += block {
		var version uint64
		_, err := fmt.Sscanf(data[off:off+16], "%d", &version)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat(data[off:off+16], block/16), data[off:off+block], "half a block")
		if off == 0 {
			first, last = version, version
		}
		require.LessOrEqual(t, version, last, "newer blocks after older ones")
		last = version
	}
	require.LessOrEqual(t, first-last, uint64(1), "a mixture of versions called unchanged")
}
