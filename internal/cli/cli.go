// Package cli is the command line: flags in, exit code out. Each command has a file of its own, which reads its flags,
// calls one verb and prints the result. Package output formats results. The repository is a place.Place, and a
// governor.Governor has the process follow its policy.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/help"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/governor"
	"github.com/tidemark-backup/tidemark/internal/hook"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// Process is the environment of the program.
type Process struct {
	Args     []string // without the name of the program
	In       io.Reader
	Out, Err io.Writer
	Env      options.Env
	Program  string         // path of the program, which supervises commands; "": they are not supervised
	Stretch  keyfile.Params // argon2id work of a new passphrase; zero: keyfile.DefaultParams
	ending   *ending        // nil: no signal ends the process
}

// Main runs the program and returns its exit code. New passphrases are stretched by argon2id with that work: the
// program takes keyfile.DefaultParams, its tests take less.
func Main(stretch keyfile.Params) int {
	args := os.Args[1:]
	if len(args) == 2 && args[0] == hook.SuperviseCommand {
		return hook.Supervise(args[1])
	}
	ctx, ending, stop := untilSignal(context.Background())
	defer stop()
	program, _ := os.Executable() // without it, commands are not supervised
	if filepath.Base(os.Args[0]) == dsmcName {
		args = append([]string{dsmcName}, args...)
	}
	code := make(chan int)
	go func() { // the first thread stays free for signals: see cmd/tidemark
		code <- Run(ctx, Process{Args: args, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv,
			Program: program, Stretch: stretch, ending: ending})
	}()
	return <-code
}

// Run executes one command and returns the exit code.
func Run(ctx context.Context, p Process) int {
	p.ending = cmp.Or(p.ending, &ending{})
	a := &app{Process: p, devices: device.NewFinder()}
	// Mistakes in the options are reported before the format is known: guess it from the arguments.
	a.print = output.Printer(output.NewText(p.Out, p.Err, output.TextOptions{}))
	if slices.Contains(p.Args, "--json") {
		a.print = output.NewJSON(p.Out, p.Err, false)
	}
	a.ending.onExit(a.endNow)
	root := a.treeFor(p.Args)
	widenSwitches(root)
	a.connect(root, p.Args)
	err := a.checkSpelling(root)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	a.leave()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if code := exitCode(err); code == exitNoRepo || code == exitWrongKey {
		a.hintVariables()
	}
	if err != nil && message(err) != "" {
		a.print.Fail(a.code(err), message(err), errors.Is(err, store.ErrNoSpace))
	}
	return a.code(err)
}

// connect gives a command line its arguments and the streams of the process.
func (a *app) connect(root *cobra.Command, args []string) *cobra.Command {
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	return root
}

// app is one run of the program.
type app struct {
	Process
	spec     *options.Spec
	print    output.Printer
	governor *governor.Governor // nil: the options are not read yet
	place    *place.Place       // of the repository; nil: likewise
	devices  *device.Finder     // devices seen in this run
	ballast  *sysinfo.Ballast   // must stay reachable: see sysinfo.LimitHeap
	hinted   bool               // hintVariables has printed
	before   time.Time          // of --as-of; zero: the repository as it is

	// Of the commands of IBM's client.
	returnCodes bool // exit codes and reports are those of IBM's client
	allLocal    bool // a backup without a path saves all local file systems if there is no DOMAIN
}

// root returns the root command without subcommands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tidemark",
		Short:         "Back up and restore directory trees",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args)
			}
			if show, err := c.Flags().GetBool(versionFlag); err != nil || !show {
				return c.Help()
			}
			if err := a.resolve(c); err != nil {
				return err
			}
			return a.printVersion()
		},
	}
	root.Flags().Bool(versionFlag, false, "print version, commit and platform")
	root.SetFlagErrorFunc(a.flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.helpCommand())
	a.setHelp(root)
	completeOptions(root, options.Register(root.PersistentFlags(), options.GroupRepository, options.GroupKeys,
		options.GroupShare, options.GroupCache, options.GroupOutput))
	return root
}

