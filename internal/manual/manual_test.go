package manual

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func commands() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tidemark", Short: "Back up", Run: run}
	key := &cobra.Command{Use: "key", Short: "Manage keys", Run: run}
	key.AddCommand(&cobra.Command{Use: "add", Short: "Add a key", Run: run})
	root.AddCommand(key, &cobra.Command{Use: "secret", Short: "Hidden", Hidden: true, Run: run})
	return root
}

func TestDefaultDir(t *testing.T) {
	for _, c := range []struct {
		data, home string
		uid        int
		want       string
	}{
		{"/data", "/home/ann", 0, "/usr/local/share/man"},
		{"/data", "/home/ann", 1000, "/data/man"},
		{"data", "/home/ann", 1000, "/home/ann/.local/share/man"},
		{"", "/home/ann", 1000, "/home/ann/.local/share/man"},
		{"", "", 1000, ""},
	} {
		env := func(name string) (string, bool) {
			value := map[string]string{"XDG_DATA_HOME": c.data, "HOME": c.home}[name]
			return value, value != ""
		}
		require.Equal(t, c.want, DefaultDir(env, c.uid), "%+v", c)
	}
}

// fakeManpath puts a manpath(1) with a fixed answer into PATH.
func fakeManpath(t *testing.T, script string) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manpath"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	t.Setenv("PATH", dir)
}

func TestInstall(t *testing.T) {
	base := filepath.Join(t.TempDir(), "share", "man")
	date := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for script, inPath := range map[string]bool{
		"echo /usr/share/man:" + base: true,
		"echo /usr/share/man":         false,
		"exit 1":                      true,
	} {
		fakeManpath(t, script)
		done, err := Install(t.Context(), commands(), base, date)
		require.NoError(t, err)
		require.Equal(t, &Installed{Dir: base + "/man1", Pages: 3, InPath: inPath}, done, script)
	}
	there, err := os.ReadDir(filepath.Join(base, "man1"))
	require.NoError(t, err)
	require.Len(t, there, 3, "Pages counts what is there")
	page, err := os.ReadFile(filepath.Join(base, "man1", "tidemark-key-add.1"))
	require.NoError(t, err)
	require.Contains(t, string(page), "Nov 2026")

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Install(t.Context(), commands(), file, date)
	require.Error(t, err)
}

// TestPagesAreReproducible writes the pages in two time zones, with a date at whose hour the month of one is another,
// and compares them.
func TestPagesAreReproducible(t *testing.T) {
	zone := time.Local
	t.Cleanup(func() { time.Local = zone })
	november := time.Date(2026, 11, 1, 1, 0, 0, 0, time.UTC)
	for _, date := range []time.Time{november, november.AddDate(0, 1, 0).Add(-2 * time.Hour)} {
		var pages []string
		for _, hours := range []int{-11, 13} {
			time.Local = time.FixedZone("", hours*3600)
			for _, given := range []time.Time{{}, date.Local()} {
				t.Setenv("SOURCE_DATE_EPOCH", strconv.FormatInt(date.Unix(), 10))
				dir := t.TempDir()
				require.NoError(t, WriteRoff(commands(), dir, given))
				page, err := os.ReadFile(filepath.Join(dir, "tidemark.1"))
				require.NoError(t, err)
				pages = append(pages, string(page))
			}
		}
		for _, page := range pages {
			require.Equal(t, pages[0], page)
			require.Contains(t, page, "Nov 2026")
		}
	}
}

// TestMarkdownListsSharedFlagsOnce: the page of the root has the flags of all commands, and the others refer to it.
