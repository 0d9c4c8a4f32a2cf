package speedtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const (
	// piece is the size of one sequential I/O: the largest inside an idle gap, so that no run exceeds its share by more
	// than one period.
	piece = 128 << 10
	// flushEvery is how much is written between two flushes: a pack.
	flushEvery = 16 << 20
	// leastBytes is the smallest file that is read. It is written however slow the disk is: below 1 MiB, localfs would
	// leave it in memory.
	leastBytes = 2 << 20
	randomRead = 4 << 10
	// spare is the free space left on the disk beside the two files.
	spare = 16 << 20
	// arrives is how long to wait for read-ahead in flight: longer than any working disk takes.
	arrives = 10 * time.Second
)

// disk is a directory in which files are written and read.
type disk struct {
	path  string
	tidy  *localfs.Dir // for operations outside measurements: no gate, and no end with ctx
	names [2]string    // of the file that is read and the one that is written
	size  int64        // of the first one; 0: it does not exist
	most  int64
	noise []byte
}

// openDisk verifies that there is space, and that files can be created.
func openDisk(path string, most int64) (*disk, error) {
	dir, err := localfs.OpenDir(path)
	if err != nil {
		return nil, fmt.Errorf("measure disk: %w", err)
	}
	d := &disk{path: path, tidy: dir, most: most / piece * piece, noise: noise(1, 1<<20)}
	if err := d.room(); err != nil {
		dir.Release()
		return nil, err
	}
	for i := range d.names {
		d.names[i] = fmt.Sprintf(".tidemark-bench-%d-%08x-%d", os.Getpid(), rand.Uint32(), i)
	}
	if err := d.try(); err != nil {
		d.close()
		return nil, fmt.Errorf("measure disk: %w; name a directory in which files can be made", err)
	}
	return d, nil
}

// try makes an empty file and removes it, so that an unusable directory is reported before the processor is measured.
func (d *disk) try() error {
	w, err := d.tidy.CreateFile(d.names[0])
	if err != nil {
		return err
	}
	return errors.Join(w.Close(), d.tidy.Remove(d.names[0], false))
}

// room rejects a disk that the files would fill.
func (d *disk) room() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(d.path, &fs); err != nil {
		return fmt.Errorf("find out free space in %s: %w", d.path, err)
	}
	free, need := fs.Bavail*uint64(fs.Bsize), uint64(2*d.most+spare)
	if free < need {
		return fmt.Errorf("%s has %d MiB free, and %d are needed: %w", d.path, free>>20, need>>20, ErrSpace)
	}
	return nil
}

// close removes the files.
func (d *disk) close() {
	for _, name := range d.names {
		_ = d.tidy.Remove(name, false) // it may not exist
	}
	d.tidy.Release()
}

// measure runs one measurement through a gate.
func (d *disk) measure(ctx context.Context, pass *iopolicy.Pass, what What, runs int, share time.Duration) (samples,
	error) {
	var s samples
	gated := localfs.IOContext{Ctx: ctx, Pass: pass}
	dir, err := gated.OpenDir(d.path)
	if err != nil {
		return s, d.failed(what, err)
	}
	defer dir.Release()
	for i := range runs {
		switch what {
		case Write:
			err = d.write(ctx, dir, share, &s)
		case ReadInOrder:
			err = d.read(ctx, dir, share, &s)
		default:
			err = d.readAtRandom(ctx, dir, share, uint64(i), &s)
		}
		if err != nil {
			return s, d.failed(what, err)
		}
	}
	return s, nil
}

func (d *disk) failed(what What, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf("%w: %w", ErrSpace, err)
	}
	return fmt.Errorf("measure %s in %s: %w", what, d.path, err)
}

// write writes a new file until the end of the share, and keeps it for reading if it is at least as large as the
// previous one.
func (d *disk) write(ctx context.Context, dir *localfs.Dir, share time.Duration, s *samples) (err error) {
	name := d.names[1]
	w, err := dir.CreateFile(name)
	if err != nil {
		return err
	}
	least := int64(1)
	if d.size < leastBytes {
		least = leastBytes
	}
	written := int64(0)
	err = s.timed(func() (float64, int64, error) {
		begin := time.Now()
		for elapsed := time.Duration(0); written < d.most &&
			(elapsed < share || written < least); elapsed = time.Since(begin) {
			if ctx.Err() != nil {
				return 0, 0, context.Cause(ctx)
			}
			// no two pieces alike, because some disks deduplicate
			from := written / piece * 4099 % int64(len(d.noise)-piece)
			n, err := w.WriteAt(d.noise[from:from+piece], written)
			written += int64(n)
			if err != nil {
				return 0, 0, err
			}
			if written%flushEvery == 0 {
				if err := w.Sync(); err != nil {
					return 0, 0, err
				}
			}
		}
		if err := w.Sync(); err != nil {
			return 0, 0, err
		}
		return perSecond(written, time.Since(begin)), 0, nil
	})
	err = errors.Join(err, w.Close())
	if err != nil || written < d.size {
		return errors.Join(err, d.tidy.Remove(name, false))
	}
	d.size = written
	return d.tidy.Rename(name, d.names[0])
}

// cold does one run on a file that is evicted before and after. Read-ahead pages in flight cannot be evicted until they
// arrive, and the next run would find them.
func (d *disk) cold(ctx context.Context, dir *localfs.Dir, s *samples,
	run func(*localfs.File) (float64, int64, error)) error {
	f, err := dir.OpenFile(d.names[0])
	if err != nil {
		return err
	}
	defer f.Close()
	cold := cool(f)
	err = s.timed(func() (float64, int64, error) { return run(f) })
	for end := time.Now().Add(arrives); cold && !cool(f) && ctx.Err() == nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return err
}

// read reads the file from its beginning, up to its end or the end of the share.
func (d *disk) read(ctx context.Context, dir *localfs.Dir, share time.Duration, s *samples) error {
	buf := make([]byte, piece)
	return d.cold(ctx, dir, s, func(f *localfs.File) (float64, int64, error) {
		begin, done := time.Now(), int64(0)
		for elapsed := time.Duration(0); done < d.size && (elapsed < share || done == 0); elapsed = time.Since(begin) {
			if ctx.Err() != nil {
				return 0, 0, context.Cause(ctx)
			}
			n, err := f.ReadAt(buf, done)
			if err != nil {
				return 0, 0, err
			}
			done += int64(n)
		}
		return perSecond(done, time.Since(begin)), done, nil
	})
}

// readAtRandom reads pieces of 4 KiB in random order, each once.
func (d *disk) readAtRandom(ctx context.Context, dir *localfs.Dir, share time.Duration, seed uint64, s *samples) error {
	order := rand.New(rand.NewPCG(seed, 0x7261_6e64)).Perm(int(d.size / randomRead))
	buf := make([]byte, randomRead)
	return d.cold(ctx, dir, s, func(f *localfs.File) (float64, int64, error) {
		begin, done := time.Now(), int64(0)
		for _, at := range order {
			if ctx.Err() != nil {
				return 0, 0, context.Cause(ctx)
			}
			if _, err := f.ReadAt(buf, int64(at)*randomRead); err != nil {
				return 0, 0, err
			}
			done++
			if time.Since(begin) >= share {
				break
			}
		}
		return perSecond(done, time.Since(begin)), done * randomRead, nil
	})
}
