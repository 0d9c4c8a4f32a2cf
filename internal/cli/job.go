package cli

import "github.com/spf13/cobra"

func (a *app) jobCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "job",
		Short: "Start, stop and pause the jobs of the service",
		Long:  `Starts, stops and pauses the jobs of the running service of this user. 'tidemark status' shows them.`,
	}, "start, stop, pause, resume or test-notify", append(a.steerCommands(), a.jobTestNotifyCommand())...)
}
