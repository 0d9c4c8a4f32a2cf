package tree

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// shelf keeps emitted pages.
type shelf map[format.ID][]byte

func (s shelf) emit(page []byte) (format.ID, error) {
	id := format.ID(blake3.Sum256(page))
	if _, ok := s[id]; !ok {
		s[id] = slices.Clone(page)
	}
	return id, nil
}

func (s shelf) load(_ context.Context, id format.ID) ([]byte, error) {
	if p, ok := s[id]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("no page %s", id.Short())
}

func (s shelf) build(t testing.TB, nodes []Node) format.ID {
	t.Helper()
	b := NewBuilder(s.emit)
	for i := range nodes {
		require.NoError(t, b.Add(&nodes[i]))
	}
	id, err := b.Finish()
	require.NoError(t, err)
	return id
}

func (s shelf) nodes(t testing.TB, root format.ID) []Node {
	t.Helper()
	var nodes []Node
	require.NoError(t, Walk(t.Context(), s.load, root, func(n *Node) error {
		nodes = append(nodes, *n)
		return nil
	}))
	return nodes
}

func randomID(rng *rand.Rand) (id format.ID) {
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	return id
}

func randomTime(rng *rand.Rand) Time {
	switch rng.IntN(8) {
	case 0:
		return Time{}
	case 1:
		return Time{Sec: 1_700_000_000 + rng.Int64N(1000)}
	case 2:
		return Time{Sec: math.MinInt64 + rng.Int64N(3), Nsec: rng.Uint32N(second)}
	case 3:
		return Time{Sec: math.MaxInt64 - rng.Int64N(3), Nsec: second - 1}
	default:
		return Time{Sec: 1_700_000_000 + rng.Int64N(100), Nsec: rng.Uint32N(second)}
	}
}

func randomName(rng *rand.Rand) string {
	n := 1 + rng.IntN(20)
	if rng.IntN(20) == 0 {
		n = 255
	}
	name := make([]byte, n)
	for i := range name {
		name[i] = "abc\xff\xfe\x01 \n."[rng.IntN(9)]
	}
	return string(name)
}

func randomNode(rng *rand.Rand, name string) Node {
	n := Node{
		Name: name, Type: Type(1 + rng.IntN(7)), Mode: []uint32{0o644, 0o755, 0o7777, 0}[rng.IntN(4)],
		UID: uint32(rng.IntN(2)) * math.MaxUint32, GID: uint32(rng.IntN(3)), Inode: rng.Uint64() >> rng.IntN(64),
		Links: uint64(rng.IntN(4)), ModTime: randomTime(rng), Changed: randomTime(rng), Outcome: Outcome(rng.IntN(5)),
		Flags: []uint64{0, 0x80000, math.MaxUint64}[rng.IntN(3)],
	}
	if rng.IntN(2) == 0 {
		born := randomTime(rng)
		n.Born = &born
	}
	if rng.IntN(4) == 0 {
		n.Changed = n.ModTime
	}
	if rng.IntN(4) == 0 {
		access := randomTime(rng)
		n.Access = &access
	}
	switch rng.IntN(4) {
	case 0:
		n.Xattrs = []Xattr{{Name: "security.selinux", Value: []byte("system_u:object_r:etc_t:s0")}}
	case 1:
		n.Xattrs = []Xattr{{Name: "user.a"}, {Name: "user.\xff", Value: []byte(randomName(rng))}}
	}
	n.Recheck = rng.IntN(8) == 0
	if n.Links > 1 && n.Type != Dir && rng.IntN(4) == 0 {
		n.FS = 1 + rng.Uint64()>>rng.IntN(64)>>1
	}
	switch n.Type {
	case File:
		n.Size = rng.Uint64() >> rng.IntN(64)
		n.Content = randomContent(rng, &n.Size)
	case Dir:
		n.Subtree = randomID(rng)
		n.Mount = rng.IntN(2) == 0
	case Symlink:
		n.Target = strings.Repeat("../", []int{0, 1, 20, 20, 1300}[rng.IntN(5)])
	case CharDevice, BlockDevice:
		n.Device = rng.Uint64()
	}
	return n
}

