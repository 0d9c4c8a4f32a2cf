package tree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// plainNodes returns n small nodes with ascending names.
func plainNodes(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{
			Name: fmt.Sprintf("entry-%07d", i*10), Type: File, Mode: 0o644, Inode: uint64(i + 1), Links: 1,
			Size: 1000, ModTime: Time{Sec: int64(i)}, Changed: Time{Sec: int64(i)},
			Content: Content{Chunks: []Chunk{{ID: format.ID{1, byte(i), byte(i >> 8), byte(i >> 16)}, Len: 1000}}},
		}
	}
	return nodes
}

// fresh returns how many pages of s are not in old.
func (s shelf) fresh(old shelf) (n int) {
	for id := range s {
		if _, ok := old[id]; !ok {
			n++
		}
	}
	return n
}

func TestOneChangeRewritesFewPages(t *testing.T) {
	const count = 100_000
	nodes := plainNodes(count)
	before := shelf{}
	root := before.build(t, nodes)
	require.Greater(t, len(before), 50)
	for id, p := range before {
		require.LessOrEqual(t, len(p), cutMax+headroom, id.Short())
	}

	inserted := slices.Insert(slices.Clone(nodes), count/2, Node{Name: nodes[count/2-1].Name + "x", Type: Fifo})
	changed := slices.Clone(nodes)
	changed[count/3].Size = 7
	removed := slices.Delete(slices.Clone(nodes), count/4, count/4+1)
	first := slices.Insert(slices.Clone(nodes), 0, Node{Name: "a", Type: Fifo})
	for name, nodes := range map[string][]Node{
		"inserted": inserted, "changed": changed, "removed": removed, "first": first,
	} {
		after := shelf{}
		other := after.build(t, nodes)
		require.NotEqual(t, root, other)
		require.LessOrEqual(t, after.fresh(before), 4, name)
	}
}

// Small pages and large ones must give the same tree however the builder was used before, and equal sets of nodes the
// same ID.
func TestIDDependsOnlyOnNodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	nodes := append(randomNodes(rng, 300), plainNodes(3000)...)
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	s := shelf{}
	want := s.build(t, nodes)
	for _, n := range []int{0, 1, 299, len(nodes)} { // leftovers of another directory
		b := NewBuilder(s.emit)
		for i := range nodes[:n] {
			require.NoError(t, b.Add(&nodes[i]))
		}
		if n > 1 {
			_, err := b.Finish()
			require.NoError(t, err)
		}
		b.Reset()
		for i := range nodes {
			node := nodes[i]
			node.Xattrs = slices.Clone(node.Xattrs)
			slices.Reverse(node.Xattrs)
			require.NoError(t, b.Add(&node))
			clear(node.Xattrs) // the builder keeps nothing of the node
		}
		got, err := b.Finish()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for i := range nodes { // and on each of them
		if i%100 == 0 {
			other := slices.Clone(nodes)
			other[i].UID++
			require.NotEqual(t, want, shelf{}.build(t, other))
		}
	}
	require.Equal(t, want, shelf{}.build(t, s.nodes(t, want)))
}

func TestPagesOfEveryDepth(t *testing.T) {
	long := strings.Repeat("n", 900)
	for _, count := range []int{0, 1, 2, 100, 2000, 20_000} {
		nodes := make([]Node, count)
		for i := range nodes { // long names that share little make branches deep
			nodes[i] = Node{Name: fmt.Sprintf("%06d%s", i, long), Type: Socket, Links: 1}
		}
		s := shelf{}
		root := s.build(t, nodes)
		got := s.nodes(t, root)
		require.Len(t, got, count)
		if count > 0 {
			require.Equal(t, nodes, got)
		}
		pg, err := DecodePage(s[root])
		require.NoError(t, err)
		if pg.Level > 0 {
			require.Greater(t, len(pg.Children), 1, "a root with one child is no root")
		}
		sum := uint64(len(pg.Nodes))
		for _, c := range pg.Children {
			sum += c.Nodes
		}
		require.Equal(t, count, int(sum))
	}
}

func TestLargeNodes(t *testing.T) {
	big := func(name string, size int) Node {
		value := []byte(strings.Repeat(name, size))
		return Node{Name: name, Type: Fifo, Xattrs: []Xattr{{Name: "user.big", Value: value}}}
	}
	nodes := []Node{
		big("a", 300<<10), big("b", 100), big("c", 7<<20), big("d", 250<<10), big("e", 250<<10), big("f", 10),
	}
	s := shelf{}
	root := s.build(t, nodes)
	require.Equal(t, nodes, s.nodes(t, root))

	b := NewBuilder(s.emit)
	require.NoError(t, b.Add(&nodes[0]))
	require.NoError(t, b.Add(&nodes[1]))
	huge := big("bb", MaxPage)
	require.ErrorIs(t, b.Add(&huge), ErrTooLarge)
	huge.Xattrs = nil
	require.NoError(t, b.Add(&huge), "what does not fit can be added without its attributes")
	root, err := b.Finish()
	require.NoError(t, err)
	require.Equal(t, []Node{nodes[0], nodes[1], huge}, s.nodes(t, root))
}

