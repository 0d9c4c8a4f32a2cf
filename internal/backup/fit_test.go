package backup_test

import (
	"io/fs"
	"runtime"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/options"
)

// fitted returns a job with the concurrency that flags ask for.
func fitted(t *testing.T, args ...string) *backup.Job {
	t.Helper()
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	options.Register(flags)
	require.NoError(t, flags.Parse(args))
	spec, _, err := options.Resolve(flags, func(string) (string, bool) { return "", false },
		func(string) ([]byte, error) { return nil, fs.ErrNotExist })
	require.NoError(t, err)
	job := &backup.Job{}
	job.Fit(spec, options.Media{})
	return job
}

// A number that an option names is fixed, the dial sets a maximum, and otherwise the machine sets the start.
func TestConcurrencyFollowsTheOptions(t *testing.T) {
	named := fitted(t, "--policy", "important", "--readers", "3", "--compressors", "2", "--uploads", "5")
	require.Equal(t, backup.Range{Start: 3, Least: 3, Most: 3}, named.Parallel.Readers)
	require.Equal(t, backup.Range{Start: 2, Least: 2, Most: 2}, named.Parallel.Compressors)
	require.Equal(t, backup.Range{Start: 5, Least: 5, Most: 5}, named.Parallel.Uploads)
	require.Equal(t, 5, named.Session.Uploads)
	for _, c := range []struct {
		args  []string
		start func(most int) int
	}{
		{[]string{"--policy", "important"}, func(most int) int { return most / 2 }},
		{[]string{"--policy", "important", "--resource-utilization", "10"}, func(most int) int { return (most + 1) / 2 }},
	} {
		r := fitted(t, c.args...).Parallel.Readers
		require.Equal(t, backup.Range{Start: c.start(r.Most), Least: 1, Most: r.Most}, r, c.args)
	}
}

// A third of the memory is for data on its way to the compressors. Frames are smaller where many need much of it.
func TestMemoryIsDivided(t *testing.T) {
	job := fitted(t, "--memory", "300M", "--policy", "important", "--compressors", "2")
	all := job.Parallel.Memory + job.Session.Memory
	require.Equal(t, all/3, job.Parallel.Memory)
	require.Equal(t, 4<<20, job.Session.Tuning.Frame)
	crowded := fitted(t, "--memory", "300M", "--policy", "important", "--compressors", "16")
	require.Equal(t, 2<<20, crowded.Session.Tuning.Frame)
}
