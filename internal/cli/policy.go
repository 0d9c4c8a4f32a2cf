package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
)

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Show how jobs give way to others",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.unknownCommand(c, args[0])
			}
			return usagef("say what to do: show; see 'tidemark policy --help'")
		},
	}
	c.AddCommand(a.policyShowCommand())
	return c
}

func (a *app) policyShowCommand() *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "show",
		Short: "Print the I/O policy and its numbers, as they are in effect",
		Long: `Prints which policy a job would follow, and the numbers of all policies under the names they have in the kernel of
macOS, as its sysctl prints them. With -v also where each comes from.

A number is set by its flag, in the option file by its name in capitals or not, or in the environment as TIDEMARK_ and its
name in capitals. The flags are those of every command that reads or writes files, and are left out of their help. They are
for experiments: with the defaults, jobs behave as the kernel makes them behave there.`,
		Example: `  tidemark policy show -v
  tidemark backup --lowpri-throttle-tier3-window-msecs 1000 ~
  tidemark backup --lowpri-throttle-enabled=0 ~`,
	}, func(context.Context, []string) error {
		return a.print.Print(&output.Policy{List: a.spec.Policy(), Origins: a.spec.Output().Verbose > 0})
	}, options.GroupPolicy)
	// This is where they are documented.
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = false })
	return c
}
