package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

func (a *app) keyCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "key",
		Short: "List, add and remove the keys that open the repository",
		Long: `Several keys can open a repository: passphrases, key files, and one recovery key. None of them encrypts the
data itself, so adding or removing one rewrites nothing.`,
	}, "list, add, remove or recovery", a.keyListCommand(), a.keyAddCommand(), a.keyRemoveCommand(),
		a.keyRecoveryCommand())
}

// withRepository calls do with the opened repository.
func (a *app) withRepository(ctx context.Context, do func(*repo.Repository) error) error {
	r, err := a.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(r), r.Close())
}

func (a *app) keyListCommand() *cobra.Command {
	return a.command(&cobra.Command{Use: "list", Short: "List the keys"},
		func(ctx context.Context, _ []string) error {
			return a.withRepository(ctx, func(r *repo.Repository) error {
				slots, err := r.Slots(ctx)
				if err != nil {
					return err
				}
				return a.print.Print(output.Keys(slots))
			})
		})
}

func (a *app) keyAddCommand() *cobra.Command {
	var fresh options.Keys
	var dry bool
	c := a.command(&cobra.Command{
		Use:   "add",
		Short: "Add a passphrase or a key file",
		Long:  `Adds a key. Without a flag that names one, the command asks for a passphrase twice.`,
		Example: `  tidemark key add
  tidemark key add --new-key-file /media/stick/backup.key`,
	}, func(ctx context.Context, _ []string) error {
		if several(fresh.PasswordFile != "", fresh.PasswordCommand != "", fresh.KeyFile != "") > 1 {
			return usagef("--new-password-file, --new-password-command and --new-key-file exclude each other: choose one")
		}
		return a.withRepository(ctx, func(r *repo.Repository) error {
			sources := a.place.Secrets()
			sources = &unlock.Sources{Keys: fresh, Ask: sources.Ask, DryRun: dry}
			secret, err := sources.Added(ctx)
			if err != nil {
				return err
			}
			if dry {
				if err := r.CheckNew(ctx, secret); err != nil {
					return err
				}
				return a.print.Print(output.DryRun("add a " + secret.Method.String()))
			}
			id, err := r.AddSlot(ctx, secret, label(), a.Stretch)
			if err != nil {
				return err
			}
			a.place.RememberKeys(ctx, r)
			return a.print.Print(output.KeyChange("added", id))
		})
	})
	c.Flags().StringVar(&fresh.PasswordFile, "new-password-file", "", "file whose first line is the new passphrase")
	c.Flags().StringVar(&fresh.PasswordCommand, "new-password-command", "", "command that prints the new passphrase")
	c.Flags().StringVar(&fresh.KeyFile, "new-key-file", "", "key file to add; created if it does not exist")
	dryRunFlag(c, &dry)
	return c
}

// dryRunFlag adds --dry-run.
func dryRunFlag(c *cobra.Command, dry *bool) {
	c.Flags().BoolVarP(dry, "dry-run", "n", false, "run all checks and report what would be done, but write nothing")
}

// several counts how many are given of flags that exclude each other.
func several(flags ...bool) (given int) {
	for _, one := range flags {
		if one {
			given++
		}
	}
	return given
}

func (a *app) keyRemoveCommand() *cobra.Command {
	var dry bool
	c := a.command(&cobra.Command{
		Use:   "remove [flags] ID",
		Short: "Remove a key",
		Long: `Removes a key, so that it no longer opens the repository. The key in use and the last one cannot be removed.

A copy of the key files made before the removal can still be opened with the removed key. With the ID of a key that is
gone, 'tidemark check' no longer reports it.`,
		Args: arguments(1, 1),
	}, func(ctx context.Context, args []string) error {
		return a.withRepository(ctx, func(r *repo.Repository) error {
			remove := r.RemoveSlot
			if dry {
				remove = r.Removable
			}
			id, err := remove(ctx, args[0])
			if errors.Is(err, repo.ErrNoKey) {
				id, err = a.place.ForgetKey(r, args[0], dry)
			}
			if err != nil {
				return err
			}
			if dry {
				return a.print.Print(output.DryRun("remove key " + id.Short()))
			}
			a.place.RememberKeys(ctx, r)
			a.noteWithoutRecovery(ctx, r)
			return a.print.Print(output.KeyChange("removed", id))
		})
	})
	dryRunFlag(c, &dry)
	return c
}

func (a *app) keyRecoveryCommand() *cobra.Command {
	var dry, confirm bool
	c := a.command(&cobra.Command{
		Use:   "recovery",
		Short: "Create a new recovery key, or confirm that it is stored",
		Long: `Creates a new recovery key and shows it once. Earlier recovery keys no longer open the repository.

To use a recovery key, enter it in place of a passphrase.

Until a recovery key is confirmed, each backup of the machine that showed it ends with a reminder. --confirm asks for
the last group of the key, or reads it from standard input. It changes nothing in the repository.`,
		Example: `  tidemark key recovery
  tidemark key recovery --confirm`,
	}, func(ctx context.Context, _ []string) error {
		if confirm {
			if dry {
				return usagef("--confirm writes nothing: leave out --dry-run")
			}
			return a.confirmRecovery(ctx)
		}
		return a.withRepository(ctx, func(r *repo.Repository) error {
			if dry {
				return a.dryRunRecovery(ctx, r)
			}
			text, err := r.RenewRecoveryKey(ctx, label())
			if text == "" {
				return err
			}
			// Also if an old key could not be removed: the new one is valid and exists nowhere else.
			a.place.RememberKeys(ctx, r)
			a.recordUnconfirmed(r.ID(), text)
			a.print.Show(output.RecoveryBlock(text))
			return errors.Join(err, a.print.Print(output.Recovery(r.ID(), text)))
		})
	})
	dryRunFlag(c, &dry)
	c.Flags().BoolVar(&confirm, "confirm", false, "confirm that the recovery key is stored: asks for its last group")
	return c
}

// dryRunRecovery reports the recovery keys that a new one would replace.
func (a *app) dryRunRecovery(ctx context.Context, r *repo.Repository) error {
	slots, err := r.Slots(ctx)
	if err != nil {
		return err
	}
	would := "create a new recovery key"
	for _, s := range slots {
		if s.Slot != nil && s.Slot.Method == keyfile.Recovery {
			would += ", remove key " + s.ID.Short()
		}
	}
	return a.print.Print(output.DryRun(would))
}
