package localfs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// create makes the object of n without its metadata.
func create(t *testing.T, d *Dir, n *tree.Node) {
	t.Helper()
	switch n.Type {
	case tree.File:
		w, err := d.CreateFile(n.Name)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	case tree.Dir:
		require.NoError(t, d.Mkdir(n.Name, 0o700))
	case tree.Symlink:
		require.NoError(t, d.Symlink(n.Target, n.Name))
	default:
		require.NoError(t, d.Mknod(n.Name, n.Type, 0o600, n.Device))
	}
}

// roundTrip applies every wanted node, by name and through a Writer, reads it back and compares.
func roundTrip(t *testing.T, parent *Dir) {
	maker := NewMaker(ApplyOptions{})
	for _, how := range []string{"newest calls", "older calls", "by writer", "by maker"} {
		require.NoError(t, parent.Mkdir(how, 0o700))
		d, err := parent.Open(how)
		require.NoError(t, err)
		if how == "older calls" {
			withOlderCalls(d)
		}
		t.Cleanup(func() {
			defer d.Release()
			for _, name := range []string{"immutable", "append"} {
				if err := d.Unprotect(name); err != nil && !t.Failed() {
					t.Error(err)
				}
			}
		})
		for _, n := range wanted() {
			if how == "by maker" {
				require.Empty(t, makeWith(t, maker, d, n, "content"), n.Name)
				require.Equal(t, n, nodeOf(t, d, n.Name), n.Name)
				continue
			}
			create(t, d, n)
			var ps []Problem
			if how == "by writer" && n.Type == tree.File {
				w, err := openWriter(d, n.Name)
				require.NoError(t, err)
				ps = w.SetMeta(n, ApplyOptions{})
				require.NoError(t, w.Close())
			} else {
				ps = d.Apply(n.Name, n, ApplyOptions{})
			}
			require.Empty(t, ps, "%s, %s", n.Name, how)
			require.Equal(t, n, nodeOf(t, d, n.Name), "%s, %s", n.Name, how)
		}
		require.ErrorIs(t, d.Remove("immutable", false), os.ErrPermission)
	}
}

// makeWith makes the object of n with its metadata.
func makeWith(t *testing.T, m *Maker, d *Dir, n *tree.Node, content string) []Problem {
	t.Helper()
	switch n.Type {
	case tree.File:
		made, ps, err := m.File(d, n.Name, []byte(content), n)
		require.NoError(t, err)
		require.True(t, made)
		if n.Flags != 0 {
			ps = append(ps, d.Apply(n.Name, n, ApplyOptions{})...)
		}
		return ps
	case tree.Dir:
		create(t, d, n)
		sub, err := d.Open(n.Name)
		require.NoError(t, err)
		defer sub.Release()
		return m.Directory(sub, n, 0o700)
	default:
		create(t, d, n)
		return m.Entry(d, n.Name, n, 0o600)
	}
}
