package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/cli/unlock"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

func (a *app) keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "List, add and remove the keys that open the repository",
		Long: `A repository can be opened by any of several keys: passphrases, key files, and one recovery key. None of them is
the key that the data is encrypted with, so adding and removing them rewrites nothing.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.unknownCommand(c, args[0])
			}
			return usagef("say what to do: list, add, remove or recovery; see 'tidemark key --help'")
		},
	}
	c.AddCommand(a.keyListCommand(), a.keyAddCommand(), a.keyRemoveCommand(), a.keyRecoveryCommand())
	return c
}

// withRepository opens the repository for do.
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
				return a.print.Print(&output.Keys{Slots: slots})
			})
		})
}

func (a *app) keyAddCommand() *cobra.Command {
	var fresh options.Keys
	var dry bool
	c := a.command(&cobra.Command{
		Use:   "add",
		Short: "Add a passphrase or a key file",
		Long:  "Adds a key. Without a flag that names one, a passphrase is asked for, twice.",
		Example: `  tidemark key add
  tidemark key add --new-key-file /media/stick/backup.key`,
	}, func(ctx context.Context, _ []string) error {
		if several(fresh.PasswordFile, fresh.PasswordCommand, fresh.KeyFile) {
			return usagef("--new-password-file, --new-password-command and --new-key-file exclude each other: choose one")
		}
		return a.withRepository(ctx, func(r *repo.Repository) error {
			sources := a.secrets()
			sources = &unlock.Sources{Keys: fresh, Asker: sources.Asker, DryRun: dry}
			secret, err := sources.Added(ctx)
			if err != nil {
				return err
			}
			if dry {
				if err := r.CheckNew(ctx, secret); err != nil {
					return err
				}
				return a.print.Print(&output.DryRun{Would: "add a " + secret.Method.String()})
			}
			id, err := r.AddSlot(ctx, secret, label(), keyfile.Params{})
			if err != nil {
				return err
			}
			return a.print.Print(&output.KeyChange{Change: "added", ID: id})
		})
	})
	c.Flags().StringVar(&fresh.PasswordFile, "new-password-file", "", "file whose first line is the new passphrase")
	c.Flags().StringVar(&fresh.PasswordCommand, "new-password-command", "", "command that prints the new passphrase")
	c.Flags().StringVar(&fresh.KeyFile, "new-key-file", "", "key file to add; made if it does not exist")
	dryRunFlag(c, &dry)
	return c
}

// dryRunFlag gives a command that changes the repository a rehearsal.
func dryRunFlag(c *cobra.Command, dry *bool) {
	c.Flags().BoolVarP(dry, "dry-run", "n", false, "make all checks and say what would be done, but write nothing")
}

// several reports whether more than one is named.
func several(names ...string) bool {
	return len(slices.DeleteFunc(names, func(name string) bool { return name == "" })) > 1
}

func (a *app) keyRemoveCommand() *cobra.Command {
	var dry bool
	c := a.command(&cobra.Command{
		Use:   "remove [flags] ID",
		Short: "Remove a key",
		Long: `Removes a key, so that it no longer opens the repository. The key in use and the last one stay.

Whoever has copied the key slots before can still open such a copy with the removed key.`,
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, args []string) error {
		return a.withRepository(ctx, func(r *repo.Repository) error {
			if dry {
				id, err := r.Removable(ctx, args[0])
				if err != nil {
					return err
				}
				return a.print.Print(&output.DryRun{Would: "remove key " + id.Short()})
			}
			id, err := r.RemoveSlot(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print.Print(&output.KeyChange{Change: "removed", ID: id})
		})
	})
	dryRunFlag(c, &dry)
	return c
}

func (a *app) keyRecoveryCommand() *cobra.Command {
	var dry bool
	c := a.command(&cobra.Command{
		Use:   "recovery",
		Short: "Make a new recovery key",
		Long: `Makes a new recovery key and shows it once. Earlier recovery keys open the repository no longer.

To use a recovery key, give it wherever a passphrase is asked for.`,
	}, func(ctx context.Context, _ []string) error {
		return a.withRepository(ctx, func(r *repo.Repository) error {
			if dry {
				return a.rehearseRecovery(ctx, r)
			}
			text, err := r.RenewRecoveryKey(ctx, label())
			if text == "" {
				return err
			}
			// Also if an old one could not be removed: this one counts, and exists nowhere else.
			made := &output.Recovery{ID: r.ID(), Key: text}
			a.print.Show(made.Block())
			return errors.Join(err, a.print.Print(made))
		})
	})
	dryRunFlag(c, &dry)
	return c
}

// rehearseRecovery names the recovery keys that a new one would take the place of.
func (a *app) rehearseRecovery(ctx context.Context, r *repo.Repository) error {
	slots, err := r.Slots(ctx)
	if err != nil {
		return err
	}
	would := "make a new recovery key"
	for _, s := range slots {
		if s.Slot != nil && s.Slot.Method == keyfile.Recovery {
			would += ", remove key " + s.ID.Short()
		}
	}
	return a.print.Print(&output.DryRun{Would: would})
}
