package cli

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func nothing(*cobra.Command, []string) {}

func exampleCommands() (root, key, add *cobra.Command) {
	root = &cobra.Command{Use: "prog"}
	key = &cobra.Command{Use: "key"}
	add = &cobra.Command{Use: "add [flags] FILE", Run: nothing}
	add.Flags().Int("number", 0, "")
	add.Flags().Bool("exact", false, "")
	add.Flags().Float64("share", 0, "")
	add.Flags().StringP("name", "n", "", "")
	key.AddCommand(add, &cobra.Command{Use: "list", Run: nothing},
		&cobra.Command{Use: "secret", Run: nothing, Hidden: true})
	root.AddCommand(key, &cobra.Command{Use: "backup", Run: nothing})
	return root, key, add
}

func TestUnknownCommands(t *testing.T) {
	root, key, add := exampleCommands()
	require.EqualError(t, unknownCommand(root, []string{"bakup"}), `unknown command "bakup": did you mean backup?`)
	require.EqualError(t, unknownCommand(root, []string{"kye"}), `unknown command "kye": did you mean key?`)
	require.EqualError(t, unknownCommand(root, []string{"frobnicate"}), `unknown command "frobnicate"; see 'prog --help'`)
	require.EqualError(t, unknownCommand(key, []string{"ad"}), `unknown command "ad": did you mean add?`)
	require.EqualError(t, unknownCommand(key, []string{"frobnicate"}),
		`unknown command "frobnicate"; see 'prog key --help'`)
	require.EqualError(t, unknownCommand(key, []string{"secrets"}), `unknown command "secrets"; see 'prog key --help'`)
	require.EqualError(t, unknownCommand(add, []string{"x"}), `unknown command "x"; see 'prog key add --help'`)
}

func TestWrongArguments(t *testing.T) {
	_, _, add := exampleCommands()
	const start, end = "prog key add [flags] FILE: ", "; see 'prog key add --help'"
	for _, c := range []struct {
		check cobra.PositionalArgs
		args  []string
		says  string
	}{
		{noArguments, []string{"x", "y"}, `takes no arguments, but "x" was given`},
		{cobra.ArbitraryArgs, []string{"x", ""}, "argument 2 is empty"},
		{arguments(1, 1), []string{"x", "y"}, `"y" is one argument too many`},
		{arguments(1, 1), nil, "FILE is missing"},
		{arguments(1, 2), []string{"x", "y", "z"}, `"z" is one argument too many`},
		{arguments(1, 0), nil, "FILE is missing"},
	} {
		require.EqualError(t, argumentError(add, c.check, c.args), start+c.says+end)
	}
	require.NoError(t, argumentError(add, arguments(1, 1), []string{"x"}))
	require.NoError(t, argumentError(add, noArguments, nil))
	add.Annotations = map[string]string{takesAddress: "COMMAND"}
	require.NoError(t, argumentError(add, cobra.ArbitraryArgs, []string{"test", "-z", ""}))
}

// Each command that misses an argument, or has one too many, says so in words of its usage line.
func TestEachCommandNamesTheArgument(t *testing.T) {
	everyCommand(func(c *cobra.Command) {
		if c.Args == nil || c.HasSubCommands() {
			return
		}
		for _, args := range [][]string{nil, {"1111", "2222", "3333", "4444"}} {
			err := c.Args(c, args)
			if err == nil {
				continue
			}
			require.NotContains(t, err.Error(), "arg(s)", c.CommandPath())
			if args == nil {
				require.Regexp(t, ": [A-Z]+(\\[[^ ]*)? is missing; see ", err.Error(), c.CommandPath())
			}
		}
	})
}

func TestWrongFlags(t *testing.T) {
	_, _, add := exampleCommands()
	for given, says := range map[string]string{
		"--nubmer=3":                    "unknown flag: --nubmer: did you mean --number?",
		"--frobnicate":                  "unknown flag: --frobnicate; see 'prog key add --help'",
		"-x":                            "unknown shorthand flag: 'x' in -x; see 'prog key add --help'",
		"--number=x":                    `--number "x": write a whole number; see 'prog key add --help'`,
		"--number=9e99":                 `--number "9e99": write a whole number; see 'prog key add --help'`,
		"--number=99999999999999999999": `--number "99999999999999999999": write a smaller number; see 'prog key add --help'`,
		"--share=x":                     `--share "x": write a number; see 'prog key add --help'`,
		"--exact=maybe":                 `--exact "maybe": write yes or no, or nothing; see 'prog key add --help'`,
		"--name":                        "flag needs an argument: --name; see 'prog key add --help'",
	} {
		err := add.ParseFlags([]string{given})
		require.Error(t, err, given)
		require.EqualError(t, (&app{}).flagError(add, err), says)
	}
}
