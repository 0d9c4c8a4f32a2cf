package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

func (a *app) versionCommand() *cobra.Command {
	return a.command(&cobra.Command{Use: "version", Short: "Print the version"},
		func(context.Context, []string) error { return a.print.Print(versionRecord{}) })
}

// version is what the module system knows of this build.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

type versionRecord struct{}

// Text writes one line.
func (versionRecord) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "tidemark %s (%s, %s)\n", version(), runtime.Version(), system())
	return err
}

// Events returns the record.
func (versionRecord) Events() []any {
	return []any{&event.Version{Type: "version", Version: version(), GoVersion: runtime.Version(), GoOS: runtime.GOOS,
		GoArch: runtime.GOARCH}}
}