func randomContent(rng *rand.Rand, size *uint64) (c Content) {
	switch rng.IntN(6) {
	case 0:
		*size = uint64(1 + rng.IntN(MaxInline))
		c.Inline = []byte(strings.Repeat("i", int(*size)))
	case 1:
		c.Inline = []byte("of another length")
	case 2:
		*size = uint64(1 + rng.Uint32N(1<<20))
		c.Chunks = []Chunk{{ID: randomID(rng), Len: *size}}
	case 3:
		for range 1 + rng.IntN(MaxChunks) {
			c.Chunks = append(c.Chunks, randomChunk(rng))
		}
	case 4:
		c.List = randomID(rng)
	}
	return c
}

func randomChunk(rng *rand.Rand) Chunk {
	if rng.IntN(4) == 0 {
		return Chunk{Len: 1 + rng.Uint64()>>1>>rng.IntN(62)}
	}
	return Chunk{ID: randomID(rng), Len: uint64(1 + rng.Uint32N(1<<17))}
}

// randomNodes returns about n nodes of all kinds, sorted.
func randomNodes(rng *rand.Rand, n int) []Node {
	names := map[string]bool{}
	for len(names) < n {
		if name := randomName(rng); validName(name) {
			names[name] = true
		}
	}
	sorted := make([]string, 0, n)
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = randomNode(rng, sorted[i])
	}
	return nodes
}

func TestRoundTrip(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		nodes := randomNodes(rng, 1+rng.IntN(200))
		s := shelf{}
		root := s.build(t, nodes)
		require.Equal(t, nodes, s.nodes(t, root), "seed %d", seed)
		for i := 0; i < len(nodes); i += 7 {
			n, err := Lookup(t.Context(), s.load, root, nodes[i].Name)
			require.NoError(t, err)
			require.Equal(t, &nodes[i], n)
			n, err = Lookup(t.Context(), s.load, root, nodes[i].Name+"\x00")
			require.NoError(t, err)
			require.Nil(t, n)
		}
	}
}

// sourceNodes returns the nodes of a directory as they are found in an unpacked archive: n files of one chunk.
func sourceNodes(rng *rand.Rand, n int) []Node {
	stems := []string{"arch", "block", "cache", "driver", "entry", "format", "graph", "header", "inode", "journal"}
	names := map[string]bool{}
	for len(names) < n {
		names[fmt.Sprintf("%s_%s%d.c", stems[rng.IntN(10)], stems[rng.IntN(10)], rng.IntN(n*2))] = true
	}
	nodes := make([]Node, 0, n)
	at := Time{Sec: 1_700_000_000}
	for name := range names {
		nodes = append(nodes, Node{Name: name})
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range nodes {
		at = at.addNanos(rng.Int64N(3) * 4_000_000) // the kernel's clock ticks every 4 ms
		born := at
		size := uint64(100 + rng.IntN(30000))
		nodes[i] = Node{
			Name: nodes[i].Name, Type: File, Mode: 0o644, UID: 1000, GID: 1000, Inode: uint64(5_000_000 + rng.IntN(4*n)),
			Links: 1, Size: size, ModTime: Time{Sec: 1_690_000_000 + rng.Int64N(10_000_000)}, Changed: at, Born: &born,
			Flags: 0x80000, Content: Content{Chunks: []Chunk{{ID: randomID(rng), Len: size}}},
		}
	}
	return nodes
}

func TestBytesPerFile(t *testing.T) {
	for name, want := range map[string]float64{"unpacked": 56, "written": 62} {
		rng := rand.New(rand.NewPCG(1, 1))
		nodes := sourceNodes(rng, 5000)
		if name == "written" {
			for i := range nodes {
				nodes[i].ModTime = nodes[i].Changed.addNanos(rng.Int64N(1e15))
				nodes[i].Changed = nodes[i].ModTime
			}
		}
		s := shelf{}
		s.build(t, nodes)
		total := 0
		for _, p := range s {
			total += len(p)
		}
		perFile := float64(total) / float64(len(nodes))
		t.Logf("%s: %.1f bytes per file", name, perFile)
		require.Less(t, perFile, want, name)
	}
}
