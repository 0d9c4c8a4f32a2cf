package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/elsewhere"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// anywhere reports whether a command at or below c has a flag.
func anywhere(c *cobra.Command, name string) bool {
	c.InheritedFlags()
	return c.Flags().Lookup(name) != nil ||
		slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return anywhere(sub, name) })
}

// exists reports whether an answer names a command with its flags, a flag or an environment variable.
func exists(root *cobra.Command, answer string) bool {
	c, isCommand := root, false
	for i, word := range strings.Fields(answer) {
		name, isFlag := strings.CutPrefix(word, "--")
		switch {
		case strings.HasPrefix(word, "TIDEMARK_"):
			return i == 0 && answer == word && options.OfVariable(word) != ""
		case isFlag && !isCommand:
			return i == 0 && answer == word && anywhere(root, name)
		case isFlag:
			c.InheritedFlags()
			if c.Flags().Lookup(name) == nil {
				return false
			}
		default:
			sub := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
			if word == "help" && c == root {
				return true
			}
			if sub < 0 {
				return false
			}
			c, isCommand = c.Commands()[sub], true
		}
	}
	return answer != ""
}

// Every answer names a command, flag or variable that exists, and every word without an equivalent has a reason.
func TestWordsOfOtherProgramsHaveAnswers(t *testing.T) {
	root := (&app{}).tree()
	seen := map[string]bool{}
	for _, row := range slices.Concat(elsewhere.Commands(), elsewhere.Flags(), elsewhere.Variables()) {
		key := row.Program + " " + row.Theirs
		require.False(t, seen[key], "%s is there twice", key)
		seen[key] = true
		require.Equal(t, strings.ToLower(row.Program), row.Program)
		require.False(t, len(row.Ours) == 0 && row.Note == "", "%s has neither an equivalent nor a reason", key)
		for _, ours := range row.Ours {
			require.True(t, exists(root, ours), "%s: %q does not exist", key, ours)
		}
	}
	require.False(t, exists(root, "unlock"))
	require.False(t, exists(root, "key unlock"))
	require.False(t, exists(root, "forget --target"))
	require.False(t, exists(root, "--no-such-flag"))
	require.False(t, exists(root, "TIDEMARK_NO_SUCH"))
	for _, row := range elsewhere.Flags() {
		require.Regexp(t, `^(--[a-z-]+|-[a-zA-Z])$`, row.Theirs)
	}
	for _, row := range elsewhere.Variables() {
		require.Len(t, row.Ours, 1, row.Theirs)
	}
}

// Each command of another program that does not exist here is answered with code 2; flags after it do not matter.
func TestCommandsOfOtherProgramsAreAnswered(t *testing.T) {
	testkit.Slow(t)
	root, home := (&app{}).tree(), t.TempDir()
	for _, row := range elsewhere.Commands() {
		if exists(root, row.Theirs) || slices.Contains([]string{"help", "list"}, row.Theirs) {
			continue
		}
		for _, more := range [][]string{nil, {"--no-such-flag=x", "/some/path"}} {
			args := append(strings.Fields(row.Theirs), more...)
			if first, _, err := root.Find(args); err == nil && first != root && !first.HasSubCommands() {
				continue // "restore group": group is an argument
			}
			_, said, code := ran(t.Context(), t, home, args...)
			require.Equal(t, exitUsage, code, "%q: %s", args, said)
			require.Regexp(t, `unknown command "`+row.Theirs+`" .*\b`+row.Program+`\b`, said)
			require.Equal(t, 1, strings.Count(said, "\n"), said)
		}
	}
}

