package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
)

func (a *app) initCommand() *cobra.Command {
	var dry, same bool
	sizes := chunker.DefaultParams()
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "init",
		Short: "Create a repository",
		Long: `Creates a repository at the location of --repo, or at the default location. The folder above that of --repo
must exist.

The passphrase or key file that the options name opens it. Without one, init asks for a passphrase; if there is no
terminal, or the passphrase is empty, it creates a key file for this machine in ~/.config/tidemark/keys, which later
commands find there. A recovery key is shown once; it opens the repository on any machine. Print it.

--key-file creates the key file if it does not exist.

--same-key takes the master key and the chunking parameters from the repository of --from-repo. Equal data then has the
same IDs in both: 'tidemark copy' between them reads and writes less, and data that is both copied and backed up
directly is stored once. Passphrases and key files stay separate. A user who can open either repository has the master
key of both.

--chunk-size is for repositories of large files. With twice the size, the index of large files is half as large, and
more is stored again where scattered parts of a file change. It cannot be changed later.`,
		Example: `  tidemark init
  tidemark init --repo /mnt/disk/backup --password-file ~/secret
  tidemark init --repo smb://me@nas/backup --smb-password-file ~/nas-password`,
	}, func(ctx context.Context, _ []string) error {
		if same && c.Flags().Changed("chunk-size") {
			return usagef("--chunk-size: --same-key takes the sizes of the other repository: leave one of the two out")
		}
		like, err := a.model(ctx, same)
		if err != nil {
			return err
		}
		var r *repo.Repository
		if dry {
			err = a.dryRunInit(ctx)
		} else {
			r, err = a.create(ctx, true, repo.InitOptions{Like: like, Chunks: sizes})
		}
		if like != nil {
			err = errors.Join(err, like.Close())
		}
		if err != nil || r == nil {
			return err
		}
		return r.Close()
	}, options.GroupFrom)
	c.Flags().BoolVar(&same, "same-key", false, "take the master key from the repository of --from-repo")
	average := func(p chunker.Params) string { return options.FormatSize(int64(p.Avg)) }
	c.Flags().Var(options.Flag(&sizes, "size", parseChunks, average), "chunk-size",
		"average size of chunks, a power of two from 16K to 4M")
	dryRunFlag(c, &dry)
	return c
}

// parseChunks reads the average size of chunks.
func parseChunks(text string) (chunker.Params, error) {
	n, err := options.ParseSize(text, 1)
	if err != nil || n < 16<<10 || n > 4<<20 || n&(n-1) != 0 {
		return chunker.Params{}, errors.New("write a power of two from 16K to 4M, such as 256K or 1M")
	}
	return chunker.Average(uint32(n)), nil
}

// model opens the repository whose master key the new one gets; nil without --same-key.
func (a *app) model(ctx context.Context, same bool) (*repo.Repository, error) {
	switch named := a.spec.Source().Repository().Location != ""; {
	case same && !named:
		return nil, usagef("--same-key: name the repository that has the key with --from-repo")
	case !same:
		return nil, nil
	}
	r, err := a.source().Open(ctx)
	return r, ofSource(err)
}

// dryRunInit does what create does, up to the first write.
func (a *app) dryRunInit(ctx context.Context) error {
	at, err := a.place.Location()
	if err != nil {
		return err
	}
	if err := a.requireNone(ctx, at); err != nil {
		return err
	}
	if err := a.requireParent(); err != nil {
		return err
	}
	if !at.OnServer() { // on a share, only a write shows whether it is allowed
		if err := writable(at.Folder); err != nil {
			return fmt.Errorf("create repository at %s: %w", at, err)
		}
	}
	sources := a.place.Secrets()
	sources.DryRun = true
	secrets, err := sources.Create(ctx, true)
	if err != nil {
		return fmt.Errorf("create repository at %s: %w", at, err)
	}
	r, _, err := repo.Init(ctx, mem.New(), repo.InitOptions{Secrets: secrets.Secrets, Params: a.Stretch, Recovery: true,
		Label: label(), Open: repo.OpenOptions{Cache: repo.CacheOptions{Temporary: true}}})
	if err != nil {
		return err
	}
	would := "create a repository at " + at.String() + " that is opened by a recovery key"
	for _, secret := range secrets.Secrets {
		would += " or a " + secret.Method.String()
	}
	return errors.Join(r.Close(), a.print.Print(output.DryRun(would)))
}

