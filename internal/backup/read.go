package backup

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/backup/crew"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// batch is what a reader takes at once: neighbouring entries of one directory, or one large file.
type batch struct {
	job     *job
	dir     *localfs.Dir // retained
	entries []uint32
	bytes   uint64
	large   bool
}

// piece is what a worker takes at once: the data of small files of one directory, or a part of a large file.
type piece struct {
	job   *job
	buf   []byte
	items []item   // small files
	part  *attempt // of a large file; then buf[:n] is cut at cuts
	cuts  []uint32
	seq   int
	n     int
}

// item is one small file inside a piece.
type item struct {
	entry uint32
	off   uint32
	len   uint32
}

func (p *pipeline) newBatch(j *job, dir *localfs.Dir) *batch { return &batch{job: j, dir: dir} }

// send queues b, which from then on is a part of its job.
func (p *pipeline) send(ctx context.Context, b *batch) error {
	if len(b.entries) == 0 {
		return nil
	}
	b.job.pending.Add(1)
	b.dir.Retain()
	if err := crew.Hand(ctx, p.batches, b); err != nil {
		b.dir.Release()
		return err
	}
	return nil
}

// readOrder returns the entries of j that must be read, by inode. Directories read their own metadata.
func (j *job) readOrder() []uint32 {
	var order []uint32
	for i, s := range j.states {
		if s != isSame && j.dir.Entries[i].Type != tree.Dir {
			order = append(order, uint32(i))
		}
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(j.dir.Entries[a].Ino, j.dir.Entries[b].Ino), cmp.Compare(a, b))
	})
	return order
}

// read is one reader.
func (p *pipeline) read(ctx context.Context) error {
	clock := p.Ledger.Worker("reader")
	defer clock.Stop()
	clock.Enter(report.WaitScan)
	return crew.Take(p.batches, &p.readers, func(b *batch) error {
		defer clock.Enter(report.WaitScan)
		defer b.dir.Release()
		return p.readOne(ctx, b, clock)
	})
}

func (p *pipeline) readOne(ctx context.Context, b *batch, clock *report.Clock) error {
	if b.large {
		clock.Enter(report.Read)
		return p.readLarge(ctx, b, clock)
	}
	var rest remainder
	for left := b.entries; len(left) > 0; {
		read := p.readMany
		if b.dir.Bound() > 0 {
			read = p.readAlone
		}
		n, pc, err := read(ctx, b, left, &rest, clock)
		if err != nil {
			return err
		}
		left = left[n:]
		switch {
		case pc == nil && len(left) == 0:
			err = p.done(ctx, b.job)
		case pc != nil:
			if len(left) > 0 {
				b.job.pending.Add(1) // the last piece ends the batch, others end themselves
			}
			err = p.forward(ctx, pc, clock)
		}
		if err != nil {
			return err
		}
	}
	return p.finishRest(ctx, b, &rest, clock)
}

// readMany reads the first of some entries into one buffer: all of them, unless the gate begins to bound what is read. It
// returns how many it took, and a piece if there is something for the workers.
func (p *pipeline) readMany(ctx context.Context, b *batch, entries []uint32, rest *remainder, clock *report.Clock) (
	int, *piece, error,
) {
	clock.Enter(report.WaitMemory)
	buf, err := p.buffers.Get(ctx)
	if err != nil {
		return 0, nil, err
	}
	clock.Enter(report.Read)
	clock.Current(func() string { return b.job.dir.Join(b.job.dir.Entries[entries[0]].Name) })
	pc, n := &piece{job: b.job, buf: buf}, 0
	for _, i := range entries {
		if n > 0 && b.dir.Bound() > 0 {
			break
		}
		if err := p.readEntry(ctx, b, i, pc, rest); err != nil {
			return n, nil, err
		}
		n++
	}
	p.Ledger.Bytes.Read.Add(uint64(pc.n))
	if len(pc.items) == 0 {
		p.buffers.Put(buf)
		return n, nil, nil
	}
	return n, pc, nil
}

