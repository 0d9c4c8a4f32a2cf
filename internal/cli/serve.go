package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/webdav"
)

func (a *app) serveCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "serve",
		Short: "Serve snapshots to other programs of this machine",
		Long:  `Serves snapshots to other programs of this machine.`,
	}, "webdav", a.serveWebDAVCommand())
}

// serveGrace is how long requests may go on at the end.
const serveGrace = time.Second

func (a *app) serveWebDAVCommand() *cobra.Command {
	var filter repo.Filter
	var port uint16
	c := a.command(&cobra.Command{
		Use:   "webdav [flags] [SNAPSHOT[:/PATH]]",
		Short: "Serve snapshots to file managers, read-only",
		Long: `Serves the tree of 'tidemark mount' by WebDAV until Ctrl-C, to programs of this machine that have the password.
It is printed and different each time. FUSE is not needed. Folders and files are served; links, devices and attributes
are not.`,
		Example: `  tidemark serve webdav
  tidemark serve webdav --port 8080 latest:/home/ann`,
		Args:              arguments(0, 1),
		ValidArgsFunction: a.snapshotArgs(1),
	}, func(ctx context.Context, args []string) error {
		a.place.Frames = mountFrames
		return a.withRepository(ctx, func(r *repo.Repository) error {
			root, err := a.rootOf(ctx, r, args, filter)
			if err != nil {
				return err
			}
			at, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				return fmt.Errorf("listen: %w; choose another --port", err)
			}
			password := rand.Text()
			server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: webdav.Handler(root, r.LoadBlob, password,
				func(path string, err error) { a.print.Note(fmt.Sprintf("%s: %v", human.Printable(path), err)) })}
			a.print.Show(fmt.Sprintf("Serving at http://%s/ as user %s with password %s. Press Ctrl-C to end.\n", at.Addr(),
				webdav.User, password))
			ended := make(chan error, 1)
			go func() { ended <- server.Serve(at) }()
			select {
			case err = <-ended:
				return fmt.Errorf("serve: %w", err)
			case <-ctx.Done():
			}
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveGrace)
			defer cancel()
			if server.Shutdown(ending) != nil {
				return server.Close()
			}
			return nil
		})
	}, options.GroupPolicy)
	filterFlags(c.Flags(), &filter)
	c.Flags().Uint16Var(&port, "port", 0, "port to listen at (default: a free one)")
	return c
}