// tree returns the command line with all commands.
func (a *app) tree() *cobra.Command {
	root := a.root()
	for _, m := range a.commands() {
		root.AddCommand(m.command())
	}
	return root
}

// treeFor returns the command line with only the command that args name, since building all commands takes 2 ms.
// Commands that list the others get all of them.
func (a *app) treeFor(args []string) *cobra.Command {
	makers := a.commands()
	root := a.root()
	names := &cobra.Command{Use: root.Use} // finds the command among args: it has all names and the global flags
	names.PersistentFlags().AddFlagSet(root.PersistentFlags())
	for _, m := range makers {
		names.AddCommand(&cobra.Command{Use: m.name, Args: cobra.ArbitraryArgs})
	}
	named, _, err := names.Find(args)
	for _, m := range makers {
		if err == nil && m.name == named.Name() && !m.whole {
			root.AddCommand(m.command())
			return root
		}
	}
	return a.tree()
}

// maker builds a command.
type maker struct {
	name  string
	make  func() *cobra.Command
	whole bool // the command needs all others
	rare  bool // the short help of tidemark names it only
}

// command builds the command, marked if it is rare.
func (m maker) command() *cobra.Command {
	c := m.make()
	if m.rare {
		mark(c, help.RareCommand)
	}
	return c
}

// commands lists the commands in the order of the help.
func (a *app) commands() []maker {
	return []maker{
		{name: "setup", make: a.setupCommand},
		{name: "init", make: a.initCommand},
		{name: "backup", make: a.backupCommand},
		{name: "snapshots", make: a.snapshotsCommand},
		{name: "ls", make: a.lsCommand},
		{name: "find", make: a.findCommand},
		{name: "versions", make: a.versionsCommand},
		{name: "diff", make: a.diffCommand},
		{name: "dump", make: a.dumpCommand},
		{name: "mount", make: a.mountCommand},
		{name: "serve", make: a.serveCommand, rare: true},
		{name: "restore", make: a.restoreCommand},
		{name: "check", make: a.checkCommand},
		{name: "stats", make: a.statsCommand},
		{name: "analyze", make: a.analyzeCommand},
		{name: "forget", make: a.forgetCommand},
		{name: "prune", make: a.pruneCommand},
		{name: "tag", make: a.tagCommand, rare: true},
		{name: "rewrite", make: a.rewriteCommand, rare: true},
		{name: "copy", make: a.copyCommand, rare: true},
		{name: "repair", make: a.repairCommand, rare: true},
		{name: "daemon", make: a.daemonCommand},
		{name: "key", make: a.keyCommand},
		{name: "job", make: a.jobCommand},
		{name: "cache", make: a.cacheCommand, rare: true},
		{name: "rules", make: a.rulesCommand, rare: true},
		{name: "options", make: a.optionsCommand, rare: true},
		{name: "policy", make: a.policyCommand, rare: true},
		{name: "service", make: a.serviceCommand},
		{name: "status", make: a.statusCommand},
		{name: "accelerate", make: a.accelerateCommand, rare: true},
		{name: "tier", make: a.tierCommand},
		{name: "log", make: a.logCommand},
		{name: "run", make: a.runCommand, rare: true},
		{name: "bench", make: a.benchCommand, rare: true},
		{name: "target", make: a.targetCommand, rare: true},
		{name: "version", make: a.versionCommand, rare: true},
		{name: dsmcName, make: a.dsmcCommand, rare: true},
		{name: "completion", make: a.completionCommand, whole: true, rare: true},
		{name: "man", make: a.manCommand, whole: true, rare: true},
	}
}

const rootHelp = `tidemark backs up directory trees into an encrypted, deduplicating repository.
    tidemark setup                          choose what, where to and how gently
    tidemark backup DIR                     the first run creates the repository
    tidemark snapshots                      list the snapshots
    tidemark restore latest --target DIR    restore the newest one

Exit codes: 0 success; 1 failure; 2 wrong usage; 3 a snapshot was created but some files failed; 10 no repository; 12
wrong key; 130 interrupted.`
