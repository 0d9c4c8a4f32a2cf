package localfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// BenchmarkScan is what the scan does: read a directory and stat its entries, with names in an arena. ns/op and
// allocs/op are per entry.
func BenchmarkScan(b *testing.B) {
	const entries = 1000
	d, path := openTemp(b)
	for i := range entries {
		write(b, fmt.Sprintf("%s/some file %04d.txt", path, i), "")
	}
	buf := make([]byte, 32<<10)
	var arena []byte
	var ends []int
	var st Stat
	done := entries
	b.ReportAllocs()
	for b.Loop() {
		if done < entries {
			done++
			continue
		}
		arena, ends, done = arena[:0], ends[:0], 1
		err := d.Entries(buf, func(name []byte, _ tree.Type, _ uint64) error {
			arena = append(arena, name...)
			ends = append(ends, len(arena))
			return nil
		})
		require.NoError(b, err)
		names, start := string(arena), 0
		for _, end := range ends {
			if err := d.Lstat(names[start:end], &st); err != nil {
				b.Fatal(err)
			}
			start = end
		}
	}
}

// BenchmarkOpen compares the direct way of opening with the one that pins the entry first.
func BenchmarkOpen(b *testing.B) {
	d, path := openTemp(b)
	write(b, path+"/f", "x")
	for name, state := range map[string]int32{"direct": devicesNever, "pinned": devicesMaybe} {
		b.Run(name, func(b *testing.B) {
			d.devices.Store(state)
			d.host.privileged = true
			b.ReportAllocs()
			for b.Loop() {
				f, err := d.OpenFile("f")
				if err != nil {
					b.Fatal(err)
				}
				_ = f.Close()
			}
		})
	}
}

func BenchmarkXattrs(b *testing.B) {
	d, path := openTemp(b)
	write(b, path+"/none", "")
	write(b, path+"/one", "")
	if err := unix.Setxattr(path+"/one", "user.x", []byte("x"), 0); err != nil {
		b.Skip(err)
	}
	for _, name := range []string{"none", "one"} {
		for _, way := range []string{"xattrat", "proc"} {
			b.Run(name+"/"+way, func(b *testing.B) {
				d.host.noXattrAt.Store(way == "proc")
				b.ReportAllocs()
				for b.Loop() {
					if _, err := d.Xattrs(name, tree.File); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkReadSmall reads the uncached files of up to 4 KiB below the directory that TIDEMARK_BENCH_TREE names. It
// alternates between goroutines that read one file after the other, and as many that read the files of a directory
// together. The metrics are of reading together: x-singly is the median of the ratios of both times, cpu-ns the
// processors' time for a file, and singly-cpu-ns that of the other way.
//
//	TIDEMARK_BENCH_TREE=/usr go test ./internal/localfs -run - -bench ReadSmall -benchtime 5x
func BenchmarkReadSmall(b *testing.B) {
	root := os.Getenv("TIDEMARK_BENCH_TREE")
	if root == "" {
		b.Skip("TIDEMARK_BENCH_TREE names no tree")
	}
	dirs := smallFiles(b, root)
	for _, readers := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			var ratios, speeds, cpu, singly []float64
			for b.Loop() {
				files, one, oneCPU := readSmall(b, dirs, readers, false)
				same, all, allCPU := readSmall(b, dirs, readers, true)
				require.Equal(b, files, same)
				ratios = append(ratios, one.Seconds()/all.Seconds())
				speeds = append(speeds, float64(files)/all.Seconds())
				cpu = append(cpu, float64(allCPU)/float64(files))
				singly = append(singly, float64(oneCPU)/float64(files))
			}
			for unit, list := range map[string][]float64{
				"x-singly": ratios, "files/s": speeds, "cpu-ns/file": cpu, "singly-cpu-ns/file": singly,
			} {
				slices.Sort(list)
				b.ReportMetric(list[len(list)/2], unit)
			}
			b.ReportMetric(0, "ns/op") // of both, and of the emptying
		})
	}
}

// smallDir is the small files of one directory, by inode.
type smallDir struct {
	path  string
	names []string
}

func smallFiles(b *testing.B, root string) (dirs []smallDir) {
	require.NoError(b, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		d, err := OpenDir(path)
		if err != nil {
			return err
		}
		defer d.Release()
		inodes, found := map[string]uint64{}, smallDir{path: path}
		err = d.Entries(nil, func(name []byte, typ tree.Type, ino uint64) error {
			var st Stat
			if typ == tree.File && d.Lstat(string(name), &st) == nil && st.Size > 0 && st.Size <= 4096 {
				found.names = append(found.names, string(name))
				inodes[string(name)] = ino
			}
			return nil
		})
		slices.SortFunc(found.names, func(x, y string) int { return int(inodes[x]) - int(inodes[y]) })
		dirs = append(dirs, found)
		return err
	}))
	return dirs
}

func readSmall(b *testing.B, dirs []smallDir, readers int, together bool) (files int, clock, cpu time.Duration) {
	work := make(chan smallDir, len(dirs))
	for _, d := range dirs {
		eachSmall(b, d, func(f *File) { f.drop(0, 1<<20) })
		work <- d
		files += len(d.names)
	}
	close(work)
	used := func() time.Duration {
		var u unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	var group sync.WaitGroup
	var failures atomic.Int64
	start, before := time.Now(), used()
	for range readers {
		group.Go(func() {
			batch, buffer := NewBatch(together), make([]byte, 1<<20)
			defer batch.Close()
			for d := range work {
				if err := readDir(batch, d, buffer); err != nil {
					failures.Add(1)
				}
			}
		})
	}
	group.Wait()
	clock, cpu = time.Since(start), used()-before
	require.Zero(b, failures.Load())
	return files, clock, cpu
}

func eachSmall(b *testing.B, d smallDir, do func(f *File)) {
	dir, err := OpenDir(d.path)
	require.NoError(b, err)
	defer dir.Release()
	for _, name := range d.names {
		f, err := dir.OpenFile(name)
		require.NoError(b, err)
		do(f)
		require.NoError(b, f.Close())
	}
}

// readDir does what a reader of a backup does with the small files of a directory.
func readDir(batch *Batch, d smallDir, buffer []byte) error {
	dir, err := OpenDir(d.path)
	if err != nil {
		return err
	}
	defer dir.Release()
	for names := range slices.Chunk(d.names, batch.MaxFiles()) {
		var files []BatchFile
		at := 0
		for _, name := range names {
			f, err := batch.Open(dir, name, Known{})
			if err != nil {
				return err
			}
			files = append(files, BatchFile{File: f, Size: f.Opened().Size, At: at})
			at += int(f.Opened().Size) + 1
		}
		batch.ReadWhole(buffer, files)
		for i := range files {
			if files[i].Err != nil {
				return files[i].Err
			}
			if _, err := files[i].File.Stat(); err != nil {
				return err
			}
			batch.Done(files[i].File)
		}
	}
	return nil
}