// What people type in their first hour is answered with the line to type here, which contains nothing that may be a
// secret, and no exclusion as a path to back up.
func TestTheLineToTypeIsNamed(t *testing.T) {
	root, home := (&app{}).tree(), t.TempDir()
	for line, want := range map[string]string{
		"create /r::monday src /srv":                         "tidemark backup --repo /r src /srv'",
		"create --stats --exclude /srv/x ssh://h/r::n ~/src": "tidemark backup --repo ssh://h/r '~/src'",
		"create ::n src":                                     "tidemark backup src'",
		"create docs /srv":                                   "tidemark backup /srv'",
		"create --passphrase geheim /r::n src":               "tidemark backup --repo /r src'",
		"list /r":                                            "tidemark snapshots --repo /r'",
		"list /r::n":                                         "tidemark ls --repo /r latest'",
		"extract /r::n":                                      "tidemark restore --repo /r latest --target DIR'",
		"init /r":                                            "tidemark init --repo /r'",
		"init -e repokey /r":                                 "every repository is encrypted",
		"check /r":                                           "tidemark check --repo /r'",
		"check --repair /r":                                  "tidemark repair index'",
		"prune /r":                                           "tidemark forget --repo /r --prune --keep-daily 7'",
		"copy --from /r":                                     "did you mean --from-repo?",
		"copy --to /r":                                       "did you mean --repo?",
		"snapshots --passphrase-file f":                      "did you mean --password-file?",
		"restore latest --to /r":                             "did you mean --target?",
		"prune --keep-daily 7 /r":                            "it is one of 'tidemark forget'",
		"mount /r::n mnt":                                    "tidemark mount --repo /r mnt latest'",
		"compact /r":                                         "tidemark prune --repo /r'",
		"repository connect filesystem --path /r":            "tidemark snapshots --repo /r'",
		"repository create filesystem --path=/r":             "tidemark init --repo /r'",
		"repository connect s3 --secret-access-key geheim": "tidemark snapshots'",
		"snapshot create src":                              "tidemark backup src'",
		"snap restore k1 out":                              "tidemark restore latest --target out'",
		"restore k1 out":                                   "tidemark restore latest --target out'",
		"mount all mnt":                                    "tidemark mount mnt'",
		"policy set --global --keep-latest 3":              "into the option file",
		"policy show --global":                             "before the first SERVERNAME",
	} {
		_, said, code := ran(t.Context(), t, home, strings.Fields(line)...)
		require.Equal(t, exitUsage, code, "%s: %s", line, said)
		require.Contains(t, said, want, line)
		require.NotContains(t, said, "geheim")
	}
	for _, row := range elsewhere.Commands() {
		for _, line := range strings.Split(row.Line, "; ") {
			plain := strings.NewReplacer(" REPO", "", " PATHS", "", " LAST", "", " latest", "", " DIR", "", " ID", "",
				" 7", "").Replace(line)
			require.True(t, line == "" || exists(root, plain), "%s: %q", row.Theirs, line)
		}
	}
}

// A word with one dash is never read as a letter and its value, and what belongs to a flag or a program is left alone.
func TestSingleDashes(t *testing.T) {
	for line, want := range map[string]string{
		"backup -resourceutilization=5 /x":   "write --resource-utilization",
		"backup /x -RESOURceutil=5":          "write --resource-utilization",
		"backup -resource-utilization 5 /x":  "write --resource-utilization",
		"snapshots -repo=/x":                 "write --repo",
		"snapshots -json":                    "write --json",
		"restore -target=/x latest":          "write --target",
		"restore latest -tag a":              "write --tag",
		"backup -su=yes /x":                  "write --subdir",
		"backup -optfile=x /y":               "write --option-file",
		"backup -servername=x /y":            "write --server-name",
		"backup -domain=/x":                  "write --domain",
		"snapshots -password=secret":         "see PASSWORDFILE",
		"backup -nodename=x /y":              "'tidemark dsmc'",
		"backup -v -q -n -x /y":              "",
		"backup -vvqn /y":                    "",
		"snapshots -r/x":                     "",
		"snapshots -rrepository.of.mine":     "",
		"backup -e -verbose /x":              "",
		"backup --exclude -verbose /x":       "",
		"backup --tag=a -- -verbose":         "",
		"run tar -verbose":                   "",
		"run --policy throttle tar -verbose": "",
		"run -json tar":                      "write --json",
		"find -lsx a":                        "",
	} {
		a := &app{Process: Process{Args: strings.Fields(line)}}
		err := a.checkSpelling(a.treeFor(a.Args))
		if want == "" {
			require.NoError(t, err, line)
			continue
		}
		require.ErrorContains(t, err, want, line)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, exitUsage, exitCode(err))
	}
}

func TestScanReadsArgumentsAsPflagDoes(t *testing.T) {
	for _, line := range []string{"a b", "-v a", "-s x a", "-sx a", "-vs x a", "-vsx a", "--str x a", "--str=x a",
		"--bool a", "-- -v a", "a - b"} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		flags.StringP("str", "s", "", "")
		flags.BoolP("bool", "v", false, "")
		var got []string
		scan(flags, strings.Fields(line), func(arg string, flag bool) bool {
			if !flag {
				got = append(got, arg)
			}
			return true
		})
		require.NoError(t, flags.Parse(strings.Fields(line)))
		want := flags.Args()
		if flags.ArgsLenAtDash() >= 0 {
			want = want[:flags.ArgsLenAtDash()]
		}
		require.ElementsMatch(t, want, got, line)
	}
}
