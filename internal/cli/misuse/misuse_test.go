package misuse

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func do(*cobra.Command, []string) {}

func program() (root, key, add *cobra.Command) {
	root = &cobra.Command{Use: "prog"}
	key = &cobra.Command{Use: "key"}
	add = &cobra.Command{Use: "add [flags] FILE", Run: do}
	add.Flags().Int("number", 0, "")
	add.Flags().Bool("exact", false, "")
	add.Flags().Float64("share", 0, "")
	add.Flags().StringP("name", "n", "", "")
	key.AddCommand(add, &cobra.Command{Use: "list", Run: do}, &cobra.Command{Use: "secret", Run: do, Hidden: true})
	root.AddCommand(key, &cobra.Command{Use: "backup", Run: do})
	return root, key, add
}

func TestCommand(t *testing.T) {
	root, key, add := program()
	require.EqualError(t, Command(root, "bakup"), `unknown command "bakup": did you mean backup?`)
	require.EqualError(t, Command(root, "kye"), `unknown command "kye": did you mean key?`)
	require.EqualError(t, Command(root, "frobnicate"), `unknown command "frobnicate"; see 'prog --help'`)
	require.EqualError(t, Command(key, "ad"), `unknown command "ad": did you mean add?`)
	require.EqualError(t, Command(key, "frobnicate"), `unknown command "frobnicate": 'prog key' has add, list; see 'prog key --help'`)
	require.EqualError(t, Command(key, "secrets"), `unknown command "secrets": 'prog key' has add, list; see 'prog key --help'`)
	require.EqualError(t, Command(add, "x"), `'prog key add' has no commands of its own, such as "x"; see 'prog key add --help'`)
}

func TestArguments(t *testing.T) {
	_, _, add := program()
	usage := ": prog key add [flags] FILE; see 'prog key add --help'"
	for _, c := range []struct {
		check cobra.PositionalArgs
		args  []string
		says  string
	}{
		{cobra.NoArgs, []string{"x", "y"}, `the argument "x" is one too many` + usage},
		{cobra.ExactArgs(1), []string{"x", "y"}, `the argument "y" is one too many` + usage},
		{cobra.ExactArgs(2), []string{"x"}, "an argument is missing" + usage},
		{cobra.ExactArgs(2), nil, "an argument is missing" + usage},
		{cobra.RangeArgs(1, 2), []string{"x", "y", "z"}, `the argument "z" is one too many` + usage},
		{cobra.MinimumNArgs(1), nil, "an argument is missing" + usage},
	} {
		require.EqualError(t, Arguments(add, c.check, c.args), c.says)
	}
	require.NoError(t, Arguments(add, cobra.ExactArgs(1), []string{"x"}))
}

func TestFlag(t *testing.T) {
	_, _, add := program()
	for given, says := range map[string]string{
		"--nubmer=3":                    "unknown flag: --nubmer: did you mean --number?",
		"--frobnicate":                  "unknown flag: --frobnicate; see 'prog key add --help'",
		"-x":                            "unknown shorthand flag: 'x' in -x; see 'prog key add --help'",
		"--number=x":                    `--number "x": write a whole number; see 'prog key add --help'`,
		"--number=9e99":                 `--number "9e99": write a whole number; see 'prog key add --help'`,
		"--number=99999999999999999999": `--number "99999999999999999999": write a smaller number; see 'prog key add --help'`,
		"--share=x":                     `--share "x": write a number; see 'prog key add --help'`,
		"--exact=maybe":                 `--exact "maybe": write true or false, or nothing; see 'prog key add --help'`,
		"--name":                        "flag needs an argument: --name; see 'prog key add --help'",
	} {
		err := add.ParseFlags([]string{given})
		require.Error(t, err, given)
		require.EqualError(t, Flag(add, err), says)
	}
}
