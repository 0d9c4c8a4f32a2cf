package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// visitor receives the walk. Its goroutines are the walk's.
type visitor struct{ *pipeline }

// Entry books an object that could not even be looked at.
func (v *visitor) Entry(d *scan.Directory, name string, err error) {
	v.Ledger.Fail(d.Join(name), "look at", err)
}

// Excluded counts what the rules left out.
func (v *visitor) Excluded(_ *scan.Directory, n int) { v.Ledger.Objects.Excluded.Add(uint64(n)) }

// Directory compares one scanned directory with what is known of it and queues what must be read.
func (v *visitor) Directory(ctx context.Context, d *scan.Directory, clock *report.Clock) error {
	defer clock.Enter(clock.Enter(report.Compare))
	p := v.pipeline
	j, ok := d.User.(*job)
	if !ok {
		j = p.newJob(d)
	}
	if d.Parent != nil {
		j.parent = d.Parent.User.(*job)
	} else {
		p.root = j
	}
	if n := len(d.Subdirs); n > 0 {
		j.children = make([]child, n)
	}
	p.found.Add(int64(d.Sources))
	j.pending.Store(int32(1 + len(d.Subdirs)))
	j.failed = d.Missed > 0 && !d.Picked // each of them is booked
	if d.Err != nil {
		p.notListed(j)
	}
	if err := p.compare(ctx, j); err != nil {
		return err
	}
	p.readSelf(j)
	if !j.clean {
		clock.Enter(report.WaitRead)
		if err := p.queue(ctx, j); err != nil {
			return err
		}
	}
	clock.Enter(report.Encode)
	return p.done(ctx, j)
}

// notListed books a directory that could not be opened or read to its end. As with files, one that is not there any
// more is no failure, unless it is a source.
func (p *pipeline) notListed(j *job) {
	d := j.dir
	below := d.Parent != nil && !d.Parent.Picked
	switch {
	case below && errors.Is(d.Err, localfs.ErrVanished):
		j.gone = true
		p.Ledger.Note(d.Path(), "list directory", errVanished)
	case below && errors.Is(d.Err, localfs.ErrNotDir):
		j.gone = true
		p.Ledger.Note(d.Path(), "list directory", errReplaced)
	default:
		j.failed = true
		p.Ledger.Fail(d.Path(), "list directory", d.Err)
	}
}

// Recall looks d up in the hash cache, before its names are read.
func (v *visitor) Recall(d *scan.Directory, room []byte) (names, larger []byte) {
	return v.recall(v.newJob(d), room)
}

// Same reports whether the entries of d are those that were signed in an earlier run.
func (v *visitor) Same(d *scan.Directory) bool {
	j := d.User.(*job)
	v.sign(j)
	j.clean = j.known && j.local == j.cached.Local && d.Missed == 0 && d.Err == nil
	return j.clean
}

// Renew reports whether names are remembered of what is the same.
func (v *visitor) Renew() bool { return v.Memory.Renew() }

// Settled is signature.Settled.
func (v *visitor) Settled(changed tree.Time, looked time.Time) bool {
	return signature.Settled(changed, signature.Moment(looked))
}

// sign makes the local signature of j.
func (p *pipeline) sign(j *job) {
	signer := p.signers.Get().(*signature.Signer)
	j.local, j.racy = signer.Local(j.dir)
	j.signed = true
	p.signers.Put(signer)
}

// compare decides what is known of each entry of j.
func (p *pipeline) compare(ctx context.Context, j *job) error {
	if !j.looked {
		p.recall(j, nil)
	}
	if !j.signed || j.dir.Err != nil {
		p.sign(j)
	}
	j.clean = j.known && j.local == j.cached.Local && !j.failed
	p.owners.See(j.dir.Entries)
	if !j.clean {
		j.scanned = time.Now()
		j.states = make([]state, len(j.dir.Entries))
		j.results = make([]result, len(j.dir.Entries))
		if err := p.compareEntries(ctx, j); err != nil {
			return err
		}
	}
	p.count(j)
	return nil
}

// recall looks j up in the hash cache, into room, and prepares the way to its old tree. It returns the names it had.
func (p *pipeline) recall(j *job, room []byte) (names, larger []byte) {
	j.looked = true
	signer := p.signers.Get().(*signature.Signer)
	j.key = signer.Key(j.dir)
	p.signers.Put(signer)
	if p.src.Comparing.Force {
		return nil, room
	}
	d, room, ok := p.Memory.Find(j.key, room)
	if ok {
		j.known, j.cached, j.ref = true, d.Memo, d.Ref
		j.old.Root, j.old.Start = d.Tree, d.Start
		return d.Names, room
	}
	j.old.Find = func() (format.ID, tree.Time, error) { return p.findOld(j) }
	return nil, room
}

// findOld follows the parent snapshot down to the directory of j.
func (p *pipeline) findOld(j *job) (format.ID, tree.Time, error) {
	if j.parent == nil {
		return p.parent.Tree, p.parent.Start, nil
	}
	root, start, err := j.parent.old.Get()
	if err != nil || root.IsZero() {
		return format.ID{}, tree.Time{}, err
	}
	node, err := tree.Lookup(p.ctx, p.Repo.LoadBlob, root, j.dir.Name)
	if err != nil && damaged(err) {
		return format.ID{}, tree.Time{}, p.oldTree(j, err)
	}
	if err != nil || node == nil || node.Type != tree.Dir {
		return format.ID{}, tree.Time{}, err
	}
	return node.Subtree, start, nil
}