// writable returns why a folder cannot be created or written to.
func writable(path string) error {
	for {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path):
			path = filepath.Dir(path)
			continue
		case err == nil && !info.IsDir():
			err = fmt.Errorf("%s is not a folder", path)
		case err == nil:
			err = unix.Access(path, unix.W_OK|unix.X_OK)
		}
		if err != nil {
			return fmt.Errorf("write to %s: %w", path, err)
		}
		return nil
	}
}

// create creates the repository and shows its recovery key. ask allows a question for a passphrase. Of opt, Like and
// Chunks count.
func (a *app) create(ctx context.Context, ask bool, opt repo.InitOptions) (*repo.Repository, error) {
	if err := a.requireParent(); err != nil {
		return nil, err
	}
	return a.createWith(ctx, ask, opt, a.reveal)
}

// requireParent fails if the folder above a named repository in a local folder does not exist. It may be on a disk that
// is not mounted, and the repository would fill the disk of the system instead.
func (a *app) requireParent() error {
	at, err := a.place.Location()
	if err != nil || at.OnServer() || !a.spec.Repository().Named {
		return err
	}
	parent := filepath.Dir(at.Folder)
	if _, err := os.Stat(parent); !errors.Is(err, fs.ErrNotExist) {
		return nil // a repository that cannot be created is reported by what creates it
	}
	return fmt.Errorf("create repository at %s: there is no folder %s: mount the disk that has it, or make it with "+
		"'mkdir -p %[2]s'", at, human.Printable(parent))
}

// reveal shows a new repository and its recovery key.
func (a *app) reveal(made *output.Created) error {
	a.print.Show(output.RecoveryBlock(made.RecoveryKey))
	return a.print.Report(made)
}

// createWith is create, with a function that shows or keeps the recovery key.
func (a *app) createWith(ctx context.Context, ask bool, opt repo.InitOptions, reveal func(*output.Created) error) (
	_ *repo.Repository, err error) {
	at, err := a.place.Location()
	if err != nil {
		return nil, err
	}
	a.hintVariables() // a passphrase that is set under another name would not protect the repository
	sources := a.place.Secrets()
	if err := a.requireNone(ctx, at); err != nil {
		return nil, err
	}
	secrets, err := sources.Create(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("create repository at %s: %w", at, err)
	}
	opt.Secrets, opt.Params, opt.Recovery, opt.Label = secrets.Secrets, a.Stretch, true, label()
	r, recovery, err := a.place.Create(ctx, sources, opt)
	if err != nil {
		secrets.Discard()
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	// From here on the recovery key must be shown: it exists nowhere else.
	a.recordUnconfirmed(r.ID(), recovery)
	key, err := secrets.Keep(r.ID())
	result := &output.Created{ID: r.ID(), Place: at.String(), RecoveryKey: recovery, KeyFile: key}
	if showErr := reveal(result); showErr != nil || err != nil {
		return nil, errors.Join(err, showErr)
	}
	a.probeNewTarget(ctx, r.ID())
	return r, nil
}

// requireNone fails if a repository exists, before the user is asked for a passphrase. It warns of other files in a
// local folder.
func (a *app) requireNone(ctx context.Context, at location.Location) error {
	st, err := at.Open(ctx, a.place.Access(at))
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = repo.Vacant(ctx, st)
	}
	if err != nil {
		return fmt.Errorf("create repository at %s: %w", at, err)
	}
	if other := foreignEntry(at); other != "" {
		a.print.Note(fmt.Sprintf("warning: %s holds other files, such as %s: better give the repository its own folder", at,
			other))
	}
	return nil
}

// foreignEntry returns an entry of a local folder that does not belong to a repository, "" for none. It ignores hidden
// entries and those that file systems make.
func foreignEntry(at location.Location) string {
	if at.OnServer() {
		return ""
	}
	own := []string{"lost+found", "System Volume Information", "$RECYCLE.BIN"}
	own = slices.AppendSeq(own, store.Folders())
	entries, err := os.ReadDir(at.Folder)
	if err != nil {
		return "" // the repository cannot be created either, and that says why
	}
	for _, e := range entries {
		if name := e.Name(); name[0] != '.' && !slices.Contains(own, name) {
			return human.Printable(name)
		}
	}
	return ""
}
