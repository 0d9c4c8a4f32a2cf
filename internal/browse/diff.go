package browse

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Status is how an object differs; several may be set.
type Status uint8

// The statuses.
const (
	Added    Status = 1 << iota // only in the second tree
	Removed                     // only in the first
	Content                     // the content differs
	Metadata                    // mode, owners, times, attributes or link target differ
	TypeOf                      // it has another type
	Silent                      // the content differs although size and times are equal: bit rot or tampering
)

// String returns one character for each status: + - M U T ?
func (s Status) String() string {
	var b []byte
	for i, c := range "+-MUT?" {
		if s&(1<<i) != 0 {
			b = append(b, byte(c))
		}
	}
	return string(b)
}

// MarshalText makes a status a string in JSON.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Change is one object that differs. Old is nil if it was added, New if it was removed.
type Change struct {
	// `+` added, `-` removed, `T` type; or of `M` content, `U` metadata, `?` content at equal size and times
	Status Status `json:"modifier"`
	event.Path
	Old *tree.Node `json:"-"`
	New *tree.Node `json:"-"`
}

// DiffOptions select which differences are reported.
type DiffOptions struct {
	Metadata bool // also visit objects whose metadata alone differ; access times and inode numbers never count
}

// DiffStats sums up a comparison. The bytes of Diff are those of blobs, before compression, that only one side needs.
// Only the differing parts of the trees are compared: a file that was copied from an equal part counts as added,
// although it takes no space. The bytes of DiffLive are the sizes of files that differ. The caller sets From, To and
// Live.
type DiffStats struct {
	From    string `json:"source_snapshot"`
	To      string `json:"target_snapshot"` // ID; a folder of this machine; empty: the files of this machine
	Live    bool   `json:"-"`               // compared with this machine
	Changed uint64 `json:"changed_files"`   // in both with different content or type
	// objects with `files`, `dirs`, `others` and `bytes`: chunks and trees that only one side needs, each counted once
	// (after deduplication), before compression; with files of this machine: the sizes of the files that differ
	Added   Side `json:"added"`
	Removed Side `json:"removed"`
}

// Side counts what only one of the trees has.
type Side struct {
	snapshot.Content        // the bytes are those of blobs, or of files
	DataBlobs        uint64 `json:"-"` // unique; zero in a comparison with live files, as the next one
	TreeBlobs        uint64 `json:"-"` // unique pages of trees and of lists of chunks
}

// Diff compares the trees with the root pages a and b and calls visit for each object that differs, in the order of
// their paths. Equal directories are not loaded. It remembers about 60 bytes for each blob of the differing parts.
func Diff(
	ctx context.Context, load tree.Load, a, b format.ID, opt DiffOptions, visit func(Change) error,
) (DiffStats, error) {
	d := &differ{from: load, opt: opt, visit: visit, old: newBlobSet(), new: newBlobSet()}
	if a != b {
		if err := d.dirs(ctx, "/", d.pages(&d.old, a), d.pages(&d.new, b)); err != nil {
			return DiffStats{}, fmt.Errorf("compare trees: %w", err)
		}
	}
	return d.sum(), nil
}

// differ compares two sides: trees of snapshots, or one with live files.
type differ struct {
	from     tree.Load
	opt      DiffOptions
	visit    func(Change) error
	stats    DiffStats
	old, new blobSet
	live     *liveSide // nil: both sides are trees
}

// item is an object of one side. Its node is nil where the side has none.
type item struct {
	*tree.Node
	content content     // of a directory
	live    *liveObject // nil: of a snapshot
}

// content visits the objects of a directory in byte order of their names, and stores an error that ends it.
type content func(ctx context.Context, failed *error) iter.Seq[item]

// sum returns the totals without the blobs that both sides need.
func (d *differ) sum() DiffStats {
	d.old.less(&d.new)
	d.stats.Removed, d.stats.Added = d.old.addTo(d.stats.Removed), d.new.addTo(d.stats.Added)
	return d.stats
}

// blobSet is a set of blobs with their lengths; of a comparison with live files, the sizes of the files instead.
type blobSet struct {
	data, trees map[short]uint32
	files       uint64 // bytes
}

func newBlobSet() blobSet {
	return blobSet{data: make(map[short]uint32), trees: make(map[short]uint32)}
}

// less removes the common blobs from both sets.
func (s *blobSet) less(other *blobSet) {
	both := func(a, b map[short]uint32) {
		for id := range a {
			if _, ok := b[id]; ok {
				delete(a, id)
				delete(b, id)
			}
		}
	}
	both(s.data, other.data)
	both(s.trees, other.trees)
}

func (s *blobSet) addTo(side Side) Side {
	side.DataBlobs, side.TreeBlobs, side.Bytes = uint64(len(s.data)), uint64(len(s.trees)), s.files
	for _, n := range s.data {
		side.Bytes += uint64(n)
	}
	for _, n := range s.trees {
		side.Bytes += uint64(n)
	}
	return side
}

// load returns a Load that records each returned page as needed by that side.
func (d *differ) load(set *blobSet) tree.Load {
	return func(ctx context.Context, id format.ID) ([]byte, error) {
		p, err := d.from(ctx, id)
		if err == nil && d.live == nil {
			set.trees[shorten(id)] = uint32(len(p))
		}
		return p, err
	}
}

