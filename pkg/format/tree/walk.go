package tree

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Load returns the blob with that ID, verified against it.
type Load = func(ctx context.Context, id format.ID) ([]byte, error)

// Walk visits the nodes of one directory in the order of their names, page by page. The node is valid during the visit
// and may be kept, with the storage of its page. The first error ends the walk.
func Walk(ctx context.Context, load Load, root format.ID, visit func(*Node) error) error {
	w := walker{load: load, visit: visit}
	_, err := w.page(ctx, root, -1, "")
	return err
}

type walker struct {
	load  Load
	visit func(*Node) error
	last  string // name visited last
}

// page visits the nodes beneath a page and returns their number. A page below the root must have that level and end
// with the name last, as in its branch.
func (w *walker) page(ctx context.Context, id format.ID, level int, last string) (nodes uint64, err error) {
	pg, err := LoadPage(ctx, w.load, id, level)
	if err != nil {
		return 0, err
	}
	for i := range pg.Children {
		c := &pg.Children[i]
		n, err := w.page(ctx, c.ID, pg.Level-1, c.Last)
		if err != nil {
			return 0, err
		}
		if n != c.Nodes {
			return 0, fmt.Errorf("tree page %s has %d nodes beneath it, want %d: %w", c.ID.Short(), n, c.Nodes,
				format.ErrCorrupt)
		}
		nodes += n
	}
	for i := range pg.Nodes {
		n := &pg.Nodes[i]
		if n.Name <= w.last {
			return 0, fmt.Errorf("tree page %s: name %q after %q: %w", id.Short(), n.Name, w.last, format.ErrCorrupt)
		}
		w.last = n.Name
		if err := w.visit(n); err != nil {
			return 0, err
		}
	}
	if level >= 0 && w.last != last {
		return 0, fmt.Errorf("tree page %s ends with %q, want %q: %w", id.Short(), w.last, last, format.ErrCorrupt)
	}
	return nodes + uint64(len(pg.Nodes)), nil
}

// LoadPage loads a page of that level; -1: of any level, for a root.
func LoadPage(ctx context.Context, load Load, id format.ID, level int) (*Page, error) {
	return loadPage(ctx, load, "tree", id, level, DecodePage, func(p *Page) int { return p.Level })
}

// loadPage loads a page of a tree or a list.
func loadPage[P any](ctx context.Context, load Load, kind string, id format.ID, level int,
	decode func([]byte) (*P, error), levelOf func(*P) int,
) (*P, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p, err := load(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("load %s page %s: %w", kind, id.Short(), err)
	}
	pg, err := decode(p)
	if err != nil {
		return nil, fmt.Errorf("%s page %s: %w", kind, id.Short(), err)
	}
	if found := levelOf(pg); level >= 0 && found != level {
		return nil, fmt.Errorf("%s page %s is of level %d, want %d: %w", kind, id.Short(), found, level,
			format.ErrCorrupt)
	}
	return pg, nil
}

// Lookup returns the node with that name, or nil if the directory has none. It loads one page of each level.
func Lookup(ctx context.Context, load Load, root format.ID, name string) (*Node, error) {
	n, _, err := Find(root, name, func(id format.ID, level int) (*Page, error) { return LoadPage(ctx, load, id, level) })
	return n, err
}

// Find is Lookup with pages of the caller. It returns the rank of the node in the order of names as well.
func Find(root format.ID, name string, page func(id format.ID, level int) (*Page, error)) (
	n *Node, rank uint64, err error,
) {
	for id, level := root, -1; ; level-- {
		pg, err := page(id, level)
		if err != nil {
			return nil, 0, err
		}
		if pg.Level == 0 {
			i := sort.Search(len(pg.Nodes), func(i int) bool { return pg.Nodes[i].Name >= name })
			if i < len(pg.Nodes) && pg.Nodes[i].Name == name {
				return &pg.Nodes[i], rank + uint64(i), nil
			}
			return nil, 0, nil
		}
		i := sort.Search(len(pg.Children), func(i int) bool { return pg.Children[i].Last >= name })
		if i == len(pg.Children) {
			return nil, 0, nil
		}
		for _, left := range pg.Children[:i] {
			rank += left.Nodes
		}
		id, level = pg.Children[i].ID, pg.Level
	}
}

// Follow returns the nodes from the root of a tree to a path, nil if it leads nowhere. The first one is the root, a
// directory with a Subtree only.
func Follow(ctx context.Context, load Load, root format.ID, path string) ([]*Node, error) {
	node := &Node{Type: Dir, Subtree: root}
	nodes := []*Node{node}
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' }) {
		if node.Type != Dir || node.Subtree.IsZero() {
			return nil, nil
		}
		var err error
		if node, err = Lookup(ctx, load, node.Subtree, name); err != nil || node == nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// LoadChunk returns the content of a chunk that is no hole. The error wraps format.ErrCorrupt if its length is another
// one.
func LoadChunk(ctx context.Context, load Load, c Chunk) ([]byte, error) {
	blob, err := load(ctx, c.ID)
	if err == nil && uint64(len(blob)) != c.Len {
		return nil, fmt.Errorf("blob %s has %d bytes, the file says %d: %w", c.ID.Short(), len(blob), c.Len,
			format.ErrCorrupt)
	}
	return blob, err
}

// Each visits the chunks of the content in order, each with its offset in the file. Inline content has none, and
// what lies beyond the last one is a hole. The first error ends the walk.
func (c *Content) Each(ctx context.Context, load Load, visit func(c Chunk, off uint64) error) error {
	off := uint64(0)
	each := func(chunk Chunk) error {
		at := off
		off += chunk.Len
		return visit(chunk, at)
	}
	if !c.List.IsZero() {
		return WalkList(ctx, load, c.List, each)
	}
	for _, chunk := range c.Chunks {
		if err := each(chunk); err != nil {
			return err
		}
	}
	return nil
}

// WalkList visits the chunks of a file in order, page by page. The first error ends the walk.
func WalkList(ctx context.Context, load Load, root format.ID, visit func(Chunk) error) error {
	_, _, err := walkList(ctx, load, root, -1, visit)
	return err
}

// LoadListPage is LoadPage for a list of chunks.
func LoadListPage(ctx context.Context, load Load, id format.ID, level int) (*ListPage, error) {
	return loadPage(ctx, load, "list", id, level, DecodeListPage, func(p *ListPage) int { return p.Level })
}

func walkList(ctx context.Context, load Load, id format.ID, level int, visit func(Chunk) error) (
	bytes, chunks uint64, err error,
) {
	pg, err := LoadListPage(ctx, load, id, level)
	if err != nil {
		return 0, 0, err
	}
	for _, c := range pg.Children {
		b, n, err := walkList(ctx, load, c.ID, pg.Level-1, visit)
		if err != nil {
			return 0, 0, err
		}
		if b != c.Bytes || n != c.Chunks {
			return 0, 0, fmt.Errorf("list page %s has %d bytes in %d chunks, want %d in %d: %w", c.ID.Short(), b, n,
				c.Bytes, c.Chunks, format.ErrCorrupt)
		}
		bytes += b
		chunks += n
	}
	for _, c := range pg.Chunks {
		if err := visit(c); err != nil {
			return 0, 0, err
		}
		bytes += c.Len
	}
	return bytes, chunks + uint64(len(pg.Chunks)), nil
}
