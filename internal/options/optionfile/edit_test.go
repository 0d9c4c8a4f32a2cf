package optionfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/options"
)

func some() []options.FileLine {
	return []options.FileLine{{Keyword: "REPOSITORY", Values: []string{"/mnt/disk/r"}},
		{Keyword: "POLICY", Values: []string{"utility"}}, {Keyword: "DOMAIN", Values: []string{"/home/ann", "/my dir"}},
		{Keyword: "EXCLUDEPATTERN", Values: []string{"*.o"}, List: true}, {Keyword: "EXCLUDECACHES", Values: []string{"yes"}}}
}

// effective is what an option file says, in its order.
func effective(t *testing.T, content, server string) (all []string) {
	t.Helper()
	lines, err := options.ParseFile("x.opt", []byte(content), server)
	require.NoError(t, err)
	for _, l := range lines {
		all = append(all, l.Keyword+" "+strings.Join(l.Values, "|"))
	}
	return all
}

func TestEdit(t *testing.T) {
	for what, c := range map[string]struct{ before, server, after string }{
		"new": {"", "", `REPOSITORY /mnt/disk/r
POLICY utility
DOMAIN /home/ann "/my dir"
EXCLUDEPATTERN *.o
EXCLUDECACHES yes
`},
		"other lines and comments stay": {`# mine
policy throttle
Compression max
repository "/old place"
excludep *.tmp

* the end
`, "", `# mine
POLICY utility
Compression max
REPOSITORY /mnt/disk/r
excludep *.tmp
DOMAIN /home/ann "/my dir"
EXCLUDEPATTERN *.o
EXCLUDECACHES yes

* the end
`},
		"the last line counts": {"POLICY utility\nPOLICY throttle\n", "", `POLICY utility
POLICY utility
REPOSITORY /mnt/disk/r
DOMAIN /home/ann "/my dir"
EXCLUDEPATTERN *.o
EXCLUDECACHES yes
`},
		"sources are replaced together": {"DOMAIN /a\nDOMAIN /b\nEXCLUDECACHES on", "", `DOMAIN /home/ann "/my dir"
EXCLUDECACHES yes
REPOSITORY /mnt/disk/r
POLICY utility
EXCLUDEPATTERN *.o
`},
		"only the stanza in effect": {"POLICY throttle\nSERVERNAME one\n  POLICY standard\nSERVERNAME two\n  POLICY " +
			"important\n", "two",
			"POLICY throttle\nSERVERNAME one\n  POLICY standard\nSERVERNAME two\n  POLICY utility\n" + `REPOSITORY /mnt/disk/r
DOMAIN /home/ann "/my dir"
EXCLUDEPATTERN *.o
EXCLUDECACHES yes
`},
	} {
		t.Run(what, func(t *testing.T) {
			before := strings.ReplaceAll(c.before, "excludep ", "excludepattern ")
			f, err := Edit("x.opt", []byte(before), c.server, some())
			require.NoError(t, err)
			require.Equal(t, strings.ReplaceAll(c.after, "excludep ", "excludepattern "), string(f.New))
			require.NotEmpty(t, f.Changes)
			now := effective(t, string(f.New), c.server)
			for _, want := range []string{"REPOSITORY /mnt/disk/r", "POLICY utility", "DOMAIN /home/ann|/my dir",
				"EXCLUDEPATTERN *.o",
				"EXCLUDECACHES yes"} {
				require.Contains(t, now, want)
			}

			again, err := Edit("x.opt", f.New, c.server, some())
			require.NoError(t, err)
			require.Empty(t, again.Changes, "a second run changes nothing")
			require.Equal(t, string(f.New), string(again.New))
		})
	}
}

// An empty stanza at the end still gets the lines: they must be in effect.
func TestEditEmptyStanza(t *testing.T) {
	for _, content := range []string{"SERVERNAME one\n", "POLICY auto\nSERVERNAME one\n",
		"SERVERNAME one\nSERVERNAME two\nPOLICY auto\n"} {
		f, err := Edit("x.opt", []byte(content), "", some())
		require.NoError(t, err)
		require.Contains(t, effective(t, string(f.New), ""), "REPOSITORY /mnt/disk/r", content)
		require.Contains(t, effective(t, string(f.New), ""), "POLICY utility", content)
	}
}

func TestEditRefuses(t *testing.T) {
	for _, value := range []string{"a\nb", `a "b' c`} {
		_, err := Edit("x.opt", nil, "", []options.FileLine{{Keyword: "REPOSITORY", Values: []string{value}}})
		require.ErrorContains(t, err, "an option file cannot hold a value with")
	}
	_, err := Edit("x.opt", []byte("NOSUCHWORD 1\n"), "", some())
	require.ErrorContains(t, err, "x.opt:1")
}

func TestSaveKeepsCopies(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "tidemark.opt")
	f := &File{Path: path, New: []byte("POLICY auto\n")}
	f.Fresh("setup")
	copied, err := f.SaveWithCopy()
	require.NoError(t, err)
	require.Empty(t, copied)
	first, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "* Written by 'tidemark setup'. 'tidemark options' prints what is in effect.\nPOLICY auto\n",
		string(first))

	link := filepath.Join(dir, "link.opt")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, os.Chmod(path, 0o640))
	before := first
	for n := range 3 {
		now := []byte(strings.Repeat("x", n))
		copied, err = (&File{Path: link, Content: before, New: now}).SaveWithCopy()
		require.NoError(t, err)
		kept, err := os.ReadFile(copied)
		require.NoError(t, err)
		require.Equal(t, before, kept)
		before = now
	}
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "the link stays")
	info, err = os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	names, err := filepath.Glob(filepath.Join(dir, "new", "*"))
	require.NoError(t, err)
	require.Len(t, names, 4, "the file and three copies, and no temporary file")

	_, err = (&File{Path: path, Content: []byte("as it was shown"), New: []byte("y")}).SaveWithCopy()
	require.ErrorIs(t, err, ErrChanged)
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "xx", string(now))
}

// TestParallelChangesAreNotLost: of many processes that change the file, each either changes what the others wrote, or
// learns that it did not.
func TestParallelChangesAreNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "opt")
	var all errgroup.Group
	for n := range 6 {
		all.Go(func() error {
			for i := 0; i < 10; {
				was, err := os.ReadFile(path)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				f := File{Path: path, Content: was, New: fmt.Appendf(bytes.Clone(was), "* line %d of %d\n", i, n)}
				if err := f.Save(); err == nil {
					i++
				} else if !errors.Is(err, ErrChanged) {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 60, bytes.Count(content, []byte("\n")))
}