func TestAddRefuses(t *testing.T) {
	s := shelf{}
	b := NewBuilder(s.emit)
	require.NoError(t, b.Add(&Node{Name: "m", Type: Fifo}))
	three := []Chunk{{ID: format.ID{1}, Len: 1}}
	for name, c := range map[string]struct {
		node Node
		want error
	}{
		"same name":     {Node{Name: "m", Type: Fifo}, ErrOrder},
		"earlier name":  {Node{Name: "l", Type: Fifo}, ErrOrder},
		"no name":       {Node{Type: Fifo}, ErrOrder},
		"slash":         {Node{Name: "n/o", Type: Fifo}, ErrInvalid},
		"NUL":           {Node{Name: "n\x00", Type: Fifo}, ErrInvalid},
		"long name":     {Node{Name: strings.Repeat("n", MaxName+1), Type: Fifo}, ErrInvalid},
		"no type":       {Node{Name: "n"}, ErrInvalid},
		"unknown type":  {Node{Name: "n", Type: 8}, ErrInvalid},
		"mode":          {Node{Name: "n", Type: File, Mode: 0o100644}, ErrInvalid},
		"outcome":       {Node{Name: "n", Type: File, Outcome: 5}, ErrInvalid},
		"long inline":   {Node{Name: "n", Type: File, Content: Content{Inline: make([]byte, MaxInline+1)}}, ErrInvalid},
		"many chunks":   {Node{Name: "n", Type: File, Content: Content{Chunks: make([]Chunk, MaxChunks+1)}}, ErrInvalid},
		"empty chunk":   {Node{Name: "n", Type: File, Content: Content{Chunks: make([]Chunk, 1)}}, ErrInvalid},
		"both contents": {Node{Name: "n", Type: File, Content: Content{Inline: []byte{1}, Chunks: three}}, ErrInvalid},
		"large chunk": {Node{Name: "n", Type: File, Content: Content{
			Chunks: []Chunk{{ID: format.ID{1}, Len: 1 << 32}},
		}}, ErrInvalid},
	} {
		require.ErrorIs(t, b.Add(&c.node), c.want, name)
	}
	require.NoError(t, b.Add(&Node{Name: "n", Type: Fifo}))
	root, err := b.Finish()
	require.NoError(t, err)
	got := s.nodes(t, root)
	require.Len(t, got, 2, "refused nodes leave no trace")
	require.Equal(t, shelf{}.build(t, got), root)

	fresh := NewBuilder(s.emit)
	require.ErrorIs(t, fresh.Add(&Node{Name: ".", Type: Fifo}), ErrInvalid)
	require.ErrorIs(t, fresh.Add(&Node{Name: "..", Type: Fifo}), ErrInvalid)
}

// What a type does not have is not stored; times beyond a second are put in order.
func TestNormalisation(t *testing.T) {
	s := shelf{}
	root := s.build(t, []Node{
		{
			Name: "a", Type: Fifo, Size: 9, Target: "x", Device: 1, FS: 1, Mount: true, Subtree: format.ID{1},
			Content: Content{Inline: []byte("x")}, ModTime: Time{Sec: 5, Nsec: 2*second + 3},
		},
	})
	require.Equal(t, []Node{{Name: "a", Type: Fifo, ModTime: Time{Sec: 7, Nsec: 3}}}, s.nodes(t, root))
}

func TestEmitErrors(t *testing.T) {
	broken := errors.New("no space")
	nodes := plainNodes(20_000)
	pages := len(func() shelf { s := shelf{}; s.build(t, nodes); return s }())
	for fail := range pages {
		calls := 0
		b := NewBuilder(func([]byte) (format.ID, error) {
			if calls++; calls > fail {
				return format.ID{}, broken
			}
			return format.ID{byte(calls)}, nil
		})
		var err error
		for i := 0; i < len(nodes) && err == nil; i++ {
			err = b.Add(&nodes[i])
		}
		if err == nil {
			_, err = b.Finish()
		}
		require.ErrorIs(t, err, broken)
		_, err = b.Finish()
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, b.Add(&Node{Name: "zzz", Type: Fifo}), broken)
		require.Equal(t, fail+1, calls, "nothing is emitted after an error")
	}
}

func TestAllocations(t *testing.T) {
	nodes := plainNodes(5000)
	s := shelf{}
	root := s.build(t, nodes)
	b := NewBuilder(func(p []byte) (format.ID, error) { return format.ID{1}, nil })
	build := func() {
		b.Reset()
		for i := range nodes {
			if err := b.Add(&nodes[i]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	build()
	require.LessOrEqual(t, testing.AllocsPerRun(5, build), float64(len(s)), "at most one for each page")
	pg, err := DecodePage(s[root])
	require.NoError(t, err)
	leaf := s[pg.Children[0].ID]
	require.LessOrEqual(t, testing.AllocsPerRun(5, func() {
		if _, err := DecodePage(leaf); err != nil {
			t.Fatal(err)
		}
	}), 8.0, "of %d nodes", pg.Children[0].Nodes)
}

func TestDecodedPageKeepsNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	nodes := randomNodes(rng, 50)
	s := shelf{}
	page := slices.Clone(s[s.build(t, nodes)])
	pg, err := DecodePage(page)
	require.NoError(t, err)
	for i := range page {
		page[i] = 0xAA
	}
	require.Equal(t, nodes, pg.Nodes)
}
