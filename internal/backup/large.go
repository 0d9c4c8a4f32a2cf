package backup

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// attempt is one reading of a large file. Its parts are processed by several workers, in any order; it puts the chunks
// back into the order of the file and into pages, so that a file of any size is held by a few pages at a time.
type attempt struct {
	job   *job
	entry uint32

	mu      sync.Mutex
	content *tree.ContentBuilder
	next    int                  // the first part that content lacks
	early   map[int][]tree.Chunk // parts that came before their turn
	parts   int                  // how many there are; -1 while it is being read
}

func (p *pipeline) newAttempt(j *job, entry uint32) *attempt {
	return &attempt{
		job: j, entry: entry, early: map[int][]tree.Chunk{}, parts: -1,
		content: tree.NewContentBuilder(func(page []byte) (format.ID, error) {
			m := p.makers.get()
			defer p.makers.put(m)
			return m.emit(page)
		}),
	}
}

// deliver adds the chunks of part seq, and reports whether that was the last one missing.
func (a *attempt) deliver(seq int, chunks []tree.Chunk) (whole bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.early[seq] = chunks
	for {
		part, ok := a.early[a.next]
		if !ok {
			return a.next == a.parts, nil
		}
		for _, c := range part {
			if err := a.content.Add(c); err != nil {
				return false, err
			}
		}
		delete(a.early, a.next)
		a.next++
	}
}

// complete says how many parts there are, and reports whether all of them have been delivered.
func (a *attempt) complete(parts int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.parts = parts
	return a.next == parts
}

// readLarge reads one file piece by piece. It ends one part of the file's job, now or when its last piece is processed.
func (p *pipeline) readLarge(ctx context.Context, b *batch, clock *report.Clock) error {
	j, i := b.job, b.entries[0]
	e := &j.dir.Entries[i]
	clock.Current(func() string { return j.dir.Join(e.Name) })
	f, err := b.dir.OpenFile(e.Name)
	var what found
	if err != nil {
		what = p.openFailed(b, i, err)
	} else {
		defer f.Close()
		what = meaning(e, f)
	}
	if what == isOther {
		if err := p.readNext(ctx, j.results[i].unlink(), clock); err != nil {
			return err
		}
	}
	if err != nil {
		return p.finishFile(ctx, j, i)
	}
	f.NoteCache()
	for try := 0; ; try++ {
		before, err := p.before(ctx, f, j, i, try)
		if stop := context.Cause(ctx); stop != nil {
			return stop
		}
		if err != nil {
			p.unreadable(j, i, j.dir.Join(e.Name), "look at", err)
			return p.finishFile(ctx, j, i)
		}
		r := &pieceReader{pipeline: p, file: f, attempt: p.newAttempt(j, i), clock: clock}
		n, err := r.read(ctx, before.Size)
		if stop := context.Cause(ctx); stop != nil {
			return stop
		}
		after, statErr := f.Facts()
		if err = errors.Join(err, statErr); err != nil {
			p.unreadable(j, i, j.dir.Join(e.Name), "read", err)
			return p.finishFile(ctx, j, i)
		}
		v := p.judge(&before, &after.Stat, n, try)
		if v == again {
			p.Ledger.Objects.Retries.Add(1)
			continue // the pieces of this attempt are processed, and forgotten with it
		}
		p.conclude(j, i, v, try)
		p.measured(e, &after.Stat, n)
		p.beside(&j.results[i], &after, j.dir, e.Name)
		if v == give {
			return p.finishFile(ctx, j, i)
		}
		if r.attempt.complete(r.seq) {
			return p.assemble(ctx, r.attempt)
		}
		return nil
	}
}

// finishFile ends a file of which no piece is under way.
func (p *pipeline) finishFile(ctx context.Context, j *job, i uint32) error {
	if err := p.share(ctx, j, i); err != nil {
		return err
	}
	return p.done(ctx, j)
}

// assemble turns the chunks of a whole file into its content.
func (p *pipeline) assemble(ctx context.Context, a *attempt) error {
	r := &a.job.results[a.entry]
	content, err := a.content.Finish()
	if err != nil {
		return err
	}
	r.chunks = content.Chunks
	if !content.List.IsZero() {
		r.more().list = content.List
	}
	return p.finishFile(ctx, a.job, a.entry)
}

