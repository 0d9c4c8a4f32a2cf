package read

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Reader reads one portion after the other. It belongs to one goroutine.
type Reader struct {
	stage   *Stage
	files   *localfs.Batch
	group   []opened // open at the moment
	wholes  []localfs.BatchFile
	absent  []uint32  // see residentFirst
	started tree.Time // when the group was begun: a timestamp that was safe then is safe now
	clock   *report.Clock
}

// opened is a small file that is read together with others.
type opened struct {
	entry  uint32
	state  openResult
	file   *localfs.File
	before status
}

// NewReader returns a Reader whose time is counted by clock. The caller closes it.
func (s *Stage) NewReader(clock *report.Clock) *Reader {
	return &Reader{stage: s, files: localfs.NewBatch(!s.Options.Singly), clock: clock}
}

// Close releases what the Reader holds.
func (r *Reader) Close() error { return r.files.Close() }

// Read reads a portion and releases it.
func (r *Reader) Read(ctx context.Context, b *Portion) error {
	defer b.handle.Release()
	if b.large {
		r.clock.Enter(report.Read)
		return r.large(ctx, b.dir, b.handle, b.entries[0])
	}
	b.handle.Expect(len(b.entries))
	var rest remainder
	resident := -1 // of those left, after they were sorted
	for left := b.entries; len(left) > 0; {
		now := left
		if resident < 0 && b.handle.MaxIO() > 0 {
			resident = r.residentFirst(b, left)
		}
		if resident > 0 {
			now = left[:resident]
		}
		n, p, err := r.some(ctx, b, now, &rest)
		if err != nil {
			return err
		}
		left = left[n:]
		if resident > 0 {
			resident -= n
		}
		switch {
		case p == nil && len(left) == 0:
			err = b.dir.Parts.End(ctx)
		case p != nil:
			if len(left) > 0 {
				b.dir.Parts.Begin() // the last piece ends the portion, others end themselves
			}
			err = r.send(ctx, p)
		}
		if err != nil {
			return err
		}
	}
	return r.finishRest(ctx, b, &rest)
}

// some reads the first of some entries into one buffer: all of them, or as much as the gate admits at once while it
// limits the size of reads. It returns how many entries it read, and a piece if there is data to store.
//
// While it waits at the gate it holds none of the buffers: there are fewer of them than readers, and the readers of
// another device need them.
func (r *Reader) some(ctx context.Context, b *Portion, entries []uint32, rest *remainder) (int, *Piece, error) {
	memory, bounded := &r.stage.Memory, b.handle.MaxIO() > 0
	from := memory.Buffers
	if bounded {
		from = memory.Scratch
	} else {
		r.clock.Enter(report.WaitMemory)
	}
	own, err := from.Get(ctx)
	if err != nil {
		return 0, nil, err
	}
	p, n := &Piece{dir: b.dir, Buf: own}, 0
	defer func() {
		if bounded || err == nil && len(p.Items) == 0 {
			from.Put(own)
		}
	}()
	r.clock.Enter(report.Read)
	r.clock.Current(func() string { return b.dir.path(entries[0]) })
	for n < len(entries) && (n == 0 || !bounded && b.handle.MaxIO() == 0) {
		var k int
		if k, err = r.readGroup(ctx, b, entries[n:], p, rest); err != nil {
			return n, nil, err
		}
		n += k
	}
	r.stage.Ledger.Bytes.Read.Add(p.content())
	if len(p.Items) == 0 {
		return n, nil, nil
	}
	if bounded {
		r.clock.Enter(report.WaitMemory)
		if p.Buf, err = memory.Buffers.Get(ctx); err != nil {
			return 0, nil, err
		}
		copy(p.Buf, own[:p.Len])
	}
	return n, p, nil
}

