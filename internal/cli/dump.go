package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

func (a *app) dumpCommand() *cobra.Command {
	var filter filterFlags
	var archive, target string
	c := a.command(&cobra.Command{
		Use:   "dump [flags] SNAPSHOT[:/PATH] [PATH]",
		Short: "Write a file, or a directory as an archive, to standard output",
		Long: `Writes a file of a snapshot to standard output as it was, or a directory as an archive with everything in it.
What the archive cannot hold is named on standard error.`,
		Example: `  tidemark dump latest /home/ann/notes.txt
  tidemark dump latest:/home/ann | tar -t
  tidemark dump --archive zip --target ann.zip latest /home/ann`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.snapshotArgs(1),
	}, func(ctx context.Context, args []string) (err error) {
		as := browse.Archive{}
		switch archive {
		case "tar":
		case "zip":
			as.Packing = browse.Zip
		default:
			return usagef("--archive %q: choose tar or zip", archive)
		}
		r, err := a.open(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		found, sub, err := findCertain(ctx, r, args[0], filter.filter())
		if err != nil {
			return err
		}
		if len(args) > 1 {
			sub = join(sub, args[1])
		}
		as.Users, as.Groups = found.Snapshot.Users, found.Snapshot.Groups
		as.Left = func(path string, err error) { a.print.Note(fmt.Sprintf("%s: %v", human.Printable(path), err)) }
		return a.into(target, func(w io.Writer) error {
			return browse.DumpAs(ctx, r, found.Snapshot.Tree, sub, as, w)
		})
	}, options.GroupPolicy)
	filter.register(c.Flags())
	c.Flags().StringVarP(&archive, "archive", "a", "tar", "form of a directory: tar or zip")
	c.Flags().StringVarP(&target, "target", "t", "", "write to this file instead")
	return c
}

// into has write write to a new file, or to standard output if none is named. A file that is not complete is removed.
func (a *app) into(target string, write func(io.Writer) error) error {
	if target == "" {
		buffered := bufio.NewWriterSize(a.Out, 1<<18)
		return errors.Join(write(buffered), buffered.Flush())
	}
	f, err := os.Create(target)
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	buffered := bufio.NewWriterSize(f, 1<<18)
	err = errors.Join(write(buffered), buffered.Flush(), f.Close())
	if err != nil {
		err = errors.Join(err, os.Remove(target))
	}
	return err
}
