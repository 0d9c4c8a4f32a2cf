package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/buildinfo"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/manual"
)

// manCommand groups what concerns the manual. Packagers use the hidden command.
func (a *app) manCommand() *cobra.Command {
	return groupCommand(&cobra.Command{Use: "man", Short: "Install the man pages"}, "install",
		a.manInstallCommand(), a.manRoffCommand())
}

func (a *app) manInstallCommand() *cobra.Command {
	dir := ""
	c := &cobra.Command{
		Use:   "install",
		Short: "Install the man pages",
		Long: `Install the man pages of all commands into folder man1 of a manual: /usr/local/share/man for root, otherwise
~/.local/share/man. Packages of distributions bring the pages with them.`,
		Example: `  tidemark man install
  sudo tidemark man install --dir /opt/share/man`,
	}
	a.command(c, func(ctx context.Context, _ []string) error {
		if c.Flags().Changed("dir") && dir == "" {
			return usagef("--dir is empty: leave it out for the default folder")
		}
		if dir == "" {
			dir = manual.DefaultDir(a.Env, os.Geteuid())
		}
		if dir == "" {
			return usagef("the home directory is unknown: name a folder with --dir")
		}
		done, err := manual.Install(ctx, c.Root(), dir, buildinfo.Read().Date)
		if err != nil {
			return err
		}
		return a.print.Print(output.Manual(done))
	})
	c.Flags().StringVar(&dir, "dir", "", "install into folder man1 below this one")
	return c
}

func (a *app) manRoffCommand() *cobra.Command {
	c := &cobra.Command{Use: "roff DIR", Short: "Write the man pages into a folder", Hidden: true,
		Args: arguments(1, 1)}
	return a.command(c, func(_ context.Context, args []string) error {
		return manual.WriteRoff(c.Root(), args[0], buildinfo.Read().Date)
	})
}
