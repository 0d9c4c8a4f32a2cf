// Package compare decides what is unchanged since the snapshot compared with: a whole directory by digests kept in the
// directory cache, a single entry by the parent snapshot's tree of its directory. Dir.Unchanged and Dir.Finish are the
// only places where a directory as a whole is found to be unchanged.
package compare

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/dircache"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Options set what counts as unchanged.
type Options struct {
	Force       bool // read everything, whatever the parent has
	IgnoreInode bool
	IgnoreCtime bool
	// Relist: read the names in every directory, and keep none. IgnoreCtime implies it.
	Relist bool
}

// Parent is the snapshot compared with; its zero value stands for none.
type Parent struct {
	ID    format.ID // of the snapshot; zero: none, or parts of several
	Tree  format.ID
	Start tree.Time // when that backup began: a file that changed at or after this moment is read again
	// Starts of the sources, and of the directories on the path to them, by their paths in the tree, if Tree has parts of
	// several snapshots.
	Starts map[string]tree.Time
	// Partial: Tree has parts of partial snapshots, as parents of the sources that no whole snapshot has.
	Partial bool
	// Damaged: blobs it needs may be lost. Trees that cannot be read are then replaced by reading their files, and a file
	// with lost chunks is read again. Without it, a tree that cannot be read ends the run.
	Damaged bool
}

// Config is what a Comparer works with.
type Config struct {
	Options    Options
	AccessTime bool   // access times are stored
	Digest     Digest // OptionsDigest of this run
	Parent     Parent
	Ledger     *report.Ledger
	Stores
	// Forced returns the names in a directory that are read whatever their times are; nil: none.
	Forced func(d *scan.Directory) []string
}

// Stores are where a Comparer looks up what earlier backups stored.
type Stores struct {
	Cache   *Cache
	Session *repo.Session
	Load    tree.Load
}

// Comparer compares directories. It is safe for concurrent use, each directory by one goroutine at a time.
type Comparer struct {
	Config
	ctx       context.Context // of the run: several directories wait for one old tree
	digesters sync.Pool       // of *Digester
	mended    atomic.Uint64
	dataless  [2]atomic.Uint64 // Dataless
}

// New returns a Comparer that works until ctx ends.
func New(ctx context.Context, cfg Config) *Comparer {
	c := &Comparer{Config: cfg, ctx: ctx}
	c.digesters.New = func() any { return NewDigester(cfg.Digest) }
	return c
}

// Mended returns how many files are read again because parts of them or their folder's tree are lost.
func (c *Comparer) Mended() uint64 { return c.mended.Load() }

// Dataless returns how many files and folders have their content with a cloud provider only: those that keep the
// content of the parent, and those that are left out.
func (c *Comparer) Dataless() (kept, left uint64) { return c.dataless[0].Load(), c.dataless[1].Load() }

// state is how an entry compares with the parent snapshot.
type state uint8

const (
	isNew state = iota
	isChanged
	isUnchanged
)

// Dir is a directory that is compared.
type Dir struct {
	Scanned    *scan.Directory
	Parent     *Dir    // nil for the root
	Incomplete bool    // it could not be listed, or not to its end
	Clean      bool    // the stat digest is the cached one: every entry is unchanged
	Files      uint64  // entries that are no directories; set by Compare
	Bytes      uint64  // sum of the sizes of the files
	AllNew     bool    // of a source that no whole snapshot has: what a partial one has is new as well
	Racy       bool    // an entry must be checked again by the next backup, mostly because its timestamp is not safe
	States     []state // of each entry; nil when Clean

	key      Digest
	stat     Digest
	cached   CacheEntry
	ref      dircache.Ref
	lookedUp bool // in the cache
	known    bool // and found there
	digested bool // stat is that of the entries
	old      oldTree
}

// Lookup looks d up in the cache, with room for the result, before its names are read. It returns the names it had.
func (c *Comparer) Lookup(d *Dir, room []byte) (names, larger []byte) {
	d.lookedUp = true
	digester := c.digesters.Get().(*Digester)
	d.key = digester.Key(d.Scanned)
	c.digesters.Put(digester)
	if c.Options.Force {
		return nil, room
	}
	hit, room, ok := c.Cache.Lookup(d.key, room)
	if ok {
		d.known, d.cached, d.ref = true, hit.CacheEntry, hit.Ref
		d.old.root, d.old.start = hit.Tree, hit.Start
		return hit.Names, room
	}
	d.old.find = func() (format.ID, tree.Time, error) { return c.findOld(d) }
	return nil, room
}

// Unchanged reports whether the entries of d, which is listed now, are those of its cache entry.
func (c *Comparer) Unchanged(d *Dir) bool {
	c.digest(d)
	d.Clean = d.known && d.stat == d.cached.Stat && d.Scanned.Missed == 0 && d.Scanned.Err == nil && len(c.forced(d)) == 0
	return d.Clean
}

