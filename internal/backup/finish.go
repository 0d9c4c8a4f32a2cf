package backup

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/tidemark-backup/tidemark/internal/backup/compare"
	"github.com/tidemark-backup/tidemark/internal/backup/save"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// finish sets the tree of a directory all of whose parts have ended.
func (p *pipeline) finish(ctx context.Context, j *dirWork) error {
	if stop := context.Cause(ctx); stop != nil {
		return stop // entries that were not read for that reason look as if they were not there
	}
	j.count()
	c := &j.compared
	subtree, id, unchanged := p.compare.Finish(c, len(j.children), func(i int) *format.ID { return &j.children[i].tree })
	if unchanged {
		j.tree = id
		p.deps.ledger.Trees.Reused.Add(1)
		return nil
	}
	old, err := c.OldRoot()
	f := &finisher{ledger: p.deps.ledger, work: j}
	if err == nil {
		j.tree, err = p.save.Tree(ctx, p.deps.load, old, f)
	}
	if err != nil {
		return j.treeError(err)
	}
	p.deps.ledger.Trees.New.Add(1)
	p.deps.ledger.Add(&f.tally)
	p.compare.Store(c, subtree, j.tree)
	return nil
}

// treeError describes why the tree of j could not be made.
func (j *dirWork) treeError(err error) error {
	var follow *save.OldTreeError
	if errors.As(err, &follow) {
		if err = follow.Err; compare.Damaged(err) {
			err = fmt.Errorf("%w: %w", compare.ErrOldTree, err)
		}
	}
	return fmt.Errorf("make tree of %s: %w", j.dir.Path(), err)
}

// finisher makes the nodes of one directory: it reuses the old node of an unchanged entry, and joins what was scanned
// and read of any other.
type finisher struct {
	ledger *report.Ledger
	work   *dirWork
	slot   int // of the next subdirectory
	born   tree.Time
	tally  report.Tally
}

// Name returns the name of entry i.
func (f *finisher) Name(i int) (name string, ok bool) {
	entries := f.work.dir.Entries
	if i == len(entries) {
		return "", false
	}
	return entries[i].Name, true
}

// Node makes the node of entry i. An entry that is left out makes the directory racy: its name was digested, and if it
// comes back with the same times it must be read.
func (f *finisher) Node(i int, old, n *tree.Node) (keep bool, err error) {
	j, e, same := f.work, &f.work.dir.Entries[i], f.work.compared.Reuses(i)
	var c *child
	if e.Dataless && !same {
		f.gone(e, old, same)
		return false, nil
	}
	if e.Entered() {
		c = &j.children[f.slot]
		f.slot++
		if c.gone {
			f.gone(e, old, same)
			return false, nil
		}
	}
	if !same && j.reading.Results[i].Gone {
		f.gone(e, old, same)
		return false, nil
	}
	if err := f.describe(i, old, n); err != nil {
		return false, err
	}
	if !same {
		f.countContent(n, old)
	}
	if c != nil {
		c.complete(n, same)
	}
	if p := j.place.at(e.Name); p != nil && p.source {
		p.differ = old == nil || !n.Content.Equal(&old.Content) || !sameMetadata(n, old)
	}
	if n.Outcome > tree.Retried || n.Recheck {
		j.compared.Racy = true // the next backup must check it, whatever its times are
	}
	return true, nil
}

// complete sets what the node of a directory has beside its status.
func (c *child) complete(n *tree.Node, same bool) {
	n.Subtree = c.tree
	if !same {
		n.Xattrs, n.Flags, n.Access, n.Recheck = c.self.Xattrs, c.self.Flags, c.self.Access, c.self.Recheck
	}
	n.Outcome = tree.Static
	if c.incomplete {
		n.Outcome = tree.Unreadable
	}
}

// gone leaves out an entry that vanished before it was read, and takes it out of those that were compared.
func (f *finisher) gone(e *scan.Entry, old *tree.Node, same bool) {
	f.work.compared.Racy = true
	f.work.held.drop(e.Type, e.Size)
	if p := f.work.place.at(e.Name); p != nil && p.source {
		p.found, p.amount = false, amount{}
	}
	group := &f.ledger.Others
	switch e.Type {
	case tree.File:
		group = &f.ledger.Files
	case tree.Dir:
		group = &f.ledger.Dirs
	}
	const less = ^uint64(0)
	switch {
	case f.work.compared.AllNew:
		group.New.Add(less)
	case same:
		group.Unmodified.Add(less)
		f.ledger.Objects.Unchanged.Add(less)
	case old != nil:
		group.Changed.Add(less)
	default:
		group.New.Add(less)
	}
}

