package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// finish turns a job all of whose parts have ended into a tree.
func (p *pipeline) finish(ctx context.Context, j *job) error {
	if stop := context.Cause(ctx); stop != nil {
		return stop // what could not be read for that reason looks as if it were not there
	}
	whole := p.whole(j)
	if j.clean && whole == j.cached.Full {
		j.tree = j.cached.Tree
		p.keep(j)
		p.Ledger.Trees.Reused.Add(1)
		return nil
	}
	m := p.makers.get()
	defer p.makers.put(m)
	f := &finisher{maker: m, job: j}
	if err := f.build(ctx); err != nil {
		return fmt.Errorf("make tree of %s: %w", j.dir.Path(), err)
	}
	p.Ledger.Trees.New.Add(1)
	p.Ledger.Add(&f.tally)
	if !j.racy && !j.failed {
		names := j.dir.Listing
		if j.clean && names == nil {
			names = p.Memory.Names(j.key) // a tree below it is new, nothing in it
		}
		p.Memory.Put(j.key, &signature.Memo{Local: j.local, Full: whole, Tree: j.tree}, names)
	}
	return nil
}

// keep has what is remembered of j, all of which is as it was, hold for this run too.
func (p *pipeline) keep(j *job) {
	if names := j.dir.Listing; names != nil && !j.racy {
		p.Memory.Put(j.key, &j.cached, names)
		return
	}
	p.Memory.Keep(j.ref)
}

// whole signs j with the trees of its subdirectories. Where there are none, and were none when the same entries were signed,
// the cached signature is what that gives.
func (p *pipeline) whole(j *job) signature.Signature {
	if j.clean && len(j.children) == 0 {
		return j.cached.Full
	}
	signer := p.signers.Get().(*signature.Signer)
	defer p.signers.Put(signer)
	return signer.Whole(j.local, len(j.children), func(i int) *format.ID { return &j.children[i].tree })
}

// finisher builds one tree: it walks the old one beside the entries, takes over what is the same and adds what was read.
type finisher struct {
	*maker
	job   *job
	slot  int // of the next subdirectory
	tally report.Tally
}

func (f *finisher) build(ctx context.Context) error {
	f.builder.Reset()
	j, i := f.job, 0
	if root, err := f.oldRoot(); err != nil {
		return err
	} else if !root.IsZero() {
		err := tree.Walk(ctx, f.Repo.LoadBlob, root, func(old *tree.Node) error {
			for i < len(j.dir.Entries) && j.dir.Entries[i].Name < old.Name {
				if err := f.add(i, nil); err != nil {
					return err
				}
				i++
			}
			if i == len(j.dir.Entries) || j.dir.Entries[i].Name != old.Name {
				return nil
			}
			i++
			return f.add(i-1, old)
		})
		if err != nil && damaged(err) {
			err = fmt.Errorf("%w: %w", errOldTree, err)
		}
		if err != nil {
			return err
		}
	}
	for ; i < len(j.dir.Entries); i++ {
		if err := f.add(i, nil); err != nil {
			return err
		}
	}
	var err error
	j.tree, err = f.builder.Finish()
	return err
}

// oldRoot returns the old tree if anything in it is needed.
func (f *finisher) oldRoot() (format.ID, error) {
	if !f.job.clean && !slices.ContainsFunc(f.job.states, func(s state) bool { return s != isNew }) {
		return format.ID{}, nil
	}
	root, _, err := f.job.old.Get()
	return root, err
}

// add appends entry i; old is what the entry was, nil if it was not there.
func (f *finisher) add(i int, old *tree.Node) error {
	j, e := f.job, &f.job.dir.Entries[i]
	if e.Type == tree.Dir {
		f.slot++
		if j.children[f.slot-1].gone {
			j.racy = true
			return nil
		}
	}
	same := j.clean || j.states[i] == isSame
	if same && old == nil {
		return errors.New("the tree compared with has changed meanwhile")
	}
	n := &f.node
	if same {
		*n = *old
	} else {
		r := &j.results[i]
		if r.gone {
			j.racy = true // its name was signed: should it come back with the same times, it must be read
			return nil
		}
		f.describe(i, r)
		f.compareContent(n, old)
	}
	if e.Type == tree.Dir {
		c := &j.children[f.slot-1]
		n.Subtree = c.tree
		if !same {
			n.Xattrs, n.Flags, n.Access = c.self.xattrs, c.self.flags, c.self.access
			if c.self.incomplete {
				markIncomplete(n)
			}
		}
		n.Outcome = tree.Static
		if c.failed {
			n.Outcome = tree.Unreadable
		}
	}
	err := f.builder.Add(n)
	if errors.Is(err, tree.ErrTooLarge) {
		f.Ledger.Fail(j.dir.Join(n.Name), "keep extended attributes", err)
		n.Xattrs = nil
		markIncomplete(n)
		err = f.builder.Add(n)
	}
	if errors.Is(err, tree.ErrInvalid) { // there is no place for it in a snapshot, which must not cost the others theirs
		f.Ledger.Fail(j.dir.Join(n.Name), "keep", err)
		j.racy = true
		return nil
	}
	if n.Outcome > tree.Retried || incomplete(n) {
		j.racy = true // must be looked at again next time, whatever its times say
	}
	return err
}

// describe fills f.node from what was scanned and read.
func (f *finisher) describe(i int, r *result) {
	e, n := &f.job.dir.Entries[i], &f.node
	*n = tree.Node{
		Name: e.Name, Type: e.Type, Mode: uint32(e.Mode), UID: e.UID, GID: e.GID, Inode: f.inode(e, f.job.dir),
		ModTime: e.ModTime(), Changed: e.Changed(), Outcome: r.outcome, Mount: e.Mount,
	}
	if e.Type != tree.Dir {
		n.Links = uint64(e.Links)
	}
	if born, ok := e.Born(); ok {
		f.born = born
		n.Born = &f.born
	}
	if e.Type == tree.File {
		n.Size = e.Size
		n.Content = tree.Content{Inline: r.inline, Chunks: r.chunks}
	}
	if x := r.extra; x != nil {
		n.Xattrs, n.Flags, n.Target, n.Device, n.Access = x.xattrs, x.flags, x.target, x.device, x.access
		n.Content.List = x.list
		if x.incomplete {
			markIncomplete(n)
		}
	}
}

// compareContent books a new or changed object: sent, or only its metadata differs.
func (f *finisher) compareContent(n, old *tree.Node) {
	if n.Outcome >= tree.Skipped {
		return // booked as failed
	}
	f.tally.Objects.Encrypted++
	if old != nil && old.Type == n.Type && sameContent(&n.Content, &old.Content) && n.Target == old.Target {
		f.tally.Objects.Updated++
		return
	}
	f.tally.Objects.BackedUp++
}

func sameContent(a, b *tree.Content) bool {
	return bytes.Equal(a.Inline, b.Inline) && slices.Equal(a.Chunks, b.Chunks) && a.List == b.List
}
