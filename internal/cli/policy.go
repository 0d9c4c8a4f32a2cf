package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
)

func (a *app) policyCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "policy",
		Short: "Show the I/O policy of jobs",
	}, "show", a.policyShowCommand())
}

func (a *app) policyShowCommand() *cobra.Command {
	c := a.command(&cobra.Command{
		Use:   "show",
		Short: "Print the I/O policy and its numbers in effect",
		Long: `Prints the policy that a job would use, and the numbers of all policies under their names in the macOS kernel,
in the format of sysctl. With -v also the origin of each.

Set a number by its flag, in the option file by its name in capitals or not, or in the environment as TIDEMARK_ followed
by its name in capitals. All commands that read or write files take the flags; they are hidden there. They are for
experiments: with the defaults and --max-impact 0, jobs behave as the macOS kernel would make them.`,
		Example: `  tidemark policy show -v
  tidemark backup --lowpri-throttle-tier3-window-msecs 1000 ~
  tidemark backup --lowpri-throttle-enabled=0 ~`,
	}, func(context.Context, []string) error {
		return a.print.Print(output.Policy(a.spec.Policy(), a.spec.Output().Verbose > 0))
	}, options.GroupPolicy)
	// This command documents the flags.
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = false })
	return c
}
