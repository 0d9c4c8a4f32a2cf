package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

func (a *app) dumpCommand() *cobra.Command {
	var filter repo.Filter
	var archive, target string
	c := a.command(&cobra.Command{
		Use:   "dump [flags] SNAPSHOT[:/PATH] [PATH]",
		Short: "Write a file, or a directory as an archive, to standard output",
		Long: `Writes a file of a snapshot to standard output, or a directory as an archive with everything in it. What the
archive format cannot store is reported on standard error. A file whose content is not in the snapshot, because it could
not be read during the backup, is left out of the archive and reported, and the exit code is 1.

A tar archive contains ACLs in the form of GNU tar and bsdtar (extract with --acls), and sparse files in the form of GNU
tar.

On a terminal only text is shown: an archive or a binary file is refused. Name a file with --target, or use a pipe.

The file of --target is replaced when the output is complete; until then it stays as it is.`,
		Example: `  tidemark dump latest /home/ann/notes.txt
  tidemark dump latest:/home/ann | tar -t
  tidemark dump --archive zip --target ann.zip latest /home/ann`,
		Args:              arguments(1, 2),
		ValidArgsFunction: a.snapshotArgs(1),
	}, func(ctx context.Context, args []string) error {
		as := browse.Archive{}
		switch archive {
		case "tar":
		case "zip":
			as.Packing = browse.Zip
		default:
			return usagef("--archive %q: choose tar or zip", archive)
		}
		return a.withRepository(ctx, func(r *repo.Repository) error {
			found, sub, err := find(ctx, r, args[0], filter)
			if err != nil {
				return err
			}
			typed := sub
			if len(args) > 1 {
				typed, sub = cmp.Or(sub, args[1]), join(sub, args[1])
			}
			as.Users, as.Groups = found.Snapshot.Users, found.Snapshot.Groups
			missing := uint64(0)
			as.Left = func(path string, err error) {
				if errors.Is(err, browse.ErrNoContent) || errors.Is(err, browse.ErrPartial) {
					missing++
				}
				a.print.Note(fmt.Sprintf("%s: %v", human.Printable(path), err))
			}
			err = a.into(target, func(w io.Writer) error {
				return browse.DumpAs(ctx, r.LoadBlob, found.Snapshot.Tree, sub, as, w)
			})
			if errors.Is(err, errBinary) {
				return &usageError{errBinary}
			}
			err = withAbsolute(err, typed)
			if err == nil && missing > 0 {
				err = fmt.Errorf("the snapshot lacks the content of %s: the archive holds everything else",
					human.Plural(missing, "object"))
			}
			return err
		})
	}, options.GroupPolicy)
	filterFlags(c.Flags(), &filter)
	c.Flags().StringVarP(&archive, "archive", "a", "tar", "archive format of a directory: tar or zip")
	c.Flags().StringVarP(&target, "target", "t", "", "write to this file instead of standard output")
	a.pastFlag(c)
	return c
}

// into calls write with the file target, or with standard output. An existing regular file is replaced when the output
// is complete. A device or a pipe is written in place.
func (a *app) into(target string, write func(io.Writer) error) error {
	if target == "" {
		if f, ok := a.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return buffered(&textOnly{to: a.Out}, write)
		}
		return buffered(a.Out, write)
	}
	was, err := os.Stat(target)
	switch {
	case err == nil && !was.Mode().IsRegular():
		f, err := os.OpenFile(target, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("write archive: %w", err)
		}
		return errors.Join(buffered(f, write), f.Close())
	case err == nil: // perhaps by way of a link
		if target, err = filepath.EvalSymlinks(target); err != nil {
			return fmt.Errorf("write archive: %w", err)
		}
	}
	part := filepath.Join(filepath.Dir(target), fmt.Sprintf(".tidemark-%016x.part", rand.Uint64()))
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	err = buffered(f, write)
	if was != nil {
		err = errors.Join(err, f.Chmod(was.Mode().Perm()))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, target)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(part))
	}
	return err
}

// textOnly is a Writer for a terminal. It fails with errBinary if the first bytes are not text.
type textOnly struct {
	to    io.Writer
	begun bool
}

func (t *textOnly) Write(p []byte) (int, error) {
	if !t.begun && bytes.IndexByte(p, 0) >= 0 {
		return 0, errBinary
	}
	t.begun = true
	return t.to.Write(p)
}

func buffered(to io.Writer, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(to, 1<<18)
	return errors.Join(write(w), w.Flush())
}
