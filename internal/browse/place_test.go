package browse_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
)

// nested makes directories of paths.
func nested(paths []string) dir {
	root := dir{}
	for _, p := range paths {
		at := root
		names := strings.Split(p, "/")
		for _, name := range names[:len(names)-1] {
			if at[name] == nil {
				at[name] = dir{}
			}
			at = at[name].(dir)
		}
		at[names[len(names)-1]] = []byte(p)
	}
	return root
}

// TestLocate names one file by its path in the tree and by its path on the machine, for each way to name sources.
func TestLocate(t *testing.T) {
	for name, c := range map[string]struct {
		tree    []string
		sources []string
		bases   []string
		found   map[string]string // named -> path in the tree
	}{
		"absolute": {
			[]string{"home/ann/docs/a"}, []string{"/home/ann/docs"}, []string{"/"},
			map[string]string{"/home/ann/docs/a": "/home/ann/docs/a", "home/ann": "home/ann", "/docs/a": "/docs/a"},
		},
		"relative": {
			[]string{"docs/a"}, []string{"/home/ann/docs"}, []string{"/home/ann"},
			map[string]string{"/home/ann/docs/a": "/docs/a", "/home/ann/docs/": "/docs", "/home/ann": "/", "/docs/a": "/docs/a",
				"/home/anna/docs": "/home/anna/docs", "/home/ann/docs/b": "/home/ann/docs/b"},
		},
		"dot": {
			[]string{"a", "docs/b"}, []string{"/home/ann/docs"}, []string{"/home/ann/docs"},
			map[string]string{"/home/ann/docs/a": "/a", "/home/ann/docs/docs/b": "/docs/b", "/home/ann/docs": "/"},
		},
		"several": {
			[]string{"a/x", "b", "srv/data/y"}, []string{"/home/ann/a", "/home/b", "/srv/data"},
			[]string{"/home/ann", "/home", "/"},
			map[string]string{"/home/ann/a/x": "/a/x", "/home/b": "/b", "/srv/data/y": "/srv/data/y", "/home/a/x": "/a/x"},
		},
		"gone": {[]string{"a"}, []string{"/home/b"}, []string{"/home/b"},
			map[string]string{"/home/b": "/", "/home/c": "/home/c"}},
		"none": {[]string{"a"}, nil, []string{}, map[string]string{"/a": "/a", "/b": "/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := initialise(t)
			root := save(t, r, nested(c.tree))
			bases, err := browse.Bases(context.Background(), r, root, c.sources)
			require.NoError(t, err)
			require.Equal(t, c.bases, bases)
			for named, want := range c.found {
				got, err := browse.Locate(context.Background(), r, root, c.sources, named)
				require.NoError(t, err)
				require.Equal(t, want, got, named)
			}
		})
	}
}
