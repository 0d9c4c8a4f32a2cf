// Package cli is the command line: flags in, exit code out. Every command has a file of its own, which reads its flags,
// calls one verb and prints what it returns. There is no logic here: what a command means is the verb's business, how a
// result looks is package output's, and which secret opens a repository is package unlock's.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/folders"
	"github.com/tidemark-backup/tidemark/internal/cli/heap"
	"github.com/tidemark-backup/tidemark/internal/cli/misuse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/cli/unlock"
	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
)

// Process is what the program gets from the system.
type Process struct {
	Args     []string // without the name of the program
	In       io.Reader
	Out, Err io.Writer
	Env      options.Env
}

// Main runs the program and returns its exit code.
func Main() int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	return Run(ctx, Process{Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv})
}

// Run executes one command and returns the exit code.
func Run(ctx context.Context, p Process) int {
	a := &app{Process: p, devices: device.NewFinder()}
	// Until the options are read, what is wrong with them is said in the form that was most likely asked for.
	a.print = output.Printer(output.NewText(p.Out, p.Err, output.TextOptions{}))
	if slices.Contains(p.Args, "--json") {
		a.print = output.NewJSON(p.Out, p.Err, false)
	}
	root := a.treeFor(p.Args)
	root.SetArgs(p.Args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	err := root.ExecuteContext(ctx)
	a.leave()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if err != nil && message(err) != "" {
		a.print.Fail(exitCode(err), message(err))
	}
	return exitCode(err)
}

// oneWish is how long further signals mean what the first one said: timeout(1) sends its own to the program and to the
// group that the program is in, and a terminal sends Ctrl-C to all who are to hand it on.
const oneWish = time.Second

// untilSignal returns a context that the first signal cancels. Another one kills, since by then signals have their usual
// effect again.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	usual := func() { signal.Stop(signals) }
	go obey(ctx, signals, cancel, usual)
	return ctx, func() { usual(); cancel(nil) }
}

// obey ends ctx at a signal, and lets signals have their usual effect a moment later.
func obey(ctx context.Context, signals <-chan os.Signal, cancel context.CancelCauseFunc, usual func()) {
	select {
	case <-signals:
		cancel(errInterrupted)
		time.AfterFunc(oneWish, usual)
	case <-ctx.Done():
	}
}

// app is one run of the program.
type app struct {
	Process
	spec     *options.Spec
	print    output.Printer
	received intake
	task     *task
	devices  *device.Finder // what the run knows of the devices that it meets
	ballast  *heap.Ballast  // keeps the memory bounded
	logon    *unlock.Logon  // nil: no share was asked for yet
	shares   []*smb.Store   // to be closed
}

// root is the program without its commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tidemark",
		Short:         "Back up directory trees, and get them back",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.unknownCommand(c, args[0])
			}
			return c.Help()
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{misuse.Flag(c, err)}
	})
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.helpCommand())
	completeOptions(root, options.Register(root.PersistentFlags(), options.GroupRepository, options.GroupKeys,
		options.GroupShare, options.GroupCache, options.GroupOutput))
	return root
}

// tree is the command line with all commands.
func (a *app) tree() *cobra.Command {
	root := a.root()
	for _, m := range a.commands() {
		root.AddCommand(m.make())
	}
	return root
}

// treeFor is the command line as far as args need it. All commands with their options are 2 ms of work, and a run makes
// use of one: so where the arguments name a command that knows nothing of the others, it is the only one there.
func (a *app) treeFor(args []string) *cobra.Command {
	makers := a.commands()
	root := a.root()
	names := &cobra.Command{Use: root.Use} // knows the names and the global options, and so which word is the command
	names.PersistentFlags().AddFlagSet(root.PersistentFlags())
	for _, m := range makers {
		names.AddCommand(&cobra.Command{Use: m.name, Args: cobra.ArbitraryArgs})
	}
	named, _, err := names.Find(args)
	for _, m := range makers {
		if err == nil && m.name == named.Name() && !m.whole {
			root.AddCommand(m.make())
			return root
		}
	}
	return a.tree()
}

// helpCommand is cobra's, except that a command which does not exist is a mistake.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			switch {
			case len(rest) > 0:
				return a.unknownCommand(about, rest[0])
			case err != nil:
				return &usageError{err}
			}
			return about.Help()
		},
	}
}

func (a *app) unknownCommand(c *cobra.Command, name string) error {
	if err := folders.Arguments(c, []string{name}); err != nil {
		return &usageError{err}
	}
	return &usageError{misuse.Command(c, name)}
}

// maker makes a command.
type maker struct {
	name  string
	make  func() *cobra.Command
	whole bool // the command looks at all of them
}

// commands are the makers of the commands, in the order of the help.
func (a *app) commands() []maker {
	return []maker{
		{name: "init", make: a.initCommand},
		{name: "backup", make: a.backupCommand},
		{name: "snapshots", make: a.snapshotsCommand},
		{name: "ls", make: a.lsCommand},
		{name: "find", make: a.findCommand},
		{name: "diff", make: a.diffCommand},
		{name: "dump", make: a.dumpCommand},
		{name: "restore", make: a.restoreCommand},
		{name: "check", make: a.checkCommand},
		{name: "stats", make: a.statsCommand},
		{name: "forget", make: a.forgetCommand},
		{name: "prune", make: a.pruneCommand},
		{name: "key", make: a.keyCommand},
		{name: "rules", make: a.rulesCommand},
		{name: "options", make: a.optionsCommand},
		{name: "policy", make: a.policyCommand},
		{name: "tier", make: a.tierCommand},
		{name: "run", make: a.runCommand},
		{name: "bench", make: a.benchCommand},
		{name: "target", make: a.targetCommand},
		{name: "version", make: a.versionCommand},
		{name: "completion", make: a.completionCommand, whole: true},
		{name: "man", make: a.manCommand, whole: true},
	}
}

const rootHelp = `tidemark backs up directory trees into an encrypted, deduplicating repository.

  tidemark backup DIR                     the first run makes the repository
  tidemark snapshots                      what there is
  tidemark restore latest --target DIR    get it back

Exit codes: 0 all well; 1 failed; 2 wrong usage; 3 a snapshot was made, some files failed;
10 no repository there; 12 wrong key; 130 interrupted.`