// pieceReader reads one attempt and cuts it. Holes are neither read nor stored: they are parts of their own.
type pieceReader struct {
	*pipeline
	file    *localfs.File
	attempt *attempt
	clock   *report.Clock
	seq     int
	carry   []byte // behind the last cut of the previous buffer
}

// read returns how many bytes of the file are covered, holes included.
func (r *pieceReader) read(ctx context.Context, size uint64) (covered uint64, err error) {
	err = r.file.Extents(size, func(off, n uint64, hole bool) error {
		if hole {
			if _, err := r.attempt.deliver(r.seq, []tree.Chunk{{Len: n}}); err != nil {
				return err
			}
			r.seq++
			r.Ledger.Bytes.Skipped.Add(n)
			covered += n
			return nil
		}
		got, err := r.extent(ctx, int64(off), n)
		covered += got
		return err
	})
	if errors.Is(err, io.EOF) {
		err = nil // it shrank: whoever compares the sizes will notice
	}
	return covered, err
}

// extent reads n bytes from off and passes them on in pieces that end at cut points. It returns io.EOF, with what there
// was, when the file ends before.
func (r *pieceReader) extent(ctx context.Context, off int64, n uint64) (got uint64, err error) {
	r.carry = r.carry[:0]
	for got < n {
		fill := r.fill
		if r.file.Bound() > 0 {
			fill = r.fillBounded
		}
		buf, head, k, err := fill(ctx, off+int64(got), n-got)
		if buf == nil {
			return got, err
		}
		r.Ledger.Bytes.Read.Add(uint64(k))
		r.file.DropCache(off+int64(got), int64(k))
		got += uint64(k)
		final := got == n || err != nil
		if err := r.cut(ctx, buf, head+k, final); err != nil {
			return got, err
		}
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

// fill reads the next piece of an extent into a buffer, behind what was left of the last one. buf[:head+k] is filled; a
// nil buf is an error of the run, any other error one of the file.
func (r *pieceReader) fill(ctx context.Context, off int64, left uint64) (buf []byte, head, k int, err error) {
	r.clock.Enter(report.WaitMemory)
	if buf, err = r.buffers.Get(ctx); err != nil {
		return nil, 0, 0, err
	}
	r.clock.Enter(report.Read)
	head = copy(buf, r.carry)
	want := int(min(uint64(pieceSize), left))
	k, err = r.file.ReadAt(buf[head:head+want], off)
	return buf, head, k, err
}

// fillBounded is fill where the gate lets only little through at a time. It reads what may be read at once, and asks for a
// buffer when that is there: see pipeline.readAlone.
func (r *pieceReader) fillBounded(ctx context.Context, off int64, left uint64) (buf []byte, head, k int, err error) {
	own, err := r.asides.Get(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	defer r.asides.Put(own)
	r.clock.Enter(report.Read)
	want := min(left, uint64(len(own)), uint64(max(r.file.Bound(), minBounded)))
	k, readErr := r.file.ReadAt(own[:want], off)
	r.clock.Enter(report.WaitMemory)
	if buf, err = r.buffers.Get(ctx); err != nil {
		return nil, 0, 0, err
	}
	head = copy(buf, r.carry)
	copy(buf[head:], own[:k])
	return buf, head, k, readErr
}

// cut finds the cut points of buf[:n] and passes everything up to the last one on.
func (r *pieceReader) cut(ctx context.Context, buf []byte, n int, final bool) error {
	pc := &piece{job: r.attempt.job, buf: buf, part: r.attempt, seq: r.seq}
	for pc.n < n {
		length := r.chunker.Next(buf[pc.n:n], final)
		if length == 0 {
			break
		}
		pc.n += length
		pc.cuts = append(pc.cuts, uint32(pc.n))
	}
	r.carry = append(r.carry[:0], buf[pc.n:n]...)
	if pc.n == 0 {
		r.buffers.Put(buf)
		return nil
	}
	r.seq++
	return r.forward(ctx, pc, r.clock)
}
