package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// completionTimeout bounds the connection to a server during a shell completion.
const completionTimeout = 5 * time.Second

// complete registers the values that a shell offers for a flag.
func complete(c *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err) // an unknown flag, or a second registration: a bug
	}
}

// oneOf completes fixed words.
func oneOf(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// completeOptions completes the options with a fixed choice.
func completeOptions(c *cobra.Command, all []options.Option) {
	for _, o := range all {
		if o.Kind != options.Choice {
			continue
		}
		var words []string
		for _, choice := range o.Choices {
			word, _, _ := strings.Cut(choice, " ") // the rest are synonyms
			words = append(words, word)
		}
		complete(c, o.Name, oneOf(words...))
	}
}

// snapshotArgs completes snapshots for the first n arguments and files for others; n < 0: snapshots for all.
func (a *app) snapshotArgs(n int) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if n >= 0 && len(args) >= n {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return a.offerSnapshots(c), cobra.ShellCompDirectiveNoFileComp
	}
}

// offerSnapshots lists the snapshots if that needs neither a question nor a command of the user. On an error it offers
// nothing.
func (a *app) offerSnapshots(c *cobra.Command) []cobra.Completion {
	silent := &app{Process: a.Process, devices: a.devices}
	silent.In, silent.Out, silent.Err = strings.NewReader(""), io.Discard, io.Discard
	if silent.resolve(c) != nil || silent.spec.Keys().PasswordCommand != "" || silent.spec.Share().PasswordCommand != "" {
		return nil
	}
	defer silent.leave()
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := context.WithTimeout(ctx, completionTimeout)
	defer stop()
	st, err := silent.store(ctx)
	if err != nil {
		return nil
	}
	sources := silent.place.Secrets()
	sources.Ask = nil
	r, err := silent.place.OpenWith(ctx, st, sources)
	if err != nil {
		return nil
	}
	defer func() { _ = r.Close() }() // nothing was written
	all, err := r.Snapshots(ctx)
	if err != nil {
		return nil
	}
	offers := []cobra.Completion{cobra.CompletionWithDesc("latest", "the newest snapshot")}
	for _, s := range slices.Backward(all) {
		if s.Err == nil {
			offers = append(offers, cobra.CompletionWithDesc(s.ID.Short(),
				time.Unix(s.Snapshot.Time.Sec, 0).Format("2006-01-02 15:04")+
					" "+human.Printable(s.Snapshot.Host)+" "+human.Printable(strings.Join(s.Snapshot.Sources, " "))))
		}
	}
	return offers
}

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion {bash|zsh|fish|powershell}",
		Short: "Print a script that completes commands and flags in a shell",
		Example: `  tidemark completion bash > /etc/bash_completion.d/tidemark
  tidemark completion fish > ~/.config/fish/completions/tidemark.fish`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one shell: bash, zsh, fish or powershell")
			}
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(a.Out, true)
			case "zsh":
				return c.Root().GenZshCompletion(a.Out)
			case "fish":
				return c.Root().GenFishCompletion(a.Out, true)
			case "powershell":
				return c.Root().GenPowerShellCompletionWithDesc(a.Out)
			}
			return usagef("shell %q: choose bash, zsh, fish or powershell", args[0])
		},
	}
}
