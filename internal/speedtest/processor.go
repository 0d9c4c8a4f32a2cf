package speedtest

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// step works on one frame and returns its length in bytes.
type step func() (int, error)

// task is a repeated operation of the processor.
type task struct {
	what  What
	level int
	start func(worker int) (step, error) // for one goroutine; each begins with another frame
}

// tasks returns all tasks.
func (c *corpus) tasks(levels []int) []task {
	var all []task
	for _, level := range levels {
		all = append(all, task{Compress, level, func(worker int) (step, error) { return c.compress(worker, level) }})
	}
	return append(all, task{Decompress, 0, c.decompress}, task{Hash, 0, c.hash}, task{Chunk, 0, c.find},
		task{Seal, 0, c.seal})
}

// turns returns the frame numbers in turn, endlessly.
func turns(worker int) func() int {
	i := worker % frames
	return func() int {
		this := i
		i = (i + 1) % frames
		return this
	}
}

func (c *corpus) compress(worker, level int) (step, error) {
	next := turns(worker)
	dst := make([]byte, 0, frameSize)
	compressor, err := pack.NewCompressor(level, 1<<20)
	return func() (int, error) {
		compressor.Compress(dst, c.frames[next()])
		return frameSize, nil
	}, err
}

func (c *corpus) decompress(worker int) (step, error) {
	opener, decompressor := pack.NewOpener(c.keys, c.table.Kind, c.table.Salt), pack.NewDecompressor()
	dst := make([]byte, 0, frameSize+frameSize/16) // the decoder may write past the end
	next := turns(worker)
	return func() (int, error) {
		f := &c.table.Frames[next()]
		raw, _, err := decompressor.OpenFrame(opener, f.Offset, c.data[f.Offset:][:f.Sealed], dst)
		return len(raw), err
	}, nil
}

func (c *corpus) hash(worker int) (step, error) {
	next, hasher := turns(worker), c.keys.Hasher()
	return func() (int, error) {
		i := next()
		rest := c.frames[i]
		for _, b := range c.cuts[i] {
			hasher.ID(rest[:b.Len])
			rest = rest[b.Len:]
		}
		return frameSize, nil
	}, nil
}

func (c *corpus) find(worker int) (step, error) {
	next := turns(worker)
	return func() (int, error) {
		for rest := c.frames[next()]; len(rest) > 0; {
			rest = rest[c.chunks.Next(rest, true):]
		}
		return frameSize, nil
	}, nil
}

// sealedFrames is how many frames are sealed into one pack. It is lower than in a repository so that memory bandwidth
// is not measured: the frames fit into most caches, as a frame does after compression.
const sealedFrames = 4

func (c *corpus) seal(worker int) (step, error) {
	next := turns(worker)
	buf := make([]byte, 0, sealedFrames*(frameSize+4096))
	var builder *pack.Builder
	return func() (int, error) {
		if builder == nil || builder.Frames() == sealedFrames {
			builder = pack.NewBuilder(c.keys, pack.Data, buf)
		}
		i := next()
		return frameSize, builder.Append(&pack.Payload{Codec: pack.Stored, Blobs: c.cuts[i], Raw: frameSize,
			Data: c.frames[i]})
	}, nil
}

// measure runs several goroutines concurrently, for a number of runs.
func (t *task) measure(ctx context.Context, workers, runs int, share time.Duration) (samples, error) {
	var s samples
	steps := make([]step, workers)
	for i := range steps {
		var err error
		if steps[i], err = t.start(i); err == nil {
			_, err = steps[i]() // the first one allocates
		}
		if err != nil {
			return s, fmt.Errorf("measure %s: %w", t.what, err)
		}
	}
	for range runs {
		err := s.timed(func() (float64, int64, error) {
			rate, err := together(ctx, steps, share)
			return rate, 0, err
		})
		if err != nil {
			return s, fmt.Errorf("measure %s: %w", t.what, err)
		}
	}
	return s, nil
}

// together repeats the steps concurrently, each at least once and until the share is over, and returns the sum of their
// rates. Each rate uses its own time, which excludes the wait for the last one.
func together(ctx context.Context, steps []step, share time.Duration) (float64, error) {
	rates := make([]float64, len(steps))
	group, ctx := errgroup.WithContext(ctx)
	for i, do := range steps {
		group.Go(func() error {
			begin, done := time.Now(), int64(0)
			for {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				n, err := do()
				if err != nil {
					return err
				}
				done += int64(n)
				if elapsed := time.Since(begin); elapsed >= share {
					rates[i] = perSecond(done, elapsed)
					return nil
				}
			}
		})
	}
	err := group.Wait()
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum, err
}
