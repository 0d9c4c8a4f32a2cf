package backup

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/crew"
	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
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

// reader is what one of the readers keeps from batch to batch.
type reader struct {
	*pipeline
	files  *localfs.Batch
	group  []opened // open at the moment
	wholes []localfs.Whole
	moment tree.Time // when it began to open them: what was settled then is settled now
	clock  *report.Clock
}

// opened is a small file that is to be read together with others.
type opened struct {
	entry  uint32
	what   found
	file   *localfs.File
	before attemptAt
}

// read is one reader.
func (p *pipeline) read(ctx context.Context) (err error) {
	r := &reader{pipeline: p, files: p.src.Reading.files(), clock: p.Ledger.Worker("reader")}
	defer func() { err = errors.Join(err, r.files.Close()) }()
	defer r.clock.Stop()
	r.clock.Enter(report.WaitScan)
	return crew.Take(p.batches, &p.readers, func(b *batch) error {
		defer r.clock.Enter(report.WaitScan)
		defer b.dir.Release()
		return r.readOne(ctx, b)
	})
}

func (r *reader) readOne(ctx context.Context, b *batch) error {
	if b.large {
		r.clock.Enter(report.Read)
		return r.readLarge(ctx, b, r.clock)
	}
	b.dir.Expect(len(b.entries))
	var rest remainder
	for left := b.entries; len(left) > 0; {
		read := r.readMany
		if b.dir.Bound() > 0 {
			read = r.readFew
		}
		n, pc, err := read(ctx, b, left, &rest)
		if err != nil {
			return err
		}
		left = left[n:]
		switch {
		case pc == nil && len(left) == 0:
			err = r.done(ctx, b.job)
		case pc != nil:
			if len(left) > 0 {
				b.job.pending.Add(1) // the last piece ends the batch, others end themselves
			}
			err = r.forward(ctx, pc, r.clock)
		}
		if err != nil {
			return err
		}
	}
	return r.finishRest(ctx, b, &rest, r.clock)
}

// readMany reads the first of some entries into one buffer: all of them, unless the gate begins to bound what is read. It
// returns how many it took, and a piece if there is something for the workers.
func (r *reader) readMany(ctx context.Context, b *batch, entries []uint32, rest *remainder) (int, *piece, error) {
	r.clock.Enter(report.WaitMemory)
	buf, err := r.buffers.Get(ctx)
	if err != nil {
		return 0, nil, err
	}
	r.begin(b, entries)
	pc, n := &piece{job: b.job, buf: buf}, 0
	for n < len(entries) && (n == 0 || b.dir.Bound() == 0) {
		k, err := r.readGroup(ctx, b, entries[n:], pc, rest)
		if err != nil {
			return n, nil, err
		}
		n += k
	}
	r.Ledger.Bytes.Read.Add(pc.content())
	if len(pc.items) == 0 {
		r.buffers.Put(buf)
		return n, nil, nil
	}
	return n, pc, nil
}

