package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// allFlag asks for the long form of a help text. It is hidden: the short form names it.
const allFlag = "all"

// allowsAll is the annotation of the command to which allFlag belongs without --help.
const allowsAll = "help-all"

// plainWidth is how wide help is where it is not printed on a terminal.
const plainWidth = 80

// setHelp installs the help texts of root and of the commands below it.
func (a *app) setHelp(root *cobra.Command) {
	root.PersistentFlags().Bool(allFlag, false, "with --help: list all flags")
	_ = root.PersistentFlags().MarkHidden(allFlag)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		f := c.Flags().Lookup(allFlag)
		if f == root.PersistentFlags().Lookup(allFlag) && f.Changed && c.Annotations[allowsAll] == "" {
			return usagef("--%s goes with --help; see '%s --help'", allFlag, c.CommandPath())
		}
		return nil
	}
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		_ = help.Write(a.Out, c, a.width(), wantsAll(root.PersistentFlags()) || wantsAll(c.Flags()))
	})
}

// wantsAll reports whether the command line requests the long form. A command may have a flag of that name itself.
func wantsAll(flags *pflag.FlagSet) bool {
	f := flags.Lookup(allFlag)
	return f != nil && f.Changed && f.Value.String() == "true"
}

// width returns the width of the terminal that help is printed on.
func (a *app) width() int {
	if f, ok := a.Out.(*os.File); ok && show.IsTerminal(f, "") {
		w, _ := show.TerminalSize(f)()
		return w
	}
	return plainWidth
}

// helpCommand is cobra's, except that an unknown command is a usage error.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "help [--all] [COMMAND...]",
		Short:       "Help about any command",
		Annotations: map[string]string{allowsAll: "yes"},
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			switch {
			case len(rest) > 0:
				return unknownCommand(about, rest)
			case err != nil:
				return &usageError{err}
			}
			return about.Help()
		},
	}
}