// dirs compares two directories.
func (d *differ) dirs(ctx context.Context, at string, a, b content) error {
	var errs [2]error
	nextA, stopA := iter.Pull(a.items(ctx, &errs[0]))
	defer stopA()
	nextB, stopB := iter.Pull(b.items(ctx, &errs[1]))
	defer stopB()
	x, moreA := nextA()
	y, moreB := nextB()
	for moreA || moreB {
		if err := errors.Join(errs[0], errs[1]); err != nil {
			break // otherwise the rest of the other side would count as a difference
		}
		var err error
		switch {
		case !moreB || moreA && x.Name < y.Name:
			err = d.only(ctx, join(at, x.Name), x, item{})
			x, moreA = nextA()
		case !moreA || y.Name < x.Name:
			err = d.only(ctx, join(at, y.Name), item{}, y)
			y, moreB = nextB()
		default:
			err = d.pair(ctx, join(at, x.Name), x, y)
			x, moreA = nextA()
			y, moreB = nextB()
		}
		if err != nil {
			return err
		}
	}
	err := errors.Join(errs[0], errs[1])
	if err == nil || errs[0] == nil && errors.Is(err, errUnread) {
		return nil
	}
	return fmt.Errorf("read folder %s: %w", at, err)
}

// items is c, or nothing for a directory that a side does not have.
func (c content) items(ctx context.Context, failed *error) iter.Seq[item] {
	if c == nil {
		return func(func(item) bool) {}
	}
	return c(ctx, failed)
}

// pages returns the content of a directory of a snapshot; set records each page. A zero ID stands for no directory.
func (d *differ) pages(set *blobSet, dir format.ID) content {
	if dir.IsZero() {
		return nil
	}
	return func(ctx context.Context, failed *error) iter.Seq[item] {
		return func(yield func(item) bool) {
			errStop := errors.New("stopped")
			err := tree.Walk(ctx, d.load(set), dir, func(n *tree.Node) error {
				if !yield(d.item(set, n)) {
					return errStop
				}
				return nil
			})
			if !errors.Is(err, errStop) {
				*failed = err
			}
		}
	}
}

// item returns an object of a snapshot.
func (d *differ) item(set *blobSet, n *tree.Node) item {
	i := item{Node: n}
	if n.Type == tree.Dir {
		i.content = d.pages(set, n.Subtree)
	}
	return i
}

// only handles an object that only one side has: exactly one of old and new has a node.
func (d *differ) only(ctx context.Context, at string, old, new item) error {
	c := Change{Path: event.NewPath(at), Status: Added, Old: old.Node, New: new.Node}
	n, side, set := new.Node, &d.stats.Added, &d.new
	if n == nil {
		c.Status, n, side, set = Removed, old.Node, &d.stats.Removed, &d.old
	}
	if n.Type == 0 { // live, and could not be read
		return nil
	}
	side.Count(n.Type, 0)
	if err := d.chunks(ctx, n, set); err != nil {
		return fmt.Errorf("read chunks of %s: %w", at, err)
	}
	if err := d.visit(c); err != nil {
		return err
	}
	if n.Type != tree.Dir {
		return nil
	}
	return d.dirs(ctx, at, old.content, new.content)
}

// chunks adds the chunks of a file to set.
func (d *differ) chunks(ctx context.Context, n *tree.Node, set *blobSet) error {
	switch {
	case n.Type != tree.File:
		return nil
	case d.live != nil:
		set.files += n.Size
		return nil
	}
	return eachChunk(ctx, d.load(set), n, func(c tree.Chunk) error {
		if !c.IsHole() {
			set.data[shorten(c.ID)] = uint32(c.Len)
		}
		return nil
	})
}

// bothChunks adds the chunks of an object that differs to those of both sides.
func (d *differ) bothChunks(ctx context.Context, at string, old, new *tree.Node) error {
	d.stats.Changed++
	if err := errors.Join(d.chunks(ctx, old, &d.old), d.chunks(ctx, new, &d.new)); err != nil {
		return fmt.Errorf("read chunks of %s: %w", at, err)
	}
	return nil
}

// pair handles an object that both sides have under one name.
func (d *differ) pair(ctx context.Context, at string, old, new item) error {
	c := Change{Path: event.NewPath(at), Old: old.Node, New: new.Node}
	switch {
	case new.Type == 0: // live, and could not be read
		return nil
	case old.Type != new.Type: // the content of a directory on either side is removed or added with it
		c.Status = TypeOf
	case d.live != nil:
		if err := d.live.compare(ctx, &c, new.live, d.opt.Metadata); err != nil {
			return err
		}
	default:
		same := sameMetadata(old.Node, new.Node)
		if old.Type == tree.File && !sameContent(old.Node, new.Node) {
			c.Status |= Content
			if same && old.Size == new.Size {
				c.Status |= Silent
			}
		}
		if d.opt.Metadata && !same {
			c.Status |= Metadata
		}
	}
	if c.Status&(Content|TypeOf) != 0 {
		if err := d.bothChunks(ctx, at, old.Node, new.Node); err != nil {
			return err
		}
	}
	if c.Status != 0 {
		if err := d.visit(c); err != nil {
			return err
		}
	}
	if old.content == nil && new.content == nil || d.live == nil && old.Subtree == new.Subtree {
		return nil
	}
	return d.dirs(ctx, at, old.content, new.content)
}

func sameContent(a, b *tree.Node) bool {
	return a.Size == b.Size && a.Content.Equal(&b.Content)
}

// sameMetadata compares the metadata that a restore would set, and the change time, which reveals silent changes.
func sameMetadata(a, b *tree.Node) bool {
	return a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Links == b.Links && a.ModTime == b.ModTime &&
		a.Changed == b.Changed && a.Device == b.Device && a.Target == b.Target && a.Flags == b.Flags &&
		sameXattrs(a.Xattrs, b.Xattrs)
}