func (c *Comparer) forced(d *Dir) []string {
	if c.Forced == nil {
		return nil
	}
	return c.Forced(d.Scanned)
}

func (c *Comparer) digest(d *Dir) {
	digester := c.digesters.Get().(*Digester)
	d.stat, d.Racy = digester.Stat(d.Scanned)
	d.digested = true
	c.digesters.Put(digester)
}

// Compare sets Clean, or the state of each entry of d.
func (c *Comparer) Compare(ctx context.Context, d *Dir) error {
	if !d.lookedUp {
		c.Lookup(d, nil)
	}
	if !d.digested || d.Scanned.Err != nil {
		c.digest(d)
	}
	d.AllNew = c.Parent.Partial && d.Scanned.First
	forced := c.forced(d)
	d.Clean = d.known && d.stat == d.cached.Stat && !d.Incomplete && len(forced) == 0
	if !d.Clean {
		// Another backup may have seen a source since, or have seen it empty.
		if d.Scanned.Picked || d.Parent != nil && d.Parent.Scanned.Picked {
			d.old = oldTree{find: func() (format.ID, tree.Time, error) { return c.findOld(d) }}
		}
		d.States = make([]state, len(d.Scanned.Entries))
		if err := c.compareEntries(ctx, d); err != nil {
			return err
		}
		for _, name := range forced {
			for i := range d.Scanned.Entries {
				if d.Scanned.Entries[i].Name == name && d.States[i] == isUnchanged {
					d.States[i] = isChanged
				}
			}
		}
	}
	c.count(d)
	return nil
}

// findOld follows the parent snapshot down to d.
func (c *Comparer) findOld(d *Dir) (format.ID, tree.Time, error) {
	if d.Parent == nil {
		return c.Parent.Tree, c.Parent.Start, nil
	}
	above := d.Parent.old.get
	if d.Parent.Scanned.Picked {
		above = func() (format.ID, tree.Time, error) { return c.findOld(d.Parent) }
	}
	root, start, err := above()
	if err != nil || root.IsZero() {
		d.old.lost.Store(d.Parent.old.lost.Load())
		return format.ID{}, tree.Time{}, err
	}
	node, err := tree.Lookup(c.ctx, c.Load, root, d.Scanned.Name)
	if err != nil && Damaged(err) {
		d.old.lost.Store(true)
		return format.ID{}, tree.Time{}, c.damagedTree(d, err)
	}
	if err != nil || node == nil || node.Type != tree.Dir {
		return format.ID{}, tree.Time{}, err
	}
	return node.Subtree, c.start(d.Parent, d.Scanned.Name, start), nil
}

// start returns when the backup began that wrote the old node of an entry of d, given that moment for d.
func (c *Comparer) start(d *Dir, name string, start tree.Time) tree.Time {
	if d.Scanned.Picked && c.Parent.Starts != nil {
		if own, ok := c.Parent.Starts[d.Scanned.Join(name)]; ok {
			return own
		}
	}
	return start
}

// compareEntries walks the old tree beside the entries; both are sorted by name.
func (c *Comparer) compareEntries(ctx context.Context, d *Dir) error {
	root, start, err := d.old.get()
	if err != nil {
		return err
	}
	if root.IsZero() {
		c.mendAll(d)
		return nil
	}
	entries, i, expired, mended := d.Scanned.Entries, 0, uint64(0), uint64(0)
	err = tree.Walk(ctx, c.Load, root, func(n *tree.Node) error {
		for i < len(entries) && entries[i].Name < n.Name {
			i++
		}
		if i == len(entries) || entries[i].Name != n.Name {
			expired++
			return nil
		}
		same := c.same(&entries[i], n, d.Scanned, c.start(d, n.Name, start))
		if entries[i].Dataless {
			same = c.keeps(&entries[i], n)
		}
		if c.Parent.Damaged && (same || described(&entries[i], n)) {
			stored, err := c.stored(ctx, n)
			if err != nil {
				return err
			}
			if same = same && stored; !stored {
				mended++
			}
		}
		if d.States[i] = isChanged; same {
			d.States[i] = isUnchanged
		}
		i++
		return nil
	})
	if err != nil && Damaged(err) {
		clear(d.States)
		d.old.root, err = format.ID{}, c.damagedTree(d, err)
		d.old.lost.Store(true)
		mended = 0
		c.mendAll(d)
	}
	c.mended.Add(mended)
	if !d.AllNew {
		c.Ledger.Objects.Expired.Add(expired)
	}
	return err
}

// mendAll counts the files of d if its old tree cannot be read: all are read again.
func (c *Comparer) mendAll(d *Dir) {
	for i := range d.Scanned.Entries {
		if d.old.lost.Load() && d.Scanned.Entries[i].Type == tree.File {
			c.mended.Add(1)
		}
	}
}