// readAlone reads one entry without holding any of the buffers while it waits at the gate: they are fewer than the
// readers, and those of another device need them.
func (p *pipeline) readAlone(ctx context.Context, b *batch, entries []uint32, rest *remainder, clock *report.Clock) (
	int, *piece, error,
) {
	own, err := p.asides.Get(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer p.asides.Put(own)
	clock.Enter(report.Read)
	clock.Current(func() string { return b.job.dir.Join(b.job.dir.Entries[entries[0]].Name) })
	pc := &piece{job: b.job, buf: own}
	if err := p.readEntry(ctx, b, entries[0], pc, rest); err != nil {
		return 0, nil, err
	}
	p.Ledger.Bytes.Read.Add(uint64(pc.n))
	if len(pc.items) == 0 {
		return 1, nil, nil
	}
	clock.Enter(report.WaitMemory)
	if pc.buf, err = p.buffers.Get(ctx); err != nil {
		return 0, nil, err
	}
	copy(pc.buf, own[:pc.n])
	return 1, pc, nil
}

// readEntry reads one entry of a batch into pc.
func (p *pipeline) readEntry(ctx context.Context, b *batch, i uint32, pc *piece, rest *remainder) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if b.job.dir.Entries[i].Type != tree.File {
		p.readOther(b, i)
		return nil
	}
	return p.small(ctx, b, i, pc, rest)
}

// remainder is what a batch leaves to be read once its buffer is given away: a reader that waits for a second buffer
// while it holds one could wait for another that does the same.
type remainder struct {
	grown   []uint32  // too large for a batch by now; each holds the job open
	orphans []*linked // files of which another name must be read
}

func (p *pipeline) finishRest(ctx context.Context, b *batch, rest *remainder, clock *report.Clock) error {
	for _, i := range rest.grown {
		if err := p.readLarge(ctx, &batch{job: b.job, dir: b.dir, entries: []uint32{i}, large: true}, clock); err != nil {
			return err
		}
	}
	for _, f := range rest.orphans {
		if err := p.readNext(ctx, f, clock); err != nil {
			return err
		}
	}
	return nil
}

// small reads one small file into pc, or books why not.
func (p *pipeline) small(ctx context.Context, b *batch, i uint32, pc *piece, rest *remainder) error {
	items := len(pc.items)
	switch p.readSmall(ctx, b, i, pc) {
	case isLarge:
		b.job.pending.Add(1)
		rest.grown = append(rest.grown, i)
		return nil
	case isOther:
		if f := b.job.results[i].unlink(); f != nil {
			rest.orphans = append(rest.orphans, f)
		}
	case isRead:
	}
	if items == len(pc.items) { // no worker will hear of it
		return p.share(ctx, b.job, i)
	}
	return nil
}

// forward hands a piece to the workers.
func (p *pipeline) forward(ctx context.Context, pc *piece, clock *report.Clock) error {
	clock.Enter(report.WaitCPU)
	return crew.Hand(ctx, p.pieces, pc)
}

// readOther reads what there is to an object without content.
func (p *pipeline) readOther(b *batch, i uint32) {
	e, r := &b.job.dir.Entries[i], &b.job.results[i]
	path := b.job.dir.Join(e.Name)
	x := r.more()
	switch e.Type {
	case tree.Symlink:
		target, err := b.dir.Readlink(e.Name)
		if err != nil {
			p.unreadable(b.job, i, path, "read link", err)
			return
		}
		x.target = target
	case tree.CharDevice, tree.BlockDevice:
		var st localfs.Stat
		if err := b.dir.Lstat(e.Name, &st); err != nil {
			p.unreadable(b.job, i, path, "look at", err)
			return
		}
		if st.Type != e.Type {
			r.gone = true
			return
		}
		x.device = st.Rdev
	}
	if err := p.attributes(x, b.dir, e.Name, e.Type); err != nil {
		p.failed(path, attributesOp, err)
	}
}

