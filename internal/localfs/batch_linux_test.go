package localfs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// batches returns a batch of each kind that there is here, by name.
func batches(t *testing.T) map[string]*Batch {
	t.Helper()
	list := map[string]*Batch{"singly": NewBatch(false), "together": NewBatch(true)}
	require.Equal(t, 1, list["singly"].MaxFiles())
	if list["together"].MaxFiles() == 1 {
		t.Log("no io_uring here: only the way beside it is tested")
	}
	for _, b := range list {
		t.Cleanup(func() { require.NoError(t, b.Close()) })
	}
	return list
}

// outcome is what reading one file came to.
type outcome struct {
	n       int
	content string
	err     string
}

// readNamed opens the named files, lets something happen to them, and reads them together, expecting as much as expect
// says of each. What is behind the buffer of a file must not be touched.
func readNamed(t *testing.T, b *Batch, d *Dir, names []string, expect func(f *File) uint64,
	meanwhile func()) map[string]outcome {
	t.Helper()
	found, files, opened := map[string]outcome{}, []BatchFile(nil), []string(nil)
	at := 0
	for _, name := range names {
		f, err := b.Open(d, name, Known{})
		if err != nil {
			found[name] = outcome{err: err.Error()}
			continue
		}
		size := min(expect(f), 300<<10)
		files = append(files, BatchFile{File: f, Size: size, At: at})
		opened = append(opened, name)
		at += int(size) + 2
	}
	buffer := make([]byte, at)
	for i := range files {
		buffer[files[i].At+int(files[i].Size)+1] = 0xA5
	}
	if meanwhile != nil {
		meanwhile()
	}
	b.ReadWhole(buffer, files)
	for i, w := range files {
		o := outcome{n: w.N, content: string(buffer[w.At : w.At+w.N])}
		if w.Err != nil {
			o.err = w.Err.Error()
		}
		found[opened[i]] = o
		require.Equal(t, byte(0xA5), buffer[w.At+int(w.Size)+1])
		b.Done(w.File)
	}
	return found
}

func asOpened(f *File) uint64 { return f.Opened().Size }

// Both ways of reading come to the same, on everything that a file system can hold, in memory and on the disk.
func TestBatchesReadAlike(t *testing.T) {
	places := map[string]string{"disk": t.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "tidemark-batch-"); err == nil {
		t.Cleanup(func() { _ = testkit.Unlock(dir); _ = os.RemoveAll(dir) })
		places["memory"] = dir
	}
	for place, root := range places {
		t.Run(place, func(t *testing.T) {
			testkit.Hostile(t, root, testkit.HostileOptions{Entries: 300, Depth: 5, SparseSize: 4 << 20})
			t.Cleanup(func() { _ = testkit.Unlock(root) })
			all := batches(t)
			files := 0
			eachDir(t, openAt(t, root), 0, func(d *Dir, names []string) {
				rnd := rand.New(rand.NewPCG(uint64(len(names)), 7))
				for kind, expect := range map[string]func(f *File) uint64{
					"as they are": asOpened,
					"too small":   func(f *File) uint64 { return f.Opened().Size / 2 },
					"too large":   func(f *File) uint64 { return f.Opened().Size + 1 + f.Opened().Ino%5000 },
				} {
					rnd.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
					want := readNamed(t, all["singly"], d, names, expect, nil)
					got := readNamed(t, all["together"], d, names, expect, nil)
					require.Equal(t, want, got, kind)
					files += len(got)
				}
			})
			require.Greater(t, files, 900)
		})
	}
}

// eachDir calls f with all entries of each directory below d that can be opened.
func eachDir(t *testing.T, d *Dir, depth int, f func(d *Dir, names []string)) {
	var names, below []string
	require.NoError(t, d.Entries(nil, func(name []byte, typ tree.Type, _ uint64) error {
		names = append(names, string(name))
		if typ == tree.Dir {
			below = append(below, string(name))
		}
		return nil
	}))
	f(d, append(names, "gone", "..", ""))
	for _, name := range below {
		if child, err := d.Open(name); err == nil && depth < 6 {
			eachDir(t, child, depth+1, f)
			child.Release()
		}
	}
}

