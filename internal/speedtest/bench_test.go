package speedtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// small is a measurement of everything in next to no time.
func small(dir string) Config {
	return Config{Dir: dir, Bytes: leastBytes, Time: 1, Runs: 2, Levels: []int{1, 2}}
}

// onlyDisk measures no processor, which is what takes long.
func onlyDisk(dir string) Config {
	c := small(dir)
	c.What = []What{Write, ReadInOrder, ReadAtRandom}
	return c
}

// collect takes all results, and the error that ends them.
func collect(t *testing.T, ctx context.Context, c Config) (all []Result, err error) {
	t.Helper()
	results, err := Run(ctx, c)
	require.NoError(t, err)
	for r, err := range results {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// empty requires that nothing was left in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestEverythingIsMeasuredAtEveryPolicyFromTheBestOn(t *testing.T) {
	testkit.Slow(t)
	dir := t.TempDir()
	var events []string
	c := small(dir)
	c.Policies = []iopolicy.Policy{iopolicy.Throttle, iopolicy.Important, iopolicy.Throttle, iopolicy.Utility}
	gate := iopolicy.New(iopolicy.Config{Name: "disk", Settings: iopolicy.DefaultSettings()})
	c.Pass = func(p iopolicy.Policy) (*iopolicy.Pass, func()) {
		events = append(events, "begin "+p.String())
		return gate.Pass(iopolicy.NewClient(p)), func() { events = append(events, "end "+p.String()) }
	}
	all, err := collect(t, t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, []string{"begin important", "end important", "begin utility", "end utility", "begin throttle",
		"end throttle"}, events)
	type kind struct {
		policy iopolicy.Policy
		what   What
		level  int
		cpus   int
	}
	var want, got []kind
	for _, p := range []iopolicy.Policy{iopolicy.Important, iopolicy.Utility, iopolicy.Throttle} {
		for _, k := range []kind{{what: Compress, level: 1}, {what: Compress, level: 2}, {what: Decompress}, {what: Hash},
			{what: Chunk}, {what: Seal}} {
			want = append(want, kind{p, k.what, k.level, 1})
			if n := runtime.GOMAXPROCS(0); n > 1 {
				want = append(want, kind{p, k.what, k.level, n})
			}
		}
		want = append(want, kind{p, Write, 0, 1}, kind{p, ReadInOrder, 0, 1}, kind{p, ReadAtRandom, 0, 1})
	}
	for _, r := range all {
		got = append(got, kind{r.Policy, r.What, r.Level, r.CPUs})
		require.Positive(t, r.Rate, "%v", r)
		require.Positive(t, r.Wall)
		require.GreaterOrEqual(t, r.Spread, 0.0)
		require.Equal(t, 2, r.Runs)
		require.Equal(t, r.What == ReadAtRandom, r.Operations())
		if !r.What.Disk() {
			require.Positive(t, r.CPU, "%v", r)
			require.False(t, r.OffDevice)
		}
	}
	require.Equal(t, want, got)
	empty(t, dir)
}

func TestNoDirectoryNoDisk(t *testing.T) {
	c := small("")
	c.Policies = []iopolicy.Policy{iopolicy.Standard}
	all, err := collect(t, t.Context(), c)
	require.NoError(t, err)
	for _, r := range all {
		require.False(t, r.What.Disk())
	}
}

func TestOnlyWhatIsAskedForIsMeasured(t *testing.T) {
	for _, what := range [][]What{{Hash}, {Hash, Write}, {Write, ReadAtRandom}} {
		c := small(t.TempDir())
		c.What, c.Policies = what, []iopolicy.Policy{iopolicy.Standard}
		all, err := collect(t, t.Context(), c)
		require.NoError(t, err)
		seen := map[What]bool{}
		for _, r := range all {
			require.Contains(t, what, r.What)
			seen[r.What] = true
		}
		require.Len(t, seen, len(what))
		empty(t, c.Dir)
	}
}

func TestWhatCannotBeMeasuredIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"level 0":       func(c *Config) { c.Levels = []int{0} },
		"level 5":       func(c *Config) { c.Levels = []int{1, 5} },
		"small file":    func(c *Config) { c.Bytes = 1 << 20 },
		"negative size": func(c *Config) { c.Bytes = -1 },
		"no time":       func(c *Config) { c.Time = -time.Second },
		"runs":          func(c *Config) { c.Runs = 101 },
		"nothing known": func(c *Config) { c.What = []What{99} },
		"nothing there": func(c *Config) { c.What = []What{ReadAtRandom} },
	} {
		c := small("")
		spoil(&c)
		_, err := Run(t.Context(), c)
		require.ErrorIs(t, err, ErrConfig, name)
	}
	_, err := Run(t.Context(), small(filepath.Join(t.TempDir(), "none")))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Run(t.Context(), small("/dev/null"))
	require.Error(t, err)
	c := small(t.TempDir())
	c.Bytes = 1 << 60
	_, err = Run(t.Context(), c)
	require.ErrorIs(t, err, ErrSpace)
	require.Contains(t, err.Error(), "MiB free")
}