// Rejected drops the attributes of a node that are too large. A node that is invalid is left out, so that it does not
// cost the others their place in the snapshot.
func (f *finisher) Rejected(n *tree.Node, reason error) (again bool) {
	f.work.compared.Racy = true
	path := f.work.dir.Join(n.Name)
	if errors.Is(reason, tree.ErrTooLarge) && n.Xattrs != nil {
		f.ledger.Fail(path, "keep extended attributes", reason)
		n.Xattrs, n.Recheck = nil, true
		return true
	}
	f.ledger.Fail(path, "keep", reason)
	f.work.held.drop(n.Type, n.Size)
	f.work.held.failed++
	return false
}

// describe fills n with the old node of an unchanged entry, or with what was scanned and read.
func (f *finisher) describe(i int, old, n *tree.Node) error {
	if f.work.compared.Reuses(i) {
		if old == nil {
			return errors.New("the tree compared with has changed meanwhile")
		}
		*n = *old
		return nil
	}
	e, r := &f.work.dir.Entries[i], &f.work.reading.Results[i]
	*n = tree.Node{
		Name: e.Name, Type: e.Type, Mode: uint32(e.Mode), UID: e.UID, GID: e.GID, Inode: compare.Inode(e, f.work.dir),
		ModTime: e.ModTime(), Changed: e.Changed(), Outcome: r.Outcome,
		FS: compare.FS(e), Mount: e.Mount(),
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
		n.Content = tree.Content{Inline: r.Inline, Chunks: r.Chunks}
	}
	if x := r.Extra; x != nil {
		n.Xattrs, n.Flags, n.Target, n.Device, n.Access = x.Xattrs, x.Flags, x.Target, x.Device, x.Access
		n.Content.List, n.Recheck = x.List, x.Recheck
	}
	return nil
}

// countContent counts a new or changed object as backed up, or as updated if only its metadata differs. A file that was
// read because its timestamps were not safe, and is what it was, counts as unchanged.
func (f *finisher) countContent(n, old *tree.Node) {
	if n.Outcome >= tree.Skipped {
		f.without(n, old)
		f.failed(n, old)
		return
	}
	f.tally.Objects.Encrypted++
	same := old != nil && old.Type == n.Type && n.Content.Equal(&old.Content) && n.Target == old.Target
	switch {
	case same && n.Type == tree.File && sameMetadata(n, old):
		if f.work.compared.AllNew {
			return
		}
		f.tally.Objects.Unchanged++
		f.tally.Files.Unmodified++
		f.ledger.Files.Changed.Add(^uint64(0))
	case same:
		f.tally.Objects.Updated++
	default:
		f.tally.Objects.BackedUp++
		switch {
		case old == nil && n.Type != tree.Dir:
			f.work.held.fresh++
		case old != nil && old.Type == tree.File && n.Type == tree.File:
			f.work.held.rewritten++
		}
	}
}

// without counts an object that the tree holds without its content.
func (f *finisher) without(n, old *tree.Node) {
	if n.Type == tree.Dir {
		return
	}
	h := &f.work.held
	h.drop(n.Type, n.Size)
	h.failed++
	if old != nil && old.Outcome < tree.Skipped {
		h.unread++
	}
	if p := f.work.place.at(n.Name); p != nil && p.source {
		p.amount = amount{failed: 1}
	}
}

// sameMetadata reports whether two nodes are equal except for the content of a file.
func sameMetadata(n, old *tree.Node) bool {
	a, b := *n, *old
	a.Content, b.Content = tree.Content{}, tree.Content{} // reflection takes long for thousands of chunks
	return reflect.DeepEqual(&a, &b)
}

// failed takes a file that is recorded as a failure out of the new or changed ones.
func (f *finisher) failed(n, old *tree.Node) {
	if n.Type != tree.File {
		return
	}
	group := &f.ledger.Files.New
	if old != nil && !f.work.compared.AllNew {
		group = &f.ledger.Files.Changed
	}
	group.Add(^uint64(0))
}
