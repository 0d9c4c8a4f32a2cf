package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/service"
)

func (a *app) serviceCommand() *cobra.Command {
	return groupCommand(&cobra.Command{
		Use:   "service",
		Short: "Install the service in systemd or launchd",
		Long: `Has systemd (Linux) or launchd (macOS) run 'tidemark daemon': as root for the system, otherwise for the user,
without any other right. 'tidemark status' shows what the service does.`,
	}, "install, uninstall or status", a.serviceInstallCommand(), a.serviceUninstallCommand(), a.serviceStatusCommand())
}

func (a *app) serviceInstallCommand() *cobra.Command {
	var only bool
	c := a.command(&cobra.Command{
		Use:   "install [flags]",
		Short: "Start the service now and at boot or login",
		Long: `Writes a unit of systemd or a property list of launchd, and starts the service. The jobs of the option file
decide what it may do: on Linux, a service of the system writes only to the repositories, unless one is on a disk that
may be unmounted, or a job runs commands. Run it again after a change of repositories or commands.`,
		Example: `  tidemark service install
  sudo tidemark service install --option-file /etc/tidemark/tidemark.opt
  tidemark service install --print`,
	}, func(ctx context.Context, _ []string) error { return a.installService(ctx, only) })
	c.Flags().BoolVar(&only, "print", false, "print the unit or property list, and change nothing")
	return c
}

func (a *app) serviceUninstallCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:     "uninstall",
		Short:   "Stop the service and remove it",
		Long:    `Stops the service and removes its unit or property list. Jobs, record and repositories stay.`,
		Example: "  tidemark service uninstall",
	}, func(ctx context.Context, _ []string) error {
		m, err := a.serviceManager()
		if err != nil {
			return err
		}
		found, err := m.Uninstall(ctx)
		if err != nil {
			return fmt.Errorf("uninstall the service: %w", err)
		}
		if !found {
			a.print.Note("there is no service: nothing was changed")
		}
		return a.showService(ctx, m, found)
	})
}

func (a *app) serviceStatusCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "status",
		Short: "Show whether the service is installed and runs",
		Long: `Shows what systemd or launchd knows of the service. 'tidemark status' shows
its jobs.`,
		Example: "  tidemark service status",
	}, func(ctx context.Context, _ []string) error {
		m, err := a.serviceManager()
		if err != nil {
			return err
		}
		return a.showService(ctx, m, false)
	})
}

func (a *app) serviceManager() (service.Manager, error) {
	return service.New(os.Geteuid() == 0, a.Env)
}

// installService writes the definition of the service and starts it, or prints the definition.
func (a *app) installService(ctx context.Context, only bool) error {
	m, err := a.serviceManager()
	if err != nil {
		return err
	}
	c, err := a.serviceConfig()
	if err != nil {
		return err
	}
	text, err := m.Text(c)
	if err != nil {
		return usagef("the service cannot be described: %w", err)
	}
	if only {
		_, err := io.WriteString(a.Out, text)
		return err
	}
	changed, err := m.Install(ctx, text)
	if err != nil {
		return fmt.Errorf("install the service: %w", err)
	}
	for _, note := range a.serviceNotes(ctx, c, runtime.GOOS, service.EndsAtLogout()) {
		a.print.Note(note)
	}
	return a.showService(ctx, m, changed)
}

// serviceNotes says what a person has to do for a service that was just installed on a system, runtime.GOOS. user is
// whose logout ends the service, "" if none does.
func (a *app) serviceNotes(ctx context.Context, c *service.Config, system, user string) []string {
	switch {
	case system == "darwin":
		var found *event.Access
		if dir, err := a.runtimeDir(); err == nil {
			found = askAccess(ctx, control.Daemon(dir))
		}
		return adviceFor(found, c.Program, c.System)
	case !c.System && user != "":
		return []string{"the service ends when you log out: to keep it, run 'loginctl enable-linger " + user + "'"}
	}
	return nil
}

// serviceConfig returns what the service needs for the jobs of the option file.
func (a *app) serviceConfig() (*service.Config, error) {
	// Names of secrets stay names: the folder is that of the service, also where the shell has one of its own.
	env := a.Env
	a.Env = func(name string) (string, bool) {
		if name == options.CredentialsDir {
			return "", false
		}
		return env(name)
	}
	defer func() { a.Env = env }()
	all, invalid, path, err := a.definedJobs()
	if err != nil {
		return nil, err
	}
	for _, one := range invalid {
		a.print.Note("warning: the service will not run job " + one.Name + ": " + one.Err.Error())
	}
	if len(all) == 0 {
		return nil, usagef("there is no job: add one with 'tidemark setup' or 'tidemark job add'")
	}
	c := &service.Config{System: os.Geteuid() == 0, OptionFile: path}
	if c.Program, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	mounts, err := localfs.Mounts()
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	for _, j := range all {
		c.Add(j, mounts)
	}
	return c, nil
}

// showService prints the state of the service.
func (a *app) showService(ctx context.Context, m service.Manager, changed bool) error {
	state, err := m.State(ctx)
	if err != nil {
		return fmt.Errorf("ask for the state of the service: %w", err)
	}
	state.Changed = changed
	return a.print.Print(output.Service(&state))
}