func TestCancelledMeasuringStopsAndCleansUp(t *testing.T) {
	testkit.Slow(t)
	c := small(t.TempDir())
	c.What = []What{Chunk, Write, ReadInOrder, ReadAtRandom}
	total, err := collect(t, t.Context(), c)
	require.NoError(t, err)
	reason := errors.New("enough")
	for stopAt := range len(total) / 4 { // within the first policy
		seen, last := stopped(t, c, stopAt, reason)
		require.ErrorIs(t, last, reason, "stopped at %d", stopAt)
		require.Equal(t, stopAt+1, seen)
		empty(t, c.Dir)
	}
}

// stopped cancels a measuring after some results, and returns how many there were and the last error.
func stopped(t *testing.T, c Config, stopAt int, reason error) (seen int, last error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if stopAt == 0 {
		cancel(reason)
	}
	results, err := Run(ctx, c)
	require.NoError(t, err)
	for _, last = range results {
		if seen++; seen == stopAt {
			cancel(reason)
		}
	}
	return seen, last
}

func TestStoppedListenerLeavesNothing(t *testing.T) {
	c := onlyDisk(t.TempDir())
	restored := 0
	c.Pass = func(iopolicy.Policy) (*iopolicy.Pass, func()) { return nil, func() { restored++ } }
	results, err := Run(t.Context(), c)
	require.NoError(t, err)
	for r, err := range results {
		require.NoError(t, err)
		if r.What == ReadInOrder {
			break
		}
	}
	require.Equal(t, 1, restored)
	empty(t, c.Dir)
}

// What is opened is the corpus, which is the same everywhere.
func TestCorpusIsTheSameEverywhere(t *testing.T) {
	c, err := newCorpus()
	require.NoError(t, err)
	sum := sha256.New()
	for i, f := range c.frames {
		require.Len(t, f, frameSize)
		sum.Write(f)
		total := 0
		for _, b := range c.cuts[i] {
			total += int(b.Len)
		}
		require.Equal(t, frameSize, total)
	}
	require.Equal(t, "9581c90112f798ad25eb850a0e8b3f7b3c67f62bedd0487e7dff291fc61dd9ae", hex.EncodeToString(sum.Sum(nil)))
	opener, d := pack.NewOpener(c.keys, c.table.Kind, c.table.Salt), pack.NewDecompressor()
	require.Len(t, c.table.Frames, frames)
	for i, f := range c.table.Frames {
		require.Equal(t, pack.Zstd, f.Codec)
		raw, _, err := d.OpenFrame(opener, f.Offset, c.data[f.Offset:][:f.Sealed], nil)
		require.NoError(t, err)
		require.Equal(t, c.frames[i], raw)
	}
}

func TestCorpusCompressesAsStated(t *testing.T) {
	testkit.Slow(t)
	c, err := newCorpus()
	require.NoError(t, err)
	size := func(level, from, to int) float64 {
		compressor, err := pack.NewCompressor(level, 1<<20)
		require.NoError(t, err)
		out, in := 0, 0
		for _, f := range c.frames {
			_, data := compressor.Compress(nil, f[from:to])
			out, in = out+len(data), in+to-from
		}
		return float64(out) / float64(in)
	}
	half, quarter := frameSize/2, frameSize/4
	require.InDelta(t, 0.44, size(2, 0, frameSize), 0.02, "all")
	require.InDelta(t, 0.27, size(2, 0, half), 0.02, "lines")
	require.InDelta(t, 0.21, size(2, half, half+quarter), 0.02, "rows")
	require.Equal(t, 1.0, size(2, half+quarter, frameSize), "noise")
	require.Less(t, size(4, 0, frameSize), size(1, 0, frameSize))
}

func TestMedianAndSpread(t *testing.T) {
	require.Zero(t, median(nil))
	require.Equal(t, 3.0, median([]float64{3}))
	require.Equal(t, 2.0, median([]float64{9, 1, 2}))
	require.Equal(t, 2.5, median([]float64{9, 1, 2, 3}))
	s := samples{rates: []float64{8, 10, 13}}
	r := s.result(Hash)
	require.Equal(t, 10.0, r.Rate)
	require.Equal(t, 0.5, r.Spread)
	require.Equal(t, 3, r.Runs)
	require.Zero(t, (&samples{}).result(Hash).Spread)
	require.InDelta(t, 1e9, perSecond(1, 0), 1)
	require.Equal(t, 2.0, perSecond(1, time.Second/2))
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for w := Compress; w <= ReadAtRandom; w++ {
		require.False(t, seen[w.String()], w.String())
		seen[w.String()] = true
	}
	require.Equal(t, "measurement 99", What(99).String())
}