// unreadable books a failure. What vanished meanwhile is no failure: it is as if the backup had come a moment later.
func (p *pipeline) unreadable(j *job, i uint32, path, op string, err error) {
	if errors.Is(err, localfs.ErrVanished) {
		j.results[i].gone = true
		p.Ledger.Note(path, "read", errVanished)
		return
	}
	j.results[i].outcome = tree.Unreadable
	p.failed(path, op, err)
}

// failed books what could not be done with an object. A call that was not made because the run was called off says
// nothing about the object; such a run ends without a snapshot.
func (p *pipeline) failed(path, op string, err error) {
	if !errors.Is(err, localfs.ErrStopped) {
		p.Ledger.Fail(path, op, err)
	}
}

// found is what a name turned out to stand for when it was opened.
type found uint8

const (
	isRead  found = iota // the file that was scanned; its result is complete, whatever it is
	isLarge              // a file too large for a batch; nothing was done
	isOther              // gone or another file than was scanned; its result is complete
)

// meaning tells whether f, which was opened under the name of e, is the file that was scanned.
func meaning(e *scan.Entry, f *localfs.File) found {
	if e.Ino != f.Opened().Ino {
		return isOther
	}
	return isRead
}

// readSmall appends the content of one small file to pc.
func (p *pipeline) readSmall(ctx context.Context, b *batch, i uint32, pc *piece) found {
	e, r := &b.job.dir.Entries[i], &b.job.results[i]
	f, err := b.dir.OpenFile(e.Name)
	if err != nil {
		return p.openFailed(b, i, err)
	}
	defer f.Close()
	f.NoteCache()
	what, room := meaning(e, f), pc.buf[pc.n:]
	for try := 0; ; try++ {
		st, err := p.before(ctx, f, b.job, i, try)
		if context.Cause(ctx) != nil {
			return what
		}
		if err != nil {
			p.unreadable(b.job, i, b.job.dir.Join(e.Name), "look at", err)
			return what
		}
		size := st.Size
		if b.job.dir.FS.Pseudo {
			size = smallFile
		} else if size >= uint64(len(room)) || size > smallFile {
			return isLarge
		}
		n, err := f.ReadWhole(room, size)
		if err == nil && b.job.dir.FS.Pseudo {
			if n > smallFile {
				err = errEndless
			}
			st.Size = uint64(n)
		}
		if err != nil {
			p.unreadable(b.job, i, b.job.dir.Join(e.Name), "read", err)
			return what
		}
		after, err := f.Stat()
		if err != nil {
			p.unreadable(b.job, i, b.job.dir.Join(e.Name), "look at", err)
			return what
		}
		if b.job.dir.FS.Pseudo {
			after.Size = uint64(n)
		}
		verdict := p.judge(&st, &after, uint64(n), try)
		if verdict == again {
			p.Ledger.Objects.Retries.Add(1)
			continue
		}
		p.conclude(b.job, i, verdict, try)
		p.measured(e, &after, uint64(n))
		p.openAttributes(r, f, &after, b.job.dir, e.Name)
		if verdict != give {
			pc.items = append(pc.items, item{i, uint32(pc.n), uint32(n)})
			pc.n += n
		}
		f.DropCache(0, int64(n))
		return what
	}
}

// openFailed books a file that could not be opened, with what can be known of it from outside.
func (p *pipeline) openFailed(b *batch, i uint32, err error) found {
	e := &b.job.dir.Entries[i]
	if errors.Is(err, localfs.ErrNotRegular) {
		b.job.results[i].gone = true
		p.Ledger.Note(b.job.dir.Join(e.Name), "read", errReplaced)
		return isOther
	}
	p.unreadable(b.job, i, b.job.dir.Join(e.Name), "open", err)
	r := &b.job.results[i]
	if r.gone {
		return isOther
	}
	if err := p.attributes(r.more(), b.dir, e.Name, e.Type); err != nil && !errors.Is(err, localfs.ErrStopped) {
		p.Ledger.Note(b.job.dir.Join(e.Name), attributesOp, err)
	}
	return isRead
}