// What happens to the files between opening and reading shows in both ways alike.
func TestBatchesReadAlikeWhatChanged(t *testing.T) {
	for kind, b := range batches(t) {
		t.Run(kind, func(t *testing.T) {
			d, path := openTemp(t)
			var names []string
			for i := range 200 {
				names = append(names, fmt.Sprint(i))
				write(t, path+"/"+names[i], strings.Repeat(fmt.Sprintf("%04d", i), i*10))
			}
			got := readNamed(t, b, d, names, asOpened, func() {
				for i, name := range names {
					full := filepath.Join(path, name)
					switch i % 5 {
					case 1:
						require.NoError(t, os.Truncate(full, int64(i)))
					case 2:
						require.NoError(t, os.Truncate(full, int64(i*40+10_000)))
					case 3:
						require.NoError(t, os.Remove(full))
					case 4:
						require.NoError(t, os.WriteFile(full, []byte(strings.Repeat("new!", i*10)), 0o600))
					}
				}
			})
			for i, name := range names {
				was := strings.Repeat(fmt.Sprintf("%04d", i), i*10)
				want := map[int]string{
					0: was, 1: was[:i], 2: was + "\x00", 3: was, 4: strings.Repeat("new!", i*10),
				}[i%5]
				require.Equal(t, outcome{n: len(want), content: want}, got[name], name)
			}
		})
	}
}

// Files may be written to while they are read: any mixture of contents may result, but no error, and not more than the
// buffer holds.
func TestBatchesReadWhatIsBeingWritten(t *testing.T) {
	for kind, b := range batches(t) {
		t.Run(kind, func(t *testing.T) {
			d, path := openTemp(t)
			var names []string
			for i := range 100 {
				names = append(names, fmt.Sprint(i))
				write(t, path+"/"+names[i], strings.Repeat("x", 100*i))
			}
			ctx, cancel := context.WithCancel(t.Context())
			var group sync.WaitGroup
			group.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					name := filepath.Join(path, names[i%len(names)])
					_ = os.Truncate(name, int64(i%7000))
					_ = os.WriteFile(name, make([]byte, i%9000), 0o600)
				}
			})
			for range 50 {
				for name, o := range readNamed(t, b, d, names, asOpened, nil) {
					require.Empty(t, o.err, name)
				}
			}
			cancel()
			group.Wait()
		})
	}
}

func TestBatchIsOneOperation(t *testing.T) {
	for kind, b := range batches(t) {
		t.Run(kind, func(t *testing.T) {
			path := t.TempDir()
			d, gate := gated(t, t.Context(), path, iopolicy.Standard)
			var names []string
			total := 0
			for i := range 100 {
				names = append(names, fmt.Sprint(i))
				total += 50 + i
				write(t, path+"/"+names[i], strings.Repeat("x", 50+i))
			}
			readNamed(t, b, d, names[:2], asOpened, nil) // now it is known whether this file system plays along
			var before iopolicy.Stats
			got := readNamed(t, b, d, names, asOpened, func() { before = gate.Stats() })
			after := gate.Stats()
			require.EqualValues(t, total, after.Moved.Read-before.Moved.Read)
			want := 100
			if d.host.nonBlocking.Load() != 0 && b.MaxFiles() > 1 {
				want = 2 // of 64 and of 36 files
			}
			require.EqualValues(t, want, after.Operations-before.Operations)
			for i, name := range names {
				require.Equal(t, 50+i, got[name].n)
			}
		})
	}
}

