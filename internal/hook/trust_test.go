package hook

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPathsOf(t *testing.T) {
	for line, want := range map[string][]string{
		"":                                   nil,
		"pg_dump x > /var/x.sql 2>/dev/null": {"/var/x.sql", "/dev/null"},
		"'/opt/my dir/x' y":                  {"/opt/my", "/dir/x", "/opt/my dir/x"},
		"A=/b /opt/x; sh /d/x":               {"/b", "/opt/x", "/d/x"},
		"sh -c 'sh /d/x'":                    {"/d/x"},
		"zfs snapshot tank/data@x":           {"/tank/data@x"},
		"op read op://vault/x":               nil,
		"rsync host:/x /y":                   {"/y"},
		"./x":                                {"./x"},
		"opt/x":                              {"opt/x"},
		"sh d/x":                             {"d/x"},
		"cd /d && sh x/y":                    {"/d", "x/y"},
		"/opt/*/x":                           {"/opt"},
		"runuser -u ann -- /home/ann/x":      nil,
	} {
		require.Equal(t, want, pathsOf(line), line)
	}
}

func TestRootRunsNothingThatOthersCanChange(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others run what they like")
	}
	top := t.TempDir() // in a folder with the sticky bit
	require.NoError(t, os.Chmod(top, 0o755))
	dir := filepath.Join(top, "a b")
	require.NoError(t, os.Mkdir(dir, 0o755))
	file, link := filepath.Join(dir, "file"), filepath.Join(top, "link")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\necho ran\n"), 0o755))
	require.NoError(t, os.Symlink("a b/file", link))
	ran := func(c Command) error {
		r, err := Run(t.Context(), c)
		require.Equal(t, errors.Is(err, ErrUnsafe), r.Output == nil)
		return err
	}
	both := func(text string) {
		t.Helper()
		for _, c := range []Command{{Line: "echo ran", Files: []string{file}}, {Line: "echo ran", Files: []string{"", link}},
			{Line: link}} {
			err := ran(c)
			if text == "" {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, ErrUnsafe)
			require.ErrorContains(t, err, text)
			called := false
			commands := Commands{After: c, Ended: func(string, Result, error) { called = true }}
			require.ErrorIs(t, Around(t.Context(), commands, func() Outcome { called = true; return Outcome{} }), ErrUnsafe)
			require.False(t, called)
		}
	}
	both("")
	require.NoError(t, os.Chmod(file, 0o775))
	both("chmod go-w '" + file + "'")
	require.NoError(t, os.Chmod(file, 0o757))
	both("chmod go-w '" + file + "'")
	require.NoError(t, os.Chmod(file, 0o755))
	require.NoError(t, os.Chmod(dir, 0o777))
	both("chmod go-w '" + dir + "'")
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	both("")
	require.NoError(t, os.Chown(file, 65534, -1))
	both("since '" + file + "' belongs to another user: chown -h root '" + file + "'")
	require.NoError(t, os.Chown(file, 0, -1))
	both("")

	require.NoError(t, os.Lchown(link, 65534, -1))
	require.ErrorContains(t, ran(Command{Line: link}), "chown -h root '"+link+"'")
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("link", link))
	_, err := Run(t.Context(), Command{Line: link})
	require.ErrorContains(t, err, "follow the symbolic link")
	require.EqualError(t, ran(Command{Line: filepath.Join(top, "none")}), "exit code 127")
}

func TestACommandOfRootNamesNothingThatOthersCanChange(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others run what they like")
	}
	top := t.TempDir()
	require.NoError(t, os.Chmod(top, 0o755))
	file := filepath.Join(top, "x")
	require.NoError(t, os.WriteFile(file, []byte("true\n"), 0o755))
	lines := []string{"sh FILE", "/bin/bash -e FILE", "python3 FILE arg", ". FILE", "FILE", "A=FILE true",
		"true --config=FILE",
		"true && sh FILE", "sh -c 'sh FILE'", `sh -c "true; FILE"`, "true < FILE", "echo $(cat FILE)",
		"nice -n 5 FILE"}
	for owner, want := range map[int]error{0: nil, 1: ErrUnsafe} {
		require.NoError(t, os.Chown(file, owner, owner))
		for _, line := range lines {
			c := Command{Line: strings.ReplaceAll(line, "FILE", file)}
			require.ErrorIs(t, c.Check(), want, line)
		}
	}
	for _, line := range []string{"./x", "sh ../x", "d/x", "sh d/x", "cd /d && sh x/y"} {
		c := Command{Line: line}
		require.ErrorIs(t, c.Check(), ErrUnsafe, line)
		require.ErrorContains(t, c.Check(), "name it from / on")
	}
	for _, line := range []string{"true", "/bin/true", "sync && logger done", "runuser -u ann -- " + file,
		"op read op://vault/item", "true > /dev/null"} {
		c := Command{Line: line}
		require.NoError(t, c.Check(), line)
	}
}
