package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/buildinfo"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
)

// versionFlag is the flag of the root command that does what the version command does.
const versionFlag = "version"

func (a *app) versionCommand() *cobra.Command {
	return a.command(&cobra.Command{Use: "version", Short: "Print version, commit and platform"},
		func(context.Context, []string) error { return a.printVersion() })
}

func (a *app) printVersion() error { return a.print.Print(output.Version(buildinfo.Read())) }

// version returns the version of the build.
func version() string { return buildinfo.Read().Version }
