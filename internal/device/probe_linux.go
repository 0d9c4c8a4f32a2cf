package device

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// The limits of a probe.
const (
	probeReads   = 2 * panel // of 4 KiB each
	probeTries   = 4 * probeReads
	probeFiles   = 64       // kept to read from
	probeDirs    = 512      // looked into
	probeEntries = 16 << 10 // looked at
	probeSmall   = 64 << 10 // bytes of a file that is worth a read
	// probeSpread is how many bytes the files found must have together: several times what a disk that turns keeps in its
	// own memory (256 MiB at most today), and enough of its surface that the arm must move.
	probeSpread = 1 << 30
)

// Probe lets j hear of up to 64 random reads of 4 KiB each, one after the other, from files that are there anyway below
// dir: for a device that a job only writes to, whose medium would otherwise stay in doubt. It goes past the page cache,
// changes nothing but, where O_NOATIME is refused, access times, counts only reads for which the kernel asked the
// device, and passes the gate of pass with each. Of a Judge that has decided, or hears nobody, it returns at once.
//
// That it returns nil does not mean that j has decided: ask j. ErrNoSample: there is too little below dir, or reads do not reach the device, and so nothing was learned.
func Probe(ctx context.Context, pass *iopolicy.Pass, dir *localfs.Dir, j *Judge) error {
	if _, decided, _ := j.Medium(); decided || !j.listens {
		return nil
	}
	return probe(ctx, pass, dir, j, probeSpread)
}

func probe(ctx context.Context, pass *iopolicy.Pass, dir *localfs.Dir, j *Judge, spread uint64) error {
	var s sample
	defer s.release()
	if err := s.gather(ctx, dir, spread); err != nil {
		return fmt.Errorf("look for files to time reads from: %w", err)
	}
	if s.size < spread {
		return fmt.Errorf("%w: %d MiB of files found, %d needed", ErrNoSample, s.size>>20, spread>>20)
	}
	var last error
	heard := 0
	for try := 0; try < probeTries && heard < probeReads; try++ {
		f := s.pick()
		blocks := int64(f.size / localfs.TimedRead)
		took, err := f.dir.TimeRead(ctx, pass, f.name, rand.Int64N(blocks)*localfs.TimedRead)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			last = err // a file that went away, or is not ours to read
			continue
		}
		if took > 0 {
			j.Note(took, localfs.TimedRead, false)
			heard++
		}
	}
	if heard < probeReads {
		return errors.Join(fmt.Errorf("%w: %d of %d reads reached the device", ErrNoSample, heard, probeTries), last)
	}
	return nil
}

// sample is a random choice of the files below a directory.
type sample struct {
	files []sampled
	size  uint64 // bytes of all that were found
	found int
}

type sampled struct {
	dir  *localfs.Dir // with a reference
	name string
	size uint64
}

func (s *sample) release() {
	for _, f := range s.files {
		f.dir.Release()
	}
}

// pick chooses a file, a large one more often.
func (s *sample) pick() sampled {
	var all uint64
	for _, f := range s.files {
		all += f.size
	}
	at := rand.Uint64N(all)
	for _, f := range s.files {
		if at < f.size {
			return f
		}
		at -= f.size
	}
	return s.files[0]
}

// gather looks below top, on its file system only, until it has found enough. What cannot be opened is passed by.
func (s *sample) gather(ctx context.Context, top *localfs.Dir, spread uint64) error {
	around, err := top.Fstat()
	if err != nil {
		return err
	}
	top.Retain()
	waiting := []*localfs.Dir{top}
	defer func() {
		for _, dir := range waiting {
			dir.Release()
		}
	}()
	entries := probeEntries
	for dirs := 0; len(waiting) > 0 && dirs < probeDirs && entries > 0; dirs++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := rand.IntN(len(waiting))
		dir := waiting[at]
		waiting[at] = waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		below := s.look(dir, around.Dev, &entries)
		dir.Release()
		waiting = append(waiting, below...)
		if s.size >= 4*spread && s.found >= 4*probeFiles {
			return nil
		}
	}
	return nil
}

// look takes the files of one directory into the sample, and opens some of those below.
func (s *sample) look(dir *localfs.Dir, dev uint64, entries *int) (below []*localfs.Dir) {
	const widest = 32 // directories opened of one
	_ = dir.Entries(make([]byte, 32<<10), func(raw []byte, _ tree.Type, _ uint64) error {
		if *entries--; *entries < 0 {
			return errEnough
		}
		name := string(raw)
		var st localfs.Stat
		if dir.Lstat(name, &st) != nil || st.Dev != dev {
			return nil
		}
		switch {
		case st.Type == tree.Dir && len(below) < widest:
			if sub, err := dir.Open(name); err == nil {
				below = append(below, sub)
			}
		case st.Type == tree.File && st.Size >= probeSmall && st.Blocks512*512 >= st.Size: // no holes
			s.take(sampled{dir, name, st.Size})
		}
		return nil
	})
	return below
}

// take keeps each file found with the same probability.
func (s *sample) take(f sampled) {
	s.size += f.size
	s.found++
	if len(s.files) < probeFiles {
		f.dir.Retain()
		s.files = append(s.files, f)
		return
	}
	if at := rand.IntN(s.found); at < probeFiles {
		f.dir.Retain()
		s.files[at].dir.Release()
		s.files[at] = f
	}
}
