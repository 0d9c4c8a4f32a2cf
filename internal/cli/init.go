package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
)

func (a *app) initCommand() *cobra.Command {
	var dry bool
	c := a.command(&cobra.Command{
		Use:   "init",
		Short: "Make a repository",
		Long: `Makes a repository at the place that --repo names, or at the default place.

It is opened by the passphrase or key file that the options name. Without one you are asked for a passphrase; if there
is no terminal, or the passphrase is empty, a key file of this machine is made under ~/.config/tidemark/keys and found
again by itself. A recovery key is shown once: it opens the repository on any machine. Print it.

--key-file makes the key file if it does not exist.`,
		Example: `  tidemark init
  tidemark init --repo /mnt/disk/backup --password-file ~/secret
  tidemark init --repo smb://me@nas/backup/laptop --smb-password-file ~/nas-password`,
	}, func(ctx context.Context, _ []string) error {
		if dry {
			return a.rehearseInit(ctx)
		}
		r, err := a.create(ctx, true)
		if err != nil {
			return err
		}
		return r.Close()
	})
	dryRunFlag(c, &dry)
	return c
}

// rehearseInit does what create does up to the first thing that is written.
func (a *app) rehearseInit(ctx context.Context) error {
	at, err := a.place()
	if err != nil {
		return err
	}
	if err := a.requireNone(ctx, at); err != nil {
		return err
	}
	if !at.onShare() { // on a share, only writing tells
		if err := writable(at.folder); err != nil {
			return fmt.Errorf("make repository at %s: %w", at, err)
		}
	}
	sources := a.secrets()
	sources.DryRun = true
	secrets, err := sources.Create(ctx, true)
	if err != nil {
		return fmt.Errorf("make repository at %s: %w", at, err)
	}
	r, _, err := repo.Init(ctx, mem.New(), repo.InitOptions{Secrets: secrets.Secrets, Recovery: true, Label: label(),
		Chunker: chunking(), Open: repo.OpenOptions{NoCache: true}})
	if err != nil {
		return err
	}
	would := "make a repository at " + at.String() + " that is opened by a recovery key"
	for _, secret := range secrets.Secrets {
		would += " or a " + secret.Method.String()
	}
	return errors.Join(r.Close(), a.print.Print(&output.DryRun{Would: would}))
}

// writable returns why a folder could not be made or written to.
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

// create makes the repository and tells about it. ask allows to ask for a passphrase.
func (a *app) create(ctx context.Context, ask bool) (_ *repo.Repository, err error) {
	at, err := a.place()
	if err != nil {
		return nil, err
	}
	sources := a.secrets()
	if err := a.requireNone(ctx, at); err != nil {
		return nil, err
	}
	secrets, err := sources.Create(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("make repository at %s: %w", at, err)
	}
	st, err := a.createPlace(ctx, at)
	if err != nil {
		secrets.Discard()
		return nil, fmt.Errorf("make repository at %s: %w", at, err)
	}
	r, made, err := repo.Init(ctx, st, repo.InitOptions{Secrets: secrets.Secrets, Recovery: true,
		Label: label(), Chunker: chunking(), Open: a.openOptions()})
	if err != nil {
		secrets.Discard()
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	// Whatever follows, the recovery key must be seen: it exists nowhere else.
	key, err := secrets.Keep(r.ID())
	result := &output.Created{ID: r.ID(), Place: at.String(), RecoveryKey: made.RecoveryKey, KeyFile: key}
	a.print.Show(result.Block())
	if printErr := a.print.Tell(result); printErr != nil || err != nil {
		return nil, errors.Join(err, printErr)
	}
	a.watchTarget(ctx, r.ID())
	return r, nil
}

// requireNone looks before anybody is asked for a passphrase in vain.
func (a *app) requireNone(ctx context.Context, at place) error {
	st, err := a.openPlace(ctx, at)
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = repo.Vacant(ctx, st)
	}
	if err != nil {
		return fmt.Errorf("make repository at %s: %w", at, err)
	}
	return nil
}

// imagine makes a repository in memory, for a dry run where there is none.
func (a *app) imagine(ctx context.Context) (*repo.Repository, error) {
	opt := a.openOptions()
	opt.NoCache, opt.CacheDir = true, ""
	r, _, err := repo.Init(ctx, mem.New(), repo.InitOptions{Recovery: true, Label: label(), Chunker: chunking(), Open: opt})
	return r, err
}

// chunking is what new repositories are made with.
func chunking() config.Chunker {
	p := chunker.DefaultParams()
	return config.Chunker{Algorithm: 1, Min: uint32(p.Min), Avg: uint32(p.Avg), Max: uint32(p.Max)}
}