// readGroup reads the first of some entries of a portion into p, at least one of them, and returns how many. Files are
// opened one after the other and then read together: as many as can be in flight at once, or all, if they are read in
// the order of their extents.
func (r *Reader) readGroup(ctx context.Context, b *Portion, entries []uint32, p *Piece, rest *remainder) (int, error) {
	r.group, r.wholes = r.group[:0], r.wholes[:0]
	r.started = tree.TimeOf(time.Now())
	defer r.closeGroup()
	n, most, ordered := 0, r.files.MaxFiles(), r.stage.byExtent(b.handle)
	if ordered {
		most = len(entries)
	}
	for ; n < len(entries) && len(r.group) < most; n++ {
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		i := entries[n]
		if b.dir.Entries[i].Type != tree.File {
			r.stage.readOther(b, i)
			b.dir.Parts.Stored(i)
			continue
		}
		more, err := r.open(ctx, b, i, p, rest)
		if err != nil {
			return n, err
		}
		if !more {
			break
		}
	}
	waiting := r.files.ReadResident(p.Buf, r.wholes)
	if ordered {
		r.files.SortByPosition(waiting)
	}
	r.files.ReadWhole(p.Buf, waiting)
	r.files.Facts(r.wholes)
	for k := range r.wholes {
		w := &r.wholes[k]
		items, o := len(p.Items), &r.group[w.Index]
		state := r.evaluate(ctx, b.dir, o, w, p)
		if err := r.finishEntry(ctx, b, o.entry, state, items < len(p.Items), rest); err != nil {
			return n, err
		}
	}
	return n, nil
}

// closeGroup closes the files of a group.
func (r *Reader) closeGroup() {
	for i := range r.group {
		if r.group[i].file != nil {
			r.files.Done(r.group[i].file)
		}
		r.group[i] = opened{}
	}
	r.stage.Memory.Open.Release(max(0, int64(len(r.group)-1)))
	r.group = r.group[:0]
}

// open opens a small file and reserves room for it in p, or records why not. It returns false if there is no room for
// the file in this group.
func (r *Reader) open(ctx context.Context, b *Portion, i uint32, p *Piece, rest *remainder) (bool, error) {
	e, first := &b.dir.Entries[i], len(r.group) == 0
	free := uint64(len(p.Buf) - p.Len)
	if bound := b.handle.MaxIO(); bound > 0 && !first {
		free = min(free, uint64(max(0, bound-p.Len)))
	}
	if !first && e.Size >= free {
		return false, nil
	}
	if !first {
		if !r.stage.Memory.Open.TryAcquire(1) { // other readers have them
			return false, nil
		}
		defer func(before int) {
			if len(r.group) == before {
				r.stage.Memory.Open.Release(1)
			}
		}(len(r.group))
	}
	f, err := openAgain(b.handle, e, func() (*localfs.File, error) {
		return r.files.Open(b.handle, e.Name, known(b.dir, e))
	})
	if !first && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) {
		return false, nil
	}
	if err != nil {
		return true, r.finishEntry(ctx, b, i, r.stage.openFailed(b.dir, b.handle, i, err), false, rest)
	}
	o := opened{entry: i, state: compareOpened(e, f), file: f}
	if o.before.Stat = *f.Opened(); !scan.Safe(o.before.Ctime, r.started) {
		o.before, err = r.stage.before(ctx, f, b.dir, i, 0)
	}
	if err != nil {
		r.files.Done(f)
		if context.Cause(ctx) == nil {
			r.stage.unreadable(b.dir, i, statusOp, err)
		}
		return true, r.finishEntry(ctx, b, i, o.state, false, rest)
	}
	size := expected(b.dir, &o.before)
	switch {
	case size < free && size <= SmallFile:
	case !first && size <= SmallFile: // there is room in the next group
		r.files.Done(f)
		return false, nil
	default:
		r.files.Done(f)
		return true, r.finishEntry(ctx, b, i, isLarge, false, rest)
	}
	r.wholes = append(r.wholes, localfs.BatchFile{File: f, Index: len(r.group), Size: size, At: p.Len})
	r.group = append(r.group, o)
	p.Len += int(size) + 1
	return true, nil
}

