package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/dsmc"
	"github.com/tidemark-backup/tidemark/internal/cli/elsewhere"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// dsmcName is the name of the command, and the name of the program that stands for it.
const dsmcName = "dsmc"

// The return codes of IBM's client.
const (
	dsmcSkipped = 4  // some files were not processed
	dsmcWarning = 8  // no file matches
	dsmcFailed  = 12 // everything else
)

// dsmcCode is exitCode in the return codes of IBM's client.
func dsmcCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errIncomplete), errors.Is(err, errNotRestored):
		return dsmcSkipped
	case errors.Is(err, errNoMatch):
		return dsmcWarning
	}
	return dsmcFailed
}

// code returns the exit code of an error for this run.
func (a *app) code(err error) int {
	if a.returnCodes {
		return dsmcCode(err)
	}
	return exitCode(err)
}

const dsmcHelp = `Understands commands of IBM's backup-archive client with their abbreviations, and so does the program
when it is called by the name dsmc:

    incremental [FILESPEC...]          back up the paths, or the DOMAIN of the option file (default: ALL-LOCAL)
    selective FILESPEC...              the same, reading every file again
    preview backup [FILESPEC...]       the same, without writing
    restore FILESPEC [DESTINATION]     restore from the newest backup of this host
    query backup FILESPEC...           list backup versions of files
    query filespace                    list the paths that were backed up
    query session                      show the repository
    query options, query inclexcl      as 'tidemark options' and 'tidemark rules list'
    schedule, query schedule           the state of the service, and 'tidemark job list'

Options: -subdir, -optfile, -servername; for backups -filelist, -absolute, -asnodename; for restore and query
-dateformat, -virtualnodename; for restore and query backup -pitdate, -pittime, -filesonly, -dirsonly; for query backup
-inactive; for restore -latest, -pick, -replace, -ifnewer, -preservepath; the options of the option file; and tidemark's
flags with two dashes. PRESCHEDULECMD and POSTSCHEDULECMD run around each backup. A backup includes subdirectories
unless -subdir=no is given, restore and query only with -subdir=yes or SUBDIR YES. Without -replace=all, or REPLACE ALL
in the option file, a restore keeps existing files; -replace=prompt asks once.

Return codes: 0 success; 4 some files were not processed; 8 no file matches; 12 failure.`

func (a *app) dsmcCommand() *cobra.Command {
	return &cobra.Command{
		Use:   dsmcName + " COMMAND [FILESPEC...] [-OPTION[=VALUE]...]",
		Short: "Understand commands of IBM's client",
		Long:  dsmcHelp,
		Example: `  tidemark dsmc incremental /home
  tidemark dsmc q ba '/home/ann/*' -su=yes -inactive
  ln -s $(command -v tidemark) ~/bin/dsmc`,
		DisableFlagParsing: true,
		Annotations:        map[string]string{takesAddress: "COMMAND"},
		RunE:               func(c *cobra.Command, args []string) error { return a.dsmc(c, args) },
	}
}

// dsmc runs a command line of IBM's client.
func (a *app) dsmc(c *cobra.Command, args []string) error {
	a.returnCodes = true
	command, err := dsmc.Parse(joinValues(c.Root(), args))
	if err != nil {
		return &usageError{err}
	}
	if !command.Supported {
		if theirs := elsewhere.Command(strings.Fields(command.Name), 1); theirs != "" {
			return usagef("dsmc: unsupported command %s", theirs)
		}
		return usagef("dsmc: %s is not supported", command.Name)
	}
	if command.Name == "help" {
		return c.Help()
	}
	if len(command.Ignored) > 0 && !slices.Contains(command.Flags, "--quiet") {
		a.print.Note("warning: options without meaning here: " + strings.Join(command.Ignored, ", "))
	}
	a.optionFile(command)
	ctx := c.Context()
	switch command.Name {
	case "incremental", "selective", "preview backup":
		return a.dsmcBackup(ctx, command)
	case "restore":
		return a.dsmcRun(ctx, command, a.dsmcRestore)
	case "query backup":
		return a.dsmcRun(ctx, command, a.dsmcVersions)
	case "query filespace":
		return a.dsmcRun(ctx, command, a.dsmcFilespaces)
	case "query session":
		return a.dsmcRun(ctx, command, a.dsmcSession)
	case "schedule":
		return a.dsmcRun(ctx, command, a.dsmcSchedule)
	case "query schedule":
		return a.execute(ctx, append([]string{"job", "list"}, command.Flags...))
	case "query inclexcl":
		if len(command.Args) > 0 {
			return a.execute(ctx, slices.Concat([]string{"rules", "explain"}, command.Flags, []string{"--"}, command.Args))
		}
		return a.execute(ctx, append([]string{"rules", "list"}, command.Flags...))
	}
	return a.execute(ctx, append([]string{"options"}, command.Flags...))
}

