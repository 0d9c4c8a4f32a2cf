package view

import (
	"context"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// pagesKept is how many decoded pages of directories are kept. A page has some hundred nodes and about 64 KiB.
const pagesKept = 64

// Trees reads the directories of snapshots.
type Trees struct {
	load  tree.Load
	pages *repo.Recent[format.ID, *tree.Page]
}

// NewTrees returns the directories of the snapshots that load delivers.
func NewTrees(load tree.Load) *Trees {
	return &Trees{load: load, pages: repo.NewRecent[format.ID](pagesKept, func(*tree.Page) int { return 1 })}
}

// Root returns the directory n of a snapshot as the root of a tree.
func (t *Trees) Root(snapshot format.ID, n *tree.Node) Entry {
	at := inode("snapshot", snapshot)
	return Entry{Inode: at, Node: n, Folder: &folder{trees: t, root: n.Subtree, at: at, scope: at}}
}

// page returns a decoded page of that level; -1: of any level, for a root.
func (t *Trees) page(ctx context.Context, id format.ID, level int) (*tree.Page, error) {
	return t.pages.Get(ctx, id, func() (*tree.Page, error) { return tree.LoadPage(ctx, t.load, id, level) })
}

// folder is a directory of a snapshot. The number of an entry is its rank in the order of names.
type folder struct {
	trees *Trees
	root  format.ID
	at    uint64 // inode number: the path in the snapshot, hashed
	scope uint64 // inode number of the folder where the scope of its inode numbers begins
}

// Find descends one page of each level.
func (f *folder) Find(ctx context.Context, name string) (Entry, error) {
	n, rank, err := tree.Find(f.root, name, func(id format.ID, level int) (*tree.Page, error) {
		return f.trees.page(ctx, id, level)
	})
	if err != nil {
		return Entry{}, err
	}
	if n == nil {
		return Entry{}, ErrAbsent
	}
	return f.entry(rank, n), nil
}

// Entry descends one page of each level.
func (f *folder) Entry(ctx context.Context, number uint64) (Entry, error) {
	p, first, err := f.leaf(ctx, number)
	if err != nil {
		return Entry{}, err
	}
	if p == nil {
		return Entry{}, ErrAbsent
	}
	return f.entry(number, &p.Nodes[number-first]), nil
}

func (f *folder) List(ctx context.Context, from uint64, visit func(Entry) bool) error {
	for {
		p, first, err := f.leaf(ctx, from)
		if err != nil || p == nil {
			return err
		}
		for i := from - first; i < uint64(len(p.Nodes)); i++ {
			if !visit(f.entry(first+i, &p.Nodes[i])) {
				return nil
			}
		}
		from = first + uint64(len(p.Nodes))
	}
}

// leaf returns the leaf page with the entry of that number, and the number of its first entry; nil beyond the end.
func (f *folder) leaf(ctx context.Context, number uint64) (p *tree.Page, first uint64, err error) {
	for id, level := f.root, -1; ; level-- {
		if p, err = f.trees.page(ctx, id, level); err != nil {
			return nil, 0, err
		}
		if p.Level == 0 {
			switch {
			case number-first < uint64(len(p.Nodes)):
				return p, first, nil
			case level >= 0: // a branch counted its nodes
				return nil, 0, fmt.Errorf("tree page %s has fewer nodes than its branch says: %w", id.Short(),
					format.ErrCorrupt)
			}
			return nil, 0, nil
		}
		i := 0
		for ; i < len(p.Children) && number-first >= p.Children[i].Nodes; i++ {
			first += p.Children[i].Nodes
		}
		if i == len(p.Children) {
			return nil, 0, nil
		}
		id, level = p.Children[i].ID, p.Level
	}
}

func (f *folder) entry(number uint64, n *tree.Node) Entry {
	e := Entry{Number: number, Node: n, Inode: inode("path", f.at, n.Name)}
	if n.Type == tree.Dir {
		below := &folder{trees: f.trees, root: n.Subtree, at: e.Inode, scope: f.scope}
		if n.Mount {
			below.scope = e.Inode
		}
		e.Folder = below
	} else if n.Links > 1 && n.Inode != 0 {
		// A number may be used by another object later in the same backup: see tree.Object.
		e.Inode = inode("object", f.scope, n.FS, n.Inode, uint8(n.Type), n.Size, n.ModTime.Sec, n.ModTime.Nsec)
	}
	return e
}
