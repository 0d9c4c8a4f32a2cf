package listed

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListsOfPaths(t *testing.T) {
	l := Files{verbatim: []string{"-"}}
	got, err := l.Paths(strings.NewReader("# no comment\n\n a \n"), []string{"first"})
	require.NoError(t, err)
	require.Equal(t, []string{"first", "# no comment", " a "}, got)
	l = Files{raw: []string{"-"}}
	got, err = l.Paths(strings.NewReader("a\nb\x00c\x00"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a\nb", "c"}, got)
	l = Files{patterns: []string{"-"}}
	_, err = l.Paths(strings.NewReader("[\n"), nil)
	require.ErrorIs(t, err, filepath.ErrBadPattern)
}