// joinValues makes one argument of each of tidemark's flags and its value, as IBM's client writes it: "-r X" and
// "--repo X" become "--repo=X".
func joinValues(root *cobra.Command, args []string) (all []string) {
	flags := root.PersistentFlags()
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(all, args[i:]...)
		}
		if len(arg) == 2 && arg[0] == '-' {
			if f := flags.ShorthandLookup(arg[1:]); f != nil {
				arg = "--" + f.Name
			}
		}
		if strings.HasPrefix(arg, "--") && takesNext(flags, arg) && i+1 < len(args) {
			i++
			arg += "=" + args[i]
		}
		all = append(all, arg)
	}
	return all
}

// optionFile adds the flags of the option file: -optfile, otherwise the file that DSM_CONFIG names.
func (a *app) optionFile(c *dsmc.Command) {
	file := c.Options["optfile"]
	if own, _ := a.Env("TIDEMARK_OPTIONS"); file == "" && own == "" {
		file, _ = a.Env("DSM_CONFIG")
	}
	if file != "" {
		c.Flags = append(c.Flags, "--option-file="+file)
	}
	if name := c.Options["servername"]; name != "" {
		c.Flags = append(c.Flags, "--server-name="+name)
	}
}

// execute runs a command of tidemark.
func (a *app) execute(ctx context.Context, args []string) error {
	return a.connect(a.treeFor(args), args).ExecuteContext(ctx)
}

// dsmcRun resolves the options and calls do.
func (a *app) dsmcRun(ctx context.Context, command *dsmc.Command, do func(context.Context, *dsmc.Command) error) error {
	root := a.root()
	run := func(ctx context.Context, _ []string) error {
		a.clientDefaults(command)
		return do(ctx, command)
	}
	root.AddCommand(a.command(&cobra.Command{Use: dsmcName}, run, backupGroups()...))
	return a.connect(root, append([]string{dsmcName}, command.Flags...)).ExecuteContext(ctx)
}

// clientDefaults adds the options of the option file that the command line lacks. A DATEFORMAT that names no layout,
// such as that of the locale, leaves the usual one. REPLACE PROMPT needs a terminal to ask on.
func (a *app) clientDefaults(command *dsmc.Command) {
	subdir, dateFormat, replace := a.spec.Client()
	if command.Options["subdir"] == "" && subdir {
		command.Options["subdir"] = "yes"
	}
	if _, err := dsmc.DateLayout(dateFormat); err == nil && command.Options["dateformat"] == "" {
		command.Options["dateformat"] = dateFormat
	}
	asks := strings.HasPrefix(strings.ToLower(replace), "p")
	if command.Options["replace"] == "" && (!asks || unlock.OpenTerminal(a.Err) != nil) {
		command.Options["replace"] = replace
	}
}

// dsmcBackup runs a backup. Without a file specification it saves the domain, by default all local file systems. A file
// system that is mounted below a path is left out, as IBM's client does.
func (a *app) dsmcBackup(ctx context.Context, command *dsmc.Command) error {
	args := []string{"backup"}
	if subdir := command.Options["subdir"]; subdir != "" {
		args = append(args, "--subdir="+subdir)
	}
	if command.Name == "selective" || command.Options["absolute"] != "" {
		args = append(args, "--force")
	}
	if command.Name == "preview backup" {
		args = append(args, "--dry-run")
	}
	if list := command.Options["filelist"]; list != "" {
		args = append(args, "--files-from-verbatim="+list)
	}
	if node := command.Options["asnodename"]; node != "" {
		args = append(args, "--host="+node)
	}
	specs, err := fileSpecs(command.Args)
	if err != nil {
		return err
	}
	var paths []string
	for _, s := range specs {
		sources, err := s.Sources(deep(command))
		if err != nil {
			return &usageError{err}
		}
		paths = append(paths, sources...)
	}
	switch {
	case len(paths) > 0 || command.Options["filelist"] != "":
		args = append(args, "--one-file-system")
	case command.Name == "selective":
		return usagef("dsmc: selective needs a file specification")
	default:
		a.allLocal = true
	}
	return a.execute(ctx, slices.Concat(args, command.Flags, []string{"--"}, paths))
}

// fileSpecs reads file specifications.
func fileSpecs(args []string) ([]dsmc.Spec, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find working directory: %w", err)
	}
	if wd, err = entered(wd + "/."); err != nil {
		return nil, err
	}
	var all []dsmc.Spec
	for _, arg := range args {
		if arg, err = walked(arg); err != nil {
			return nil, err
		}
		s, err := dsmc.ParseSpec(arg, wd)
		if err != nil {
			return nil, &usageError{err}
		}
		all = append(all, s)
	}
	return all, nil
}

// walked returns a file specification with ".." in its folder as the kernel walks it: see entered.
func walked(spec string) (string, error) {
	dir, name := path.Split(spec)
	if name == ".." {
		dir, name = spec, ""
	}
	if !slices.Contains(strings.Split(dir, "/"), "..") || strings.ContainsAny(dir, "{}") {
		return spec, nil
	}
	dir, err := entered(dir)
	if missing(err) { // files that are gone have their text only
		return spec, nil
	}
	return strings.TrimSuffix(dir, "/") + "/" + name, err
}