// compareEntries walks the old tree beside the entries; both are sorted by name.
func (p *pipeline) compareEntries(ctx context.Context, j *job) error {
	root, start, err := j.old.Get()
	if err != nil {
		return err
	}
	if root.IsZero() {
		return nil
	}
	entries, i, expired := j.dir.Entries, 0, uint64(0)
	err = tree.Walk(ctx, p.Repo.LoadBlob, root, func(n *tree.Node) error {
		for i < len(entries) && entries[i].Name < n.Name {
			i++
		}
		if i == len(entries) || entries[i].Name != n.Name {
			expired++
			return nil
		}
		if p.same(&entries[i], n, j.dir, start) {
			j.states[i] = isSame
		} else {
			j.states[i] = isChanged
		}
		i++
		return nil
	})
	if err != nil && damaged(err) {
		clear(j.states)
		j.old.Root, err = format.ID{}, p.oldTree(j, err)
	}
	p.Ledger.Objects.Expired.Add(expired)
	return err
}

// oldTree is what to do about a tree that cannot be read: nothing more than telling it, once this is known to happen.
func (p *pipeline) oldTree(j *job, err error) error {
	if !p.parent.Damaged {
		return fmt.Errorf("compare %s: %w: %w", j.dir.Path(), errOldTree, err)
	}
	p.Ledger.Note(j.dir.Path(), "compare", err)
	distrust(p.Session, err)
	return nil
}

// same reports whether e is still what n says, so that n can be taken over.
func (p *pipeline) same(e *scan.Entry, n *tree.Node, d *scan.Directory, start tree.Time) bool {
	c := &p.src.Comparing
	if p.src.Reading.AccessTime && n.Access == nil { // nobody asked for it then
		return false
	}
	return !incomplete(n) && signature.Same(e, n, start, c.IgnoreCtime) && (c.IgnoreInode || p.inode(e, d) == n.Inode)
}

// inode returns the number to believe and to store: none where a file system makes them up at every mount, except to
// tell which names belong to one object.
func (p *pipeline) inode(e *scan.Entry, d *scan.Directory) uint64 {
	if d.FS.StableInodes || e.Links > 1 && e.Type != tree.Dir {
		return e.Ino
	}
	return 0
}

// queue hands the new and changed entries of j to the readers: small files and everything without content in batches,
// in the order of their inodes, large files alone.
func (p *pipeline) queue(ctx context.Context, j *job) error {
	b := p.newBatch(j, nil)
	for _, i := range j.readOrder() {
		e := &j.dir.Entries[i]
		dir := j.dir.Dir(e.Name)
		// Of one that is on another file system than its directory it is not known on which: it is read by itself.
		if e.Type == tree.File && e.Links > 1 && !e.Mount && p.links.join(linkKeyOf(j.dir.Dev, e), waiter{j, i}, e.Links) {
			continue // another name of it is, or was, read
		}
		made := e.Type == tree.File && j.dir.FS.Pseudo // made up when it is read: its size means nothing
		large := e.Type == tree.File && !made && (e.Size > smallFile || e.Sparse())
		alone := large || made
		if b.dir != dir || alone || b.bytes+e.Size > pieceSize || len(b.entries) == batchFiles {
			if err := p.send(ctx, b); err != nil {
				return err
			}
			b = p.newBatch(j, dir)
		}
		b.entries = append(b.entries, i)
		b.large = large
		if e.Type == tree.File {
			b.bytes += e.Size
		}
		if alone {
			if err := p.send(ctx, b); err != nil {
				return err
			}
			b = p.newBatch(j, dir)
		}
	}
	return p.send(ctx, b)
}

// readSelf reads what the parent's entry does not tell of a new or changed directory.
func (p *pipeline) readSelf(j *job) {
	if j.gone || j.parent == nil || j.parent.states == nil || j.parent.states[j.dir.Index] == isSame {
		return
	}
	p.selfAttributes(j)
}

// count books how the entries of j compare with the parent snapshot.
func (p *pipeline) count(j *job) {
	var t report.Tally
	t.Objects.Inspected = uint64(len(j.dir.Entries))
	for i := range j.dir.Entries {
		e := &j.dir.Entries[i]
		group := &t.Others
		switch e.Type {
		case tree.File:
			group = &t.Files
			t.Objects.Files++
			t.Bytes.Inspected += e.Size
		case tree.Dir:
			group = &t.Dirs
			t.Objects.Dirs++
		default:
			t.Objects.Others++
		}
		switch {
		case j.clean || j.states[i] == isSame:
			group.Unmodified++
			t.Objects.Unchanged++
		case j.states[i] == isChanged:
			group.Changed++
		default:
			group.New++
		}
		if e.Type == tree.File && !j.clean && j.states[i] != isSame {
			t.Bytes.Wanted += e.Size
		}
	}
	p.Ledger.Add(&t)
}

// damaged reports whether an error is about a part of the repository that is gone or wrong.
func damaged(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || errors.Is(err, store.ErrNotExist) || errors.Is(err, store.ErrShort)
}
