package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/target"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// ran runs the program with a folder as its home, and returns what it printed and its exit code.
func ran(ctx context.Context, t *testing.T, home string, args ...string) (out, failed string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(ctx, Process{Args: args, In: &bytes.Buffer{}, Out: &stdout, Err: &stderr,
		Env: func(name string) (string, bool) {
			if name == "HOME" || name == "XDG_RUNTIME_DIR" {
				return home, true
			}
			return "", false
		}})
	testkit.CollectLess() // the program has bounded its memory
	return stdout.String(), stderr.String(), code
}

func TestExitCodes(t *testing.T) {
	for want, errs := range map[int][]error{
		exitOK: {nil},
		exitFailed: {
			errors.New("x"), repo.ErrExists, repo.ErrNoSnapshot, // and what a target that is away, full, or refuses ends with
			store.ErrGone, store.ErrNoSpace, store.ErrDenied, store.ErrTemporary, store.ErrShort, store.NoSnapshots("/there"),
			smb.ErrLogon, smb.ErrInsecure, smb.ErrTorn, target.ErrNotFolder,
		},
		exitUsage: {usagef("x"), &place.NameError{Err: errors.New("x")},
			&options.Error{Origin: "f:1", Err: options.ErrValue}, options.ErrConflict},
		exitIncomplete:  {errIncomplete},
		exitNoRepo:      {repo.ErrNoRepository, place.ErrGone, location.ErrAway},
		exitWrongKey:    {repo.ErrWrongKey, unlock.ErrNoSecret},
		exitInterrupted: {errInterrupted, context.Canceled, errors.Join(repo.ErrWrongKey, errInterrupted)},
	} {
		for _, err := range errs {
			require.Equal(t, want, exitCode(err), "%v", err)
			if err != nil {
				require.Equal(t, want, exitCode(fmt.Errorf("do it: %w", err)), "wrapped: %v", err)
				require.NotContains(t, message(err), "\n", "one line")
			}
		}
	}
}

func TestParseTime(t *testing.T) {
	at := time.Date(2024, 2, 29, 12, 30, 0, 0, time.Local)
	for _, text := range []string{"2024-02-29 12:30:00", "2024-02-29 12:30", at.Format(time.RFC3339)} {
		got, err := parseTime(text)
		require.NoError(t, err, text)
		require.True(t, at.Equal(got), text)
	}
	for _, text := range []string{"", "soon", "2023-02-29", "12:30"} {
		_, err := parseTime(text)
		require.Equal(t, exitUsage, exitCode(err), text)
	}
}

// What reach refuses is never entered, so it must let through every directory that something taken lies in.
func TestIncludeReachesWhatItTakes(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		through       []string
		not           []string
	}{
		{"/a/b", "/a/b/c/d", []string{"/a", "/a/b", "/a/b/c"}, []string{"/b", "/ab", "/a/bc"}},
		{"/a/*.txt", "/a/x.txt", []string{"/a"}, []string{"/b"}},
		{"*.txt", "/q/r/x.txt", []string{"/q", "/q/r"}, nil},
		{"/*/x", "/q/x", []string{"/q"}, nil},
		{"b/c", "/a/b/c", []string{"/a", "/a/b"}, nil},
	} {
		flags := &restoreFlags{include: patternLists{{patterns: []string{c.pattern}}}}
		selected, err := flags.selection(func(string) (string, bool) { return "", false })
		require.NoError(t, err)
		taken, _ := selected.Take(c.path, tree.File)
		require.True(t, taken, "%s takes %s", c.pattern, c.path)
		for _, dir := range c.through {
			_, enter := selected.Take(dir, tree.Dir)
			require.True(t, enter, "%s enters %s", c.pattern, dir)
		}
		for _, dir := range c.not {
			taken, enter := selected.Take(dir, tree.Dir)
			require.False(t, taken || enter, "%s leaves out %s", c.pattern, dir)
		}
	}
}

// Every command has a description, and no two flags of a command share a letter: cobra would panic about that only at
// the call.
func TestCommandsAreWellFormed(t *testing.T) {
	a := &app{Process: Process{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.False(t, strings.HasSuffix(c.Short, "."), c.CommandPath())
		require.NotPanics(t, func() { _ = c.UsageString() }, c.CommandPath())
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(a.tree())
}

// A run makes the command that its arguments name, the same as among all, and all where it takes more than one.
func TestOnlyTheCommandThatRunsIsMade(t *testing.T) {
	a := &app{Process: Process{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}}
	all := a.tree()
	makers := a.commands()
	require.Len(t, all.Commands(), len(makers))
	for _, m := range makers {
		whole, _, err := all.Find([]string{m.name})
		require.NoError(t, err)
		require.Equal(t, m.name, whole.Name(), "the name of a maker is that of its command")
		root := a.treeFor([]string{"--repo", "version", m.name, "--help"})
		if m.whole {
			require.Len(t, root.Commands(), len(makers), m.name)
			continue
		}
		require.Len(t, root.Commands(), 1, m.name)
		require.Equal(t, whole.UsageString(), root.Commands()[0].UsageString())
	}
	for _, args := range [][]string{
		nil, {"--help"}, {"help"}, {"help", "backup"}, {"bakup"}, {"--repo", "backup"}, {"--json"}, {"-r", "backup", "bakup"},
		{"__complete", "backup", "--"}, {"__completeNoDesc", ""},
	} {
		require.Len(t, a.treeFor(args).Commands(), len(makers), "%q", args)
	}
	for _, args := range [][]string{
		{"--repo=x", "version"}, {"--json", "version", "backup"}, {"version", "--", "backup"}, {"-r", "backup", "version"},
		{"--unknown", "backup", "version"},
	} {
		root := a.treeFor(args)
		require.Len(t, root.Commands(), 1, "%q", args)
		require.Equal(t, "version", root.Commands()[0].Name(), "%q", args)
	}
}

// 'version' has the global options, each made once, and no others.
func TestVersionHasNoMoreOptionsThanItNeeds(t *testing.T) {
	a := &app{Process: Process{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}}
	root := a.treeFor([]string{"version"})
	have := 0
	root.PersistentFlags().VisitAll(func(*pflag.Flag) { have++ })
	root.Commands()[0].Flags().VisitAll(func(f *pflag.Flag) {
		require.NotNil(t, root.PersistentFlags().Lookup(f.Name),
			f.Name)
	})
	want := 1 // --all
	for _, o := range options.Table() {
		global := []options.Group{options.GroupRepository, options.GroupKeys, options.GroupShare, options.GroupCache,
			options.GroupOutput}
		if o.Barred&options.NotFlag == 0 && slices.Contains(global, o.Group) {
			want++
		}
	}
	require.Equal(t, want, have)
}