// readFew reads what the gate lets through at once, without holding any of the buffers while it waits there: they are
// fewer than the readers, and those of another device need them.
func (r *reader) readFew(ctx context.Context, b *batch, entries []uint32, rest *remainder) (int, *piece, error) {
	own, err := r.asides.Get(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer r.asides.Put(own)
	r.begin(b, entries)
	pc := &piece{job: b.job, buf: own}
	n, err := r.readGroup(ctx, b, entries, pc, rest)
	if err != nil {
		return 0, nil, err
	}
	r.Ledger.Bytes.Read.Add(pc.content())
	if len(pc.items) == 0 {
		return n, nil, nil
	}
	r.clock.Enter(report.WaitMemory)
	if pc.buf, err = r.buffers.Get(ctx); err != nil {
		return 0, nil, err
	}
	copy(pc.buf, own[:pc.n])
	return n, pc, nil
}

// begin tells the ledger what is read from now on.
func (r *reader) begin(b *batch, entries []uint32) {
	r.clock.Enter(report.Read)
	r.clock.Current(func() string { return b.job.dir.Join(b.job.dir.Entries[entries[0]].Name) })
}

// content returns how many bytes of small files there are.
func (pc *piece) content() (n uint64) {
	for _, it := range pc.items {
		n += uint64(it.len)
	}
	return n
}

// readGroup reads the first of some entries of a batch into pc, at least one of them, and returns how many. Files are
// opened one after the other and then read together: as many as can be under way at once, or all, if they are to be read
// in the order of their contents.
func (r *reader) readGroup(ctx context.Context, b *batch, entries []uint32, pc *piece, rest *remainder) (int, error) {
	r.group, r.wholes = r.group[:0], r.wholes[:0]
	r.moment = signature.Moment(time.Now())
	defer r.closeGroup()
	n, most, ordered := 0, r.files.Most(), r.byExtent(b.dir)
	if ordered {
		most = len(entries)
	}
	for ; n < len(entries) && len(r.group) < most; n++ {
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		i := entries[n]
		if b.job.dir.Entries[i].Type != tree.File {
			r.readOther(b, i)
			continue
		}
		more, err := r.open(ctx, b, i, pc, rest)
		if err != nil {
			return n, err
		}
		if !more {
			break
		}
	}
	if ordered {
		r.files.Arrange(r.wholes)
	}
	r.files.ReadWhole(pc.buf, r.wholes)
	r.files.Facts(r.wholes)
	for k := range r.wholes {
		w := &r.wholes[k]
		items, o := len(pc.items), &r.group[w.Index]
		what, ok := o.what, true
		if r.replaced(o, w) {
			what, ok = r.readAfresh(ctx, b, o, w, pc)
		}
		if ok {
			what = r.conclusion(ctx, b, o, w, pc)
		}
		if err := r.settle(ctx, b, o.entry, what, items < len(pc.items), rest); err != nil {
			return n, err
		}
	}
	return n, nil
}

// closeGroup closes the files of a group.
func (r *reader) closeGroup() {
	for i := range r.group {
		if r.group[i].file != nil {
			r.files.Done(r.group[i].file)
		}
		r.group[i] = opened{}
	}
	r.opens.Give(max(0, len(r.group)-1))
	r.group = r.group[:0]
}

// open opens a small file and gives it a place in pc, or books why not. It reports false if there is no room for the file
// in this group.
func (r *reader) open(ctx context.Context, b *batch, i uint32, pc *piece, rest *remainder) (bool, error) {
	e := &b.job.dir.Entries[i]
	room := uint64(len(pc.buf) - pc.n)
	if bound := b.dir.Bound(); bound > 0 && len(r.group) > 0 {
		room = min(room, uint64(max(0, bound-pc.n)))
	}
	if len(r.group) > 0 && e.Size >= room {
		return false, nil
	}
	if len(r.group) > 0 {
		if !r.opens.Take() { // they are what other readers have open
			return false, nil
		}
		defer func(before int) {
			if len(r.group) == before {
				r.opens.Give(1)
			}
		}(len(r.group))
	}
	f, err := r.files.Open(b.dir, e.Name, r.known(b.job, e))
	if len(r.group) > 0 && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) {
		return false, nil
	}
	if err != nil {
		return true, r.settle(ctx, b, i, r.openFailed(b, i, err), false, rest)
	}
	o := opened{entry: i, what: meaning(e, f), file: f}
	if o.before.Stat = *f.Opened(); !signature.Settled(o.before.Ctime, r.moment) {
		o.before, err = r.before(ctx, f, b.job, i, 0)
	}
	if err != nil {
		r.files.Done(f)
		if context.Cause(ctx) == nil {
			r.unreadable(b.job, i, b.job.dir.Join(e.Name), "look at", err)
		}
		return true, r.settle(ctx, b, i, o.what, false, rest)
	}
	size := expected(b.job, &o.before)
	switch {
	case size < room && size <= smallFile:
	case len(r.group) > 0 && size <= smallFile: // there is room in the next one
		r.files.Done(f)
		return false, nil
	default:
		r.files.Done(f)
		return true, r.settle(ctx, b, i, isLarge, false, rest)
	}
	r.wholes = append(r.wholes, localfs.Whole{File: f, Index: len(r.group), Size: size, At: pc.n})
	r.group = append(r.group, o)
	pc.n += int(size) + 1
	return true, nil
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

// settle does with a file what is left to do once it was read, or was found not to be readable: kept, if it is a part of a
// piece now.
func (p *pipeline) settle(ctx context.Context, b *batch, i uint32, what found, kept bool, rest *remainder) error {
	switch what {
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
	if !kept { // no worker will hear of it
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
			p.unopened(b.job, i, b.dir, "read link", err)
			return
		}
		x.target = target
	case tree.CharDevice, tree.BlockDevice:
		var st localfs.Stat
		if err := b.dir.Lstat(e.Name, &st); err != nil {
			p.unopened(b.job, i, b.dir, "look at", err)
			return
		}
		if st.Type != e.Type {
			p.gone(b.job, i, errReplaced)
			return
		}
		x.device = st.Rdev
	}
	if err, _ := p.attributes(x, b.dir, e.Name, e.Type); err != nil {
		p.failed(path, attributesOp, err)
	}
}

// unreadable books a failure.
func (p *pipeline) unreadable(j *job, i uint32, path, op string, err error) {
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

// conclusion makes an item of pc of a file that was read together with others, or books why not. A file that changed
// meanwhile is read again, by itself.
func (p *pipeline) conclusion(ctx context.Context, b *batch, o *opened, w *localfs.Whole, pc *piece) found {
	i, f, before := o.entry, o.file, o.before
	e, r := &b.job.dir.Entries[i], &b.job.results[i]
	at, n, err := w.At, w.N, w.Err
	after, lookErr := w.Facts, w.FactsErr
	if context.Cause(ctx) != nil {
		return o.what
	}
	for try := 0; ; try++ {
		if try > 0 {
			before, err = p.before(ctx, f, b.job, i, try)
			if context.Cause(ctx) != nil {
				return o.what
			}
			if err != nil {
				p.unreadable(b.job, i, b.job.dir.Join(e.Name), "look at", err)
				return o.what
			}
			at = pc.n
			room, size := pc.buf[at:], expected(b.job, &before)
			if size >= uint64(len(room)) || size > smallFile {
				return isLarge
			}
			n, err = f.ReadWhole(room, size)
			if err == nil {
				after, lookErr = f.Facts()
			}
		}
		if err == nil && b.job.dir.FS.Pseudo && n > smallFile {
			err = errEndless
		}
		if err != nil {
			p.unreadable(b.job, i, b.job.dir.Join(e.Name), "read", err)
			return o.what
		}
		if lookErr != nil {
			p.unreadable(b.job, i, b.job.dir.Join(e.Name), "look at", lookErr)
			return o.what
		}
		if b.job.dir.FS.Pseudo {
			before.Size, after.Size = uint64(n), uint64(n)
		}
		verdict := p.judge(&before, &after.Stat, uint64(n), try)
		if verdict == again {
			p.Ledger.Objects.Retries.Add(1)
			continue
		}
		p.conclude(b.job, i, verdict, try)
		p.measured(e, &after.Stat, uint64(n))
		p.beside(r, &after, b.job.dir, e.Name)
		if verdict != give {
			pc.items = append(pc.items, item{i, uint32(at), uint32(n)})
			pc.n = max(pc.n, at+n)
		}
		return o.what
	}
}
