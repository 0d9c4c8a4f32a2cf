package cli

import (
	"github.com/spf13/cobra"
)

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