// Under a limit, a batch is no larger than the largest I/O, and every byte is accounted.
func TestBatchIsBoundedInsideAWindow(t *testing.T) {
	for kind, b := range batches(t) {
		t.Run(kind, func(t *testing.T) {
			path := t.TempDir()
			d, gate := gated(t, t.Context(), path, iopolicy.Standard)
			d.host.noCacheStat.Store(true) // else they are read without the gate
			sizes := []int{30_000, 60_000, 30_000, 200_000, 131_071, 131_072, 10, 20, 30, 0, 40}
			var names []string
			total := 0
			for i, size := range sizes {
				names = append(names, fmt.Sprint(i))
				total += size
				write(t, path+"/"+names[i], string(testkit.Noise(uint64(i), size)))
			}
			readNamed(t, b, d, names[:2], asOpened, nil)
			var before iopolicy.Stats
			var stop func()
			got := readNamed(t, b, d, names, asOpened, func() {
				stop = foreground(t, gate)
				before = gate.Stats()
			})
			after := gate.Stats()
			stop()
			for i, name := range names {
				require.Equal(t, outcome{n: sizes[i], content: string(testkit.Noise(uint64(i), sizes[i]))}, got[name], name)
			}
			require.EqualValues(t, total, after.Moved.Read-before.Moved.Read)
			// One by one: each is an operation of its own, those of 200 000 and 131 072 bytes are two.
			want := 13
			if d.host.nonBlocking.Load() != 0 && b.MaxFiles() > 1 {
				want = 1 + 1 + 2 + 1 + 2 + 1 // with the time of their requests two fill one, and the last five fit one
			}
			require.EqualValues(t, want, after.Operations-before.Operations)
		})
	}
}

func TestBatchThatIsCalledOff(t *testing.T) {
	for kind, b := range batches(t) {
		t.Run(kind, func(t *testing.T) {
			path := t.TempDir()
			ctx, cancel := context.WithCancelCause(t.Context())
			d, _ := gated(t, ctx, path, iopolicy.Standard)
			why := errors.New("no more")
			names := []string{"a", "b", "c"}
			for _, name := range names {
				write(t, path+"/"+name, name)
			}
			var files []BatchFile
			for i, name := range names {
				f, err := b.Open(d, name, Known{})
				require.NoError(t, err)
				files = append(files, BatchFile{File: f, Size: 1, At: 2 * i})
			}
			cancel(why)
			buffer := make([]byte, 6)
			b.ReadWhole(buffer, files)
			for _, w := range files {
				require.ErrorIs(t, w.Err, ErrStopped)
				require.ErrorIs(t, w.Err, why)
				require.Zero(t, w.N)
				b.Done(w.File)
			}
			require.Equal(t, make([]byte, 6), buffer, "nothing was read")
			_, err := b.Open(d, "a", Known{})
			require.ErrorIs(t, err, ErrStopped)
		})
	}
}

// Pages that were in memory stay, those that only the batch brought in go.
func TestBatchLeavesThePageCacheAsFound(t *testing.T) {
	d, path := onDisk(t)
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint(i))
		write(t, path+"/"+names[i], strings.Repeat("x", 9000))
	}
	unix.Sync()
	in := func(f *File) bool {
		n, ok := f.cached(0, 9000)
		require.True(t, ok)
		return n > 0
	}
	for kind, b := range batches(t) {
		t.Run(kind, func(t *testing.T) {
			for i, name := range names {
				f, err := d.OpenFile(name)
				require.NoError(t, err)
				f.drop(0, 9000)
				if in(f) {
					t.Skip("the kernel keeps these pages")
				}
				if i%2 == 1 {
					readAll(t, f, 9000)
				}
				require.NoError(t, f.Close())
			}
			for name, o := range readNamed(t, b, d, names, asOpened, nil) {
				require.Equal(t, 9000, o.n, name)
			}
			for i, name := range names {
				f, err := d.OpenFile(name)
				require.NoError(t, err)
				require.Equal(t, i%2 == 1, in(f), name)
				require.NoError(t, f.Close())
			}
		})
	}
}

// A file system with blocking reads is read one by one, without threads of the kernel's.
func TestBatchOfAFileSystemThatBlocks(t *testing.T) {
	b := NewBatch(true)
	defer b.Close()
	d := openAt(t, "/proc/self")
	got := readNamed(t, b, d, []string{"stat", "status", "limits"}, func(*File) uint64 { return 1 << 16 }, nil)
	for name, o := range got {
		require.Empty(t, o.err, name)
		require.NotZero(t, o.n, name)
	}
	require.Zero(t, d.host.nonBlocking.Load())
}

func TestBatchOpensWithoutMemory(t *testing.T) {
	d, path := openTemp(t)
	write(t, path+"/f", "x")
	b := NewBatch(false)
	f, err := b.Open(d, "f", Known{})
	require.NoError(t, err)
	b.Done(f)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		f, err := b.Open(d, "f", Known{})
		if err != nil {
			t.Fatal(err)
		}
		b.Done(f)
	}))
}