// same reports whether e is still what n describes, so that n can be reused.
func (c *Comparer) same(e *scan.Entry, n *tree.Node, d *scan.Directory, start tree.Time) bool {
	if c.AccessTime && n.Access == nil { // it was stored without --access-time
		return false
	}
	return !n.Recheck && Same(e, n, start, c.Options.IgnoreCtime) && (c.Options.IgnoreInode || Inode(e, d) == n.Inode)
}

// keeps reports whether the node of the parent stands for an entry whose content is not on this machine. The content of
// a folder is not compared with anything, so that it is not relied on if blobs of the parent may be lost.
func (c *Comparer) keeps(e *scan.Entry, n *tree.Node) bool {
	if n.Type == tree.Dir {
		return e.Type == tree.Dir && !c.Parent.Damaged
	}
	return e.Type == n.Type && n.Outcome <= tree.Retried
}

// count records how the entries of d compare with the parent snapshot.
func (c *Comparer) count(d *Dir) {
	var t report.Tally
	t.Objects.Inspected = uint64(len(d.Scanned.Entries))
	for i := range d.Scanned.Entries {
		e := &d.Scanned.Entries[i]
		c.countDataless(d, i)
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
		case d.AllNew:
			group.New++
		case d.Reuses(i):
			group.Unmodified++
			t.Objects.Unchanged++
		case d.States[i] == isChanged:
			group.Changed++
		default:
			group.New++
		}
		if e.Type == tree.File && !d.Reuses(i) && !e.Dataless {
			t.Bytes.Wanted += e.Size
		}
	}
	d.Files, d.Bytes = t.Objects.Files+t.Objects.Others, t.Bytes.Inspected
	c.Ledger.Add(&t)
}

func (c *Comparer) countDataless(d *Dir, i int) {
	switch {
	case !d.Scanned.Entries[i].Dataless:
	case d.Reuses(i):
		c.dataless[0].Add(1)
	default:
		c.dataless[1].Add(1)
	}
}

// Reuses reports whether entry i is unchanged, so that its old node is reused.
func (d *Dir) Reuses(i int) bool { return d.Clean || d.States[i] == isUnchanged }

// ToRead returns the entries that must be read. Directories read their own metadata.
func (d *Dir) ToRead() []uint32 {
	var entries []uint32
	for i, s := range d.States {
		if s != isUnchanged && !d.Scanned.Entries[i].Dataless && d.Scanned.Entries[i].Type != tree.Dir {
			entries = append(entries, uint32(i))
		}
	}
	return entries
}

// OldRoot returns the root of the old tree if any node of it is needed.
func (d *Dir) OldRoot() (format.ID, error) {
	if !d.Clean && !slices.ContainsFunc(d.States, func(s state) bool { return s != isNew }) {
		return format.ID{}, nil
	}
	root, _, err := d.old.get()
	return root, err
}

// Finish digests d with the trees of its n subdirectories. If nothing below it changed, it confirms its cache entry and
// returns the tree it had. Otherwise the caller builds the tree, and calls Store.
func (c *Comparer) Finish(d *Dir, n int, child func(i int) *format.ID) (subtree Digest, old format.ID, unchanged bool) {
	subtree = c.subtree(d, n, child)
	if !d.Clean || subtree != d.cached.Subtree {
		return subtree, format.ID{}, false
	}
	if names := d.Scanned.Listing; names != nil && !d.Racy {
		c.Cache.Store(d.key, &d.cached, names)
	} else {
		c.Cache.Confirm(d.ref)
	}
	return subtree, d.cached.Tree, true
}

// subtree returns the subtree digest of d. Without subdirectories, now and when the same entries were digested before,
// it is the cached one.
func (c *Comparer) subtree(d *Dir, n int, child func(i int) *format.ID) Digest {
	if d.Clean && n == 0 {
		return d.cached.Subtree
	}
	digester := c.digesters.Get().(*Digester)
	defer c.digesters.Put(digester)
	return digester.Subtree(d.stat, n, child)
}

// Store puts a directory whose new tree is built into the cache. One that the next backup has to check again gets a
// stat digest that matches nothing, so that its entries are then compared with this tree.
func (c *Comparer) Store(d *Dir, subtree Digest, id format.ID) {
	if d.Incomplete || d.Racy && (d.Clean || d.Scanned.Picked) {
		return
	}
	names := d.Scanned.Listing
	if d.Racy {
		c.Cache.Store(d.key, &CacheEntry{Tree: id}, names)
		return
	}
	if d.Clean && names == nil {
		names = c.Cache.Names(d.key) // a tree below it is new, nothing in it
	}
	c.Cache.Store(d.key, &CacheEntry{Stat: d.stat, Subtree: subtree, Tree: id}, names)
}