// dsmcHost returns the host whose backups are meant.
func dsmcHost(command *dsmc.Command) string {
	if node := command.Options["virtualnodename"]; node != "" {
		return node
	}
	return hostName()
}

// dsmcSnapshots returns the readable snapshots of the host until the moment of -pitdate, oldest first.
func (a *app) dsmcSnapshots(ctx context.Context, r *repo.Repository, command *dsmc.Command) ([]repo.Listed, error) {
	layout, err := dsmc.DateLayout(command.Options["dateformat"])
	if err != nil {
		return nil, &usageError{err}
	}
	date, clock := command.Options["pitdate"], command.Options["pittime"]
	if date == "" && clock != "" {
		date = time.Now().Format(time.DateOnly)
	}
	list, unread, err := a.readable(ctx, r, repo.Filter{Hosts: []string{dsmcHost(command)}})
	if err != nil {
		return nil, err
	}
	list = whole(list)
	if date == "" {
		if command.Name != "restore" || unread == 0 {
			return list, nil
		}
		if overwrite, _, err := overwriteOf(command); err != nil || overwrite != "never" { // newer files could be lost
			return nil, errors.Join(err, fmt.Errorf("the newest backup is uncertain, since %d cannot be read: give a date "+
				"with -pitdate, or leave -replace and -ifnewer out", unread))
		}
		a.warnAlways(fmt.Sprintf("the newest backup is uncertain, since %s cannot be read: 'tidemark check' shows what is "+
			"wrong", human.Plural(unread, "snapshot")))
		return list, nil
	}
	until, err := dsmc.ParseMoment(date, clock, layout)
	if err != nil {
		return nil, &usageError{err}
	}
	first := list
	list = slices.DeleteFunc(slices.Clone(list), func(s repo.Listed) bool {
		return s.Snapshot.Time.Sec > until.Unix()
	})
	if len(list) == 0 && len(first) > 0 {
		return nil, fmt.Errorf("%w: the first backup of host %s is of %s, which is after -pitdate", errNoMatch,
			dsmcHost(command), time.Unix(first[0].Snapshot.Time.Sec, 0).Format(layout+" 15:04:05"))
	}
	return list, nil
}

// dsmcFilespaces lists the paths that were backed up.
func (a *app) dsmcFilespaces(ctx context.Context, command *dsmc.Command) error {
	layout, err := dsmc.DateLayout(command.Options["dateformat"])
	if err != nil {
		return &usageError{err}
	}
	return a.withRepository(ctx, func(r *repo.Repository) error {
		list, err := a.dsmcSnapshots(ctx, r, command)
		if err != nil {
			return err
		}
		mounts, err := localfs.Mounts()
		if err != nil {
			a.print.Note("the types of file systems are unknown: " + err.Error())
		}
		found := map[string]time.Time{}
		for _, s := range list {
			for _, source := range s.Snapshot.Sources {
				found[source] = time.Unix(s.Snapshot.Time.Sec, 0)
			}
		}
		var spaces []output.FileSpace
		for name, last := range found {
			if len(command.Args) == 0 || slices.Contains(command.Args, name) {
				spaces = append(spaces, output.FileSpace{Path: event.NewPath(name), Last: last,
					Type: strings.ToUpper(cmp.Or(localfs.MountOf(filepath.Clean(name), mounts).Type, "unknown"))})
			}
		}
		if len(spaces) == 0 {
			return errNoMatch
		}
		slices.SortFunc(spaces, func(a, b output.FileSpace) int { return strings.Compare(a.Exact(), b.Exact()) })
		return a.print.Print(output.FileSpaces(spaces, layout))
	})
}

// dsmcSchedule shows the state of the service, which is the scheduler. Unless it is active, the run fails.
func (a *app) dsmcSchedule(ctx context.Context, _ *dsmc.Command) error {
	m, err := a.serviceManager()
	if err != nil {
		return err
	}
	a.print.Note("the service runs jobs by schedule, in place of 'dsmc schedule': 'tidemark job import FILE --schedule " +
		"daily' makes jobs of a dsm.sys, 'tidemark service install' starts it, and 'tidemark status' shows its runs")
	state, err := m.State(ctx)
	if err == nil {
		err = a.print.Print(output.Service(&state))
	}
	if err != nil {
		return fmt.Errorf("find the state of the service: %w", err)
	}
	if !slices.Contains([]string{"active", "loaded"}, state.Active) { // of systemd and of launchd
		return errors.New("the service is not active: no schedule is followed")
	}
	return nil
}

// dsmcSession shows the repository.
func (a *app) dsmcSession(ctx context.Context, command *dsmc.Command) error {
	return a.withRepository(ctx, func(*repo.Repository) error {
		at, err := a.place.Location()
		if err != nil {
			return err
		}
		return a.print.Print(output.Session(&output.SessionFields{Server: at.String(), Node: dsmcHost(command),
			User: userName(), Version: "tidemark " + version()}))
	})
}
