package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/buildinfo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// versionFlag is the flag of the root command that does what the version command does.
const versionFlag = "version"

func (a *app) versionCommand() *cobra.Command {
	return a.command(&cobra.Command{Use: "version", Short: "Print version, commit and platform"},
		func(context.Context, []string) error { return a.printVersion() })
}

func (a *app) printVersion() error { return a.print.Print(versionRecord(buildinfo.Read())) }

// version returns the version of the build.
func version() string { return buildinfo.Read().Version }

type versionRecord buildinfo.Info

// Text writes one line.
func (v versionRecord) Text(w *show.Page) {
	source := ""
	if v.Commit != "" {
		source = v.Commit[:min(len(v.Commit), 12)]
		if v.Modified {
			source += "+modified"
		}
		source = "commit " + source + ", "
	}
	if !v.Date.IsZero() {
		source += v.Date.Format(time.DateOnly) + ", "
	}
	fmt.Fprintf(w, "tidemark %s (%srepository format %d, %s, %s/%s)\n", v.Version, source, v.Format, v.Go, v.OS, v.Arch)
}

// Events returns the record.
func (v versionRecord) Events() []any { return []any{event.Of("version", buildinfo.Info(v))} }
