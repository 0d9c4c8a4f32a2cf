package dsmc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCommandsAndTheirAbbreviations(t *testing.T) {
	for line, want := range map[string]string{
		"i": "incremental", "INCR": "incremental", "incremental /a": "incremental", "sel /a": "selective", "re /a": "",
		"res /a": "restore", "rest /a": "restore", "RESTORE /a": "restore", "restart restore": "restart restore",
		"ret x":  "retrieve",
		"q b /a": "query backup", "q ba /a": "query backup", "query backup /a": "query backup",
		"q backupset x": "query backupset",
		"q f":           "query filespace", "q fi": "query filespace", "q se": "query session", "q sc": "query schedule",
		"q incl": "query inclexcl", "q o": "query options", "q m": "query mgmtclass", "pre b /a": "preview backup",
		"h": "help", "help": "help", "-help": "help", "ar /a": "archive", "sch": "schedule", "exp /a": "expire",
		"b im /a": "backup image", "query": "", "q": "", "q zz": "", "se /a": "", "frobnicate": "", "": "",
	} {
		c, err := Parse(strings.Fields(line))
		switch {
		case want == "":
			require.ErrorIs(t, err, ErrUsage, line)
		default:
			require.NoError(t, err, line)
			require.Equal(t, want, c.Name, line)
		}
	}
	for _, name := range commands() {
		name, without := strings.CutPrefix(strings.ToLower(name), "-")
		c, err := Parse(strings.Fields(name))
		require.NoError(t, err)
		require.Equal(t, !without, c.Supported)
		require.Equal(t, name, c.Name)
	}
}

func TestOptions(t *testing.T) {
	c, err := Parse([]string{"q", "-INAC", "ba", "-su=yes", "/a b/*", "-Resourceutilization=5", "--json", "-quiet",
		"-password=geheim", "-pitd=01/31/2024"})
	require.NoError(t, err)
	require.Equal(t, &Command{Name: "query backup", Args: []string{"/a b/*"},
		Options: map[string]string{"inactive": "yes", "subdir": "yes", "pitdate": "01/31/2024"},
		Flags:   []string{"--resource-utilization=5", "--json", "--quiet"}, Ignored: []string{"PASSWORD"},
		Supported: true}, c)
	c, err = Parse([]string{"i", "-quiet", "--", "-x", "--", "--json"})
	require.NoError(t, err)
	require.Equal(t, &Command{Name: "incremental", Args: []string{"-x", "--", "--json"}, Options: map[string]string{},
		Flags: []string{"--quiet"}, Supported: true}, c, "what follows -- are names")
	for line, want := range map[string]string{
		"i -pick": "-pick is not supported by incremental", "i -inactive": "-inactive is not supported by incremental",
		"i -replace=all": "not supported", "i -subdir": "write it as -subdir=VALUE", "q ba -inactive=yes": "without a value",
		"i -frobnicate=geheim": "unknown option -frobnicate", "restore /a -fromdate=1": "not supported",
		"i -optfile=":               "VALUE",
		"restore /a -subdir=geheim": "-subdir: write yes or no",
	} {
		_, err := Parse(strings.Fields(line))
		require.ErrorIs(t, err, ErrUsage, line)
		require.ErrorContains(t, err, want, line)
		require.NotContains(t, err.Error(), "geheim")
	}
	for line, want := range map[string]map[string]string{
		"q fi -dateformat=3": {"dateformat": "3"}, "i -su=Y": {"subdir": "yes"}, "restore /a -SUbdir=No": {"subdir": "no"},
		"q ba /a -su=n": {"subdir": "no"},
	} {
		c, err := Parse(strings.Fields(line))
		require.NoError(t, err, line)
		require.Equal(t, want, c.Options, line)
	}
	c, err = Parse([]string{"archive", "-frobnicate"})
	require.NoError(t, err, "the command is what is not supported")
	require.False(t, c.Supported)
}

func TestSpecs(t *testing.T) {
	for text, want := range map[string]Spec{
		"/home/ann/x": {"/home/ann", "x", false}, "/home/ann/": {"/home/ann", "*", true},
		"/home/ann/*":   {"/home/ann", "*", true},
		"/home/ann/*.c": {"/home/ann", "*.c", true}, "/": {"/", "*", true}, "x": {"/wd", "x", false},
		"*.c": {"/wd", "*.c", true},
		".":   {"/wd", "*", true}, "..": {"/", "*", true}, "sub/": {"/wd/sub", "*", true},
		"{/home}/ann/x": {"/home/ann", "x", false},
		"{/home}":       {"/home", "*", true}, "{/}/etc/*": {"/etc", "*", true}, "/a//b": {"/a", "b", false},
	} {
		s, err := ParseSpec(text, "/wd")
		require.NoError(t, err, text)
		require.Equal(t, want, s, text)
	}
	for _, text := range []string{"", "/home/*/x", "/ho?e/x"} {
		_, err := ParseSpec(text, "/wd")
		require.ErrorIs(t, err, ErrUsage, text)
	}
	s := Spec{"/a", "x[1]*?.c", true}
	require.True(t, s.Matches("x[1]yz.c"))
	require.False(t, s.Matches("x1yz.c"))
	require.True(t, (&Spec{"/a", "*", true}).Matches(".hidden"))
	require.True(t, (&Spec{"/a", "[x]", false}).Matches("[x]"))
}

func TestSources(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for _, name := range []string{"1.c", "2.c", "3.h"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	s := Spec{dir, "*.c", true}
	found, err := s.Sources(false)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "1.c"), filepath.Join(dir, "2.c")}, found)
	_, err = s.Sources(true)
	require.ErrorIs(t, err, ErrUsage)
	_, err = (&Spec{dir, "*.o", true}).Sources(false)
	require.ErrorIs(t, err, ErrUsage)
	found, err = (&Spec{dir, "*", true}).Sources(true)
	require.NoError(t, err)
	require.Equal(t, []string{dir}, found)
}

func TestMoments(t *testing.T) {
	for _, c := range [][4]string{{"1", "01/31/2024", "13:05:06", "2024-01-31 13:05:06"},
		{"", "01/31/2024", "", "2024-01-31 23:59:59"},
		{"4", "31.01.2024", "1:02", "2024-01-31 01:02:00"}, {"7", "31/01/2024", "", "2024-01-31 23:59:59"},
		{"2", "2024-01-31", "", "2024-01-31 23:59:59"}} {
		layout, err := DateLayout(c[0])
		require.NoError(t, err)
		at, err := ParseMoment(c[1], c[2], layout)
		require.NoError(t, err, c)
		require.Equal(t, c[3], at.Format(time.DateTime))
	}
	_, err := DateLayout("8")
	require.ErrorIs(t, err, ErrUsage)
	for _, c := range [][2]string{{"31/12/2024", ""}, {"yesterday", ""}, {"12/31/2024", "noon"}} {
		_, err := ParseMoment(c[0], c[1], "01/02/2006")
		require.True(t, errors.Is(err, ErrUsage), c)
	}
}

// No command line panics, and no error has the value of an option.
func FuzzParse(f *testing.F) {
	f.Add("q ba /a/* -su=yes -inac")
	f.Add("restore {/home}/x -=secret -pitd=secret")
	f.Add("- -- -x=secret")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := Parse(strings.Fields(line))
		if err != nil {
			require.ErrorIs(t, err, ErrUsage)
			return
		}
		for _, arg := range c.Args {
			if s, err := ParseSpec(arg, "/wd"); err == nil {
				require.True(t, strings.HasPrefix(s.Dir, "/"), arg)
				_, _ = s.Matches("x"), s.Path()
			}
		}
	})
}