// remainder is what a portion leaves to be read after its buffer is handed on: a reader that waits for a second buffer
// while it holds one could wait for another reader that does the same.
type remainder struct {
	grown   []uint32  // too large for a portion by now; each is a part of its directory
	orphans []*linked // files that must be read by another of their names
}

func (r *Reader) finishRest(ctx context.Context, b *Portion, rest *remainder) error {
	for _, i := range rest.grown {
		if err := r.large(ctx, b.dir, b.handle, i); err != nil {
			return err
		}
	}
	for _, f := range rest.orphans {
		if err := r.readNext(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// finishEntry does what is left to do once a file was read or found to be unreadable. kept: it is part of a piece now.
func (r *Reader) finishEntry(ctx context.Context, b *Portion, i uint32, state openResult, kept bool,
	rest *remainder) error {
	switch state {
	case isLarge:
		b.dir.Parts.Begin()
		rest.grown = append(rest.grown, i)
		return nil
	case isOther:
		if f := b.dir.Results[i].handOver(); f != nil {
			rest.orphans = append(rest.orphans, f)
		}
	case isScanned:
	}
	if !kept { // Stored will not publish it
		return r.stage.publish(ctx, b.dir, i)
	}
	return nil
}

// send hands a piece on.
func (r *Reader) send(ctx context.Context, p *Piece) error {
	r.clock.Enter(report.WaitCPU)
	return r.stage.Flow.Send(ctx, p)
}

// readOther reads the metadata of an object without content.
func (s *Stage) readOther(b *Portion, i uint32) {
	e, r := &b.dir.Entries[i], &b.dir.Results[i]
	x := r.extra()
	switch e.Type {
	case tree.Symlink:
		target, err := b.handle.Readlink(e.Name)
		if err != nil {
			s.unopened(b.dir, i, b.handle, "read link", err)
			return
		}
		x.Target = target
	case tree.CharDevice, tree.BlockDevice:
		var st localfs.Stat
		if err := b.handle.Lstat(e.Name, &st); err != nil {
			s.unopened(b.dir, i, b.handle, statusOp, err)
			return
		}
		if st.Type != e.Type {
			s.gone(b.dir, i, ErrReplaced)
			return
		}
		x.Device = st.Rdev
	}
	if err, _ := s.attributes(x, b.handle, e.Name, e.Type); err != nil {
		s.fail(b.dir.path(i), xattrOp, err)
	}
}

// evaluate makes an item of p of a file that was read together with others, or records why not. A file that changed
// meanwhile is read again, by itself.
func (r *Reader) evaluate(ctx context.Context, d *Dir, o *opened, w *localfs.BatchFile, p *Piece) openResult {
	s, i, e := r.stage, o.entry, &d.Entries[o.entry]
	for try := 0; ; try++ {
		if try > 0 {
			if state, ok := r.attempt(ctx, d, o, w, p, try); !ok {
				return state
			}
		}
		if context.Cause(ctx) != nil {
			return o.state
		}
		before, after, n := o.before, w.Facts, w.N
		switch {
		case w.Err != nil:
			s.unreadable(d, i, "read", w.Err)
			return o.state
		case d.FS.Pseudo && n > SmallFile:
			s.unreadable(d, i, "read", errEndless)
			return o.state
		case w.FactsErr != nil:
			s.unreadable(d, i, statusOp, w.FactsErr)
			return o.state
		case d.FS.Pseudo:
			before.Size, after.Size = uint64(n), uint64(n)
		}
		v := s.Options.judge(&before, &after.Stat, uint64(n), try)
		if v == retry {
			s.Ledger.Objects.Retries.Add(1)
			continue
		}
		s.recordOutcome(d, i, v, try)
		s.updateEntry(e, &after.Stat, uint64(n))
		s.takeMetadata(d, i, o.file, &after)
		if v != drop {
			p.Items = append(p.Items, Item{i, uint32(w.At), uint32(n)})
			p.Len = max(p.Len, w.At+n)
		}
		return o.state
	}
}
