package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListsOfPaths(t *testing.T) {
	l := pathLists{verbatim: []string{"-"}}
	got, err := l.read(strings.NewReader("# no comment\n\n a \n"), []string{"first"})
	require.NoError(t, err)
	require.Equal(t, []string{"first", "# no comment", " a "}, got)
	l = pathLists{raw: []string{"-"}}
	got, err = l.read(strings.NewReader("a\nb\x00c\x00"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a\nb", "c"}, got)
	l = pathLists{patterns: []string{"-"}}
	_, err = l.read(strings.NewReader("[\n"), nil)
	require.ErrorIs(t, err, filepath.ErrBadPattern)
}
