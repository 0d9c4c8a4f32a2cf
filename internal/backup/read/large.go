package read

import (
	"context"
	"errors"
	"io"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// large reads one file piece by piece. It ends one part of the file's directory: now, or when its last piece is stored.
func (r *Reader) large(ctx context.Context, d *Dir, handle *localfs.Dir, i uint32) error {
	s, e := r.stage, &d.Entries[i]
	r.clock.Current(func() string { return d.path(i) })
	f, err := openAgain(handle, e, func() (*localfs.File, error) { return handle.OpenFile(e.Name) })
	var state openResult
	if err != nil {
		state = s.openFailed(d, handle, i, err)
	} else {
		defer f.Close()
		state = compareOpened(e, f)
	}
	if state == isOther {
		if err := r.readNext(ctx, d.Results[i].handOver()); err != nil {
			return err
		}
	}
	if err != nil {
		return s.finishFile(ctx, d, i)
	}
	for try := 0; ; try++ {
		before, err := s.before(ctx, f, d, i, try)
		if try == 0 {
			f.NoteCache()
		} else {
			f.ProbeCache()
		}
		if stop := context.Cause(ctx); stop != nil {
			return stop
		}
		if err != nil {
			s.unreadable(d, i, statusOp, err)
			return s.finishFile(ctx, d, i)
		}
		a := &attempt{reader: r, dir: d, entry: i, file: f, out: s.Flow.NewChunks()}
		n, err := a.read(ctx, before.Size)
		if stop := context.Cause(ctx); stop != nil {
			return stop
		}
		after, statErr := f.Facts()
		if err = errors.Join(err, statErr); err != nil {
			s.unreadable(d, i, "read", err)
			return s.finishFile(ctx, d, i)
		}
		v := s.Options.judge(&before, &after.Stat, n, try)
		if v == retry {
			s.Ledger.Objects.Retries.Add(1)
			continue // the chunks of this attempt are stored, and not used
		}
		s.recordOutcome(d, i, v, try)
		s.updateEntry(e, &after.Stat, n)
		s.takeMetadata(d, i, f, &after)
		if v == drop {
			return s.finishFile(ctx, d, i)
		}
		if a.out.Complete(a.seq) {
			return s.assemble(ctx, d, i, a.out)
		}
		return nil
	}
}

// finishFile ends a file without pieces in flight.
func (s *Stage) finishFile(ctx context.Context, d *Dir, i uint32) error {
	if err := s.publish(ctx, d, i); err != nil {
		return err
	}
	return d.Parts.End(ctx)
}

// assemble turns the chunks of a whole file into its content.
func (s *Stage) assemble(ctx context.Context, d *Dir, i uint32, f Chunks) error {
	content, err := f.Content()
	if err != nil {
		return err
	}
	r := &d.Results[i]
	r.Chunks = content.Chunks
	if !content.List.IsZero() {
		r.extra().List = content.List
	}
	return s.finishFile(ctx, d, i)
}

// attempt is one reading of a large file. Holes are neither read nor stored: each is a part of its own.
type attempt struct {
	reader *Reader
	dir    *Dir
	entry  uint32
	file   *localfs.File
	out    Chunks
	seq    int
	carry  []byte // behind the last cut of the previous buffer
}

// read returns how many bytes of the file are covered, holes included.
func (a *attempt) read(ctx context.Context, size uint64) (covered uint64, err error) {
	err = a.file.Extents(0, size, func(off, n uint64, hole bool) error {
		if hole {
			if _, err := a.out.Deliver(a.seq, []tree.Chunk{{Len: n}}); err != nil {
				return err
			}
			a.seq++
			a.reader.stage.Ledger.Bytes.Skipped.Add(n)
			covered += n
			return nil
		}
		got, err := a.extent(ctx, int64(off), n)
		covered += got
		return err
	})
	if errors.Is(err, io.EOF) {
		err = nil // it shrank: Options.judge compares the sizes
	}
	return covered, err
}

// extent reads n bytes from off and hands them on in pieces that end at cut points. When the file ends before, it
// returns io.EOF and what there was.
func (a *attempt) extent(ctx context.Context, off int64, n uint64) (got uint64, err error) {
	a.carry = a.carry[:0]
	for got < n {
		buf, head, k, err := a.fill(ctx, off+int64(got), n-got)
		if buf == nil {
			return got, err
		}
		a.reader.stage.Ledger.Bytes.Read.Add(uint64(k))
		a.file.DropCache(off+int64(got), int64(k))
		got += uint64(k)
		final := got == n || err != nil
		if err := a.cut(ctx, buf, head+k, final); err != nil {
			return got, err
		}
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

// fill reads the next piece of an extent into a buffer, behind what was left of the last one. buf[:head+k] is filled; a
// nil buf is an error of the run, any other error one of the file. While the gate limits the size of reads, it waits
// for the buffer only after it has read, for the reason given at Reader.some.
func (a *attempt) fill(ctx context.Context, off int64, left uint64) (buf []byte, head, k int, err error) {
	memory, clock := &a.reader.stage.Memory, a.reader.clock
	bound, own, readErr := a.file.MaxIO(), []byte(nil), error(nil)
	if bound > 0 {
		if own, err = memory.Scratch.Get(ctx); err != nil {
			return nil, 0, 0, err
		}
		defer memory.Scratch.Put(own)
		clock.Enter(report.Read)
		want := min(left, uint64(len(own)), uint64(max(bound, minBounded)))
		k, readErr = a.file.ReadAt(own[:want], off)
	}
	clock.Enter(report.WaitMemory)
	if buf, err = memory.Buffers.Get(ctx); err != nil {
		return nil, 0, 0, err
	}
	head = copy(buf, a.carry)
	if bound > 0 {
		copy(buf[head:], own[:k])
		return buf, head, k, readErr
	}
	clock.Enter(report.Read)
	k, err = a.file.ReadAt(buf[head:head+int(min(PieceSize, left))], off)
	return buf, head, k, err
}

// cut finds the cut points of buf[:n] and hands everything up to the last one on.
func (a *attempt) cut(ctx context.Context, buf []byte, n int, final bool) error {
	p := &Piece{dir: a.dir, entry: a.entry, file: a.out, seq: a.seq, Buf: buf}
	for p.Len < n {
		length := a.reader.stage.Cutter.Next(buf[p.Len:n], final)
		if length == 0 {
			break
		}
		p.Len += length
		p.Cuts = append(p.Cuts, uint32(p.Len))
	}
	a.carry = append(a.carry[:0], buf[p.Len:n]...)
	if p.Len == 0 {
		a.reader.stage.Memory.Buffers.Put(buf)
		return nil
	}
	a.seq++
	return a.reader.send(ctx, p)
}
