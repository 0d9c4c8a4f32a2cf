package hook

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramOf(t *testing.T) {
	for line, want := range map[string]string{
		"":                              "",
		"pg_dump x":                     "",
		"/usr/bin/true":                 "/usr/bin/true",
		"  '/opt/my/x' y":               "/opt/my/x",
		"A=b C='d' /opt/x; rm y":        "/opt/x",
		"(opt/x)":                       "/opt/x",
		"exec /opt/../opt/x":            "/opt/x",
		"$HOME/x":                       "",
		"/opt/*/x":                      "",
		"true && /opt/x":                "",
		"/usr/local/bin/dump=all --now": "/usr/local/bin/dump=all",
	} {
		require.Equal(t, want, programOf(line), line)
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
		for _, c := range []Command{{Line: "echo ran", OptionFile: file}, {Line: "echo ran", OptionFile: link},
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
