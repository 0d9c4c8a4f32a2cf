package scan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// BenchmarkWalk is the scaling curve: a walk with so many scanners beside the plainest walk there is, in one thread by
// opendir and fstatat, taken in turns. The tree is the one that TIDEMARK_BENCH_TREE names, else one of 20 000 files.
// The metric x-serial is the median of the ratios of both speeds. An empty cache needs root and slows the whole
// machine, so only a named tree is measured with it. On a busy machine only the metrics of processor time are valid:
// cpu-ns of the walk and serial-ns of the plain one, for each object.
//
//	TIDEMARK_BENCH_TREE=/usr go test ./internal/backup/scan -run - -bench Walk -benchtime 5x
func BenchmarkWalk(b *testing.B) {
	root := os.Getenv("TIDEMARK_BENCH_TREE")
	named := root != ""
	if !named {
		root = plant(b, 400, 50)
	}
	for _, cache := range []string{"warm", "cold"} {
		if cache == "cold" && (!named || os.Geteuid() != 0) {
			continue
		}
		for _, workers := range []int{1, 2, 4, 8, 16} {
			b.Run(fmt.Sprintf("%s/scanners=%d", cache, workers), func(b *testing.B) {
				prepare := func() {}
				if cache == "cold" {
					prepare = func() { require.NoError(b, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)) }
				} else {
					serialWalk(b, root)
				}
				compareWalks(b, root, workers, prepare)
			})
		}
	}
}

func compareWalks(b *testing.B, root string, workers int, prepare func()) {
	var ratios, speeds, own, plain []float64
	for b.Loop() {
		prepare()
		var objects, found int
		serial, cpu := timed(func() { objects = serialWalk(b, root) })
		plain = append(plain, float64(cpu)/float64(objects))
		prepare()
		parallel, cpu := timed(func() { found = parallelWalk(b, root, workers) })
		own = append(own, float64(cpu)/float64(objects))
		require.Equal(b, objects, found)
		ratios = append(ratios, serial.Seconds()/parallel.Seconds())
		speeds = append(speeds, float64(found)/parallel.Seconds())
	}
	b.ReportMetric(median(ratios), "x-serial")
	b.ReportMetric(median(speeds), "objects/s")
	b.ReportMetric(median(own), "cpu-ns/object")
	b.ReportMetric(median(plain), "serial-ns/object")
	b.ReportMetric(0, "ns/op") // of both together, and of the emptying
}

// timed returns how long f took by the clock, and of the processors' time.
func timed(f func()) (clock, cpu time.Duration) {
	used := func() time.Duration {
		var u unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start, before := time.Now(), used()
	f()
	return time.Since(start), used() - before
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// plant makes a tree of empty files.
func plant(b testing.TB, dirs, files int) string {
	root := b.TempDir()
	for d := range dirs {
		path := filepath.Join(root, fmt.Sprintf("%d/%d", d/20, d))
		require.NoError(b, os.MkdirAll(path, 0o755))
		for f := range files {
			require.NoError(b, os.WriteFile(filepath.Join(path, fmt.Sprintf("file %d", f)), nil, 0o644))
		}
	}
	return root
}

// counter is a visitor that only counts.
type counter struct{ objects atomic.Int64 }

func (c *counter) Directory(_ context.Context, d *Directory, _ *report.Clock) error {
	c.objects.Add(int64(len(d.Entries)))
	return d.Err
}
func (c *counter) Entry(*Directory, string, error) {}
func (c *counter) Excluded(*Directory, int)        {}

func parallelWalk(b *testing.B, root string, workers int) int {
	pick, err := Sources([]string{root})
	require.NoError(b, err)
	for len(pick.Children) > 0 {
		pick = pick.Children[0]
	}
	c := &counter{}
	opt := Options{Workers: workers, Rules: rules.NewBuilder().Compile(), Ledger: report.New(time.Now)}
	require.NoError(b, Walk(b.Context(), pick, opt, c))
	return int(c.objects.Load())
}

// serialWalk counts the objects below root on one file system, asking for the status of each, in the order of the
// directories.
func serialWalk(b *testing.B, root string) int {
	var st unix.Stat_t
	require.NoError(b, unix.Lstat(root, &st))
	w := serialWalker{dev: st.Dev}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(b, err)
	require.NoError(b, w.dir(fd))
	return w.objects
}

type serialWalker struct {
	dev     uint64
	objects int
}

// dir walks the directory fd and closes it.
func (w *serialWalker) dir(fd int) error {
	defer unix.Close(fd)
	buf := make([]byte, 32<<10) // what opendir takes
	for {
		n, err := unix.Getdents(fd, buf)
		if n <= 0 || err != nil {
			return err
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			w.objects++
			var st unix.Stat_t
			if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
			if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Dev != w.dev {
				continue
			}
			child, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			if err := w.dir(child); err != nil {
				return err
			}
		}
	}
}
