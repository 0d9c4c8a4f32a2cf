package tree

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// TestNamesOfOneObject: what two nodes must have in common to be names of one object.
func TestNamesOfOneObject(t *testing.T) {
	n := Node{
		Name: "a", Type: File, Inode: 7, Links: 2, Size: 3, ModTime: Time{Sec: 5}, Changed: Time{Sec: 6, Nsec: 1},
		Content: Content{Inline: []byte("abc")},
	}
	for name, c := range map[string]struct {
		change func(n *Node)
		same   bool
	}{
		"another name":           {func(n *Node) { n.Name, n.Mode, n.Links = "b", 0o600, 3 }, true},
		"met after a change":     {func(n *Node) { n.Changed.Sec++ }, true},
		"kept in another way":    {func(n *Node) { n.Content = Content{Chunks: []Chunk{{ID: format.ID{1}, Len: 3}}} }, true},
		"another inode number":   {func(n *Node) { n.Inode++ }, false},
		"another file system":    {func(n *Node) { n.FS++ }, false},
		"another size":           {func(n *Node) { n.Size++ }, false},
		"another time":           {func(n *Node) { n.ModTime.Nsec++ }, false},
		"another type":           {func(n *Node) { n.Type = Fifo }, false},
		"another device":         {func(n *Node) { n.Device++ }, false},
		"another object":         {func(n *Node) { n.Content.Inline, n.Changed.Sec = []byte("xyz"), 9 }, false},
		"another target":         {func(n *Node) { n.Target, n.Changed.Sec = "t", 9 }, false},
		"a list in place of it":  {func(n *Node) { n.Content, n.Changed.Sec = Content{List: format.ID{1}}, 9 }, false},
		"other chunks, as large": {func(n *Node) { n.Content, n.Changed.Sec = Content{Chunks: []Chunk{{Len: 3}}}, 9 }, false},
	} {
		other := n
		c.change(&other)
		a, b := n.Object(), other.Object()
		require.Equal(t, c.same, a.Same(&b), name)
		require.Equal(t, c.same, b.Same(&a), name)
	}
	n.Changed.Nsec = 0 // of a file system that counts in seconds
	other := n
	other.Content.Inline = []byte("xyz")
	a, b := n.Object(), other.Object()
	require.False(t, a.Same(&b))
}
