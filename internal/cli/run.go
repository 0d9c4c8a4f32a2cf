package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/throttle"
	"github.com/tidemark-backup/tidemark/internal/throttle/priority"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

func (a *app) runCommand() *cobra.Command {
	var process int
	c := a.command(&cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a program under an I/O policy, or apply one to a process",
		Long: `Runs a program with the CPU priority and the disk scheduler priority of a policy. The exit code is that of the
program; 127 if it does not exist, 126 if it cannot be run, and 128 plus the signal number if a signal ended it.
'tidemark tier' shows it and can change its policy.

The program gets the whole environment, including TIDEMARK_PASSWORD and TIDEMARK_SMB_PASSWORD, since it may be tidemark
itself. Commands that a backup or a password option starts get it without these two.

-p applies the policy to a running process: to its threads and its future children. Process 1 is refused, since all
processes started later would inherit the policy.

These priorities work for any program. Only jobs of tidemark itself also pause while other processes use the disk.
Without --policy (or with auto) the policy is utility.`,
		Example: `  tidemark run --policy throttle -- make -j8
  tidemark run --policy utility -p 1234`,
		Args:        cobra.ArbitraryArgs,
		Annotations: map[string]string{takesAddress: "COMMAND"},
	}, func(ctx context.Context, args []string) error {
		p := a.spec.IO().Policy
		if a.spec.IO().Auto {
			p = iopolicy.Utility
		}
		switch {
		case process != 0 && len(args) > 0:
			return usagef("-p and a command exclude each other: choose one")
		case process == 1:
			return usagef("process 1 starts all others, and they would inherit the policy: name another process")
		case process != 0:
			return a.prioritize(process, p)
		case len(args) == 0:
			return usagef("name a command, or a process with -p: tidemark run --policy utility -- COMMAND ARGUMENT...")
		}
		return a.run(ctx, p, args)
	}, options.GroupPolicy)
	c.Flags().SetInterspersed(false) // the program's flags are its own
	// No repository is opened here, and -p is what it is elsewhere where programs are given a policy.
	c.Flags().String("password-file", "", "")
	c.Flags().Lookup("password-file").Hidden = true
	c.Flags().VarP(options.PID(&process), "pid", "p", "apply the policy to this process instead of running a command")
	return c
}

// prioritize applies a policy to a process.
func (a *app) prioritize(pid int, p iopolicy.Policy) error {
	applied, err := priority.ApplyTo(pid, p)
	if err != nil {
		return err
	}
	a.announce(pid, p, fmt.Sprintf("/proc/%d/cwd", pid)).Leave()
	return a.print.Print(output.Priority(pid, applied))
}

// run runs a program. It does not turn off the fetching of dataless files (priority.FetchNothing): the program is
// another one and may need them.
func (a *app) run(ctx context.Context, p iopolicy.Policy, argv []string) error {
	var running *priority.Process // keeps the state that a term began with
	known := &throttle.Announcement{}
	job := control.NewJob(p, control.Means{
		Show: func() event.Job { return event.Job{Job: "run"} },
		Apply: func(p iopolicy.Policy) ([]string, error) {
			applied, err := running.Apply(p)
			if err == nil {
				known.SetPolicy(p)
			}
			return applied.Notes, err
		},
		Note: a.print.Note, Silent: true,
	})
	stop := func() {}
	command := priority.Command{Argv: argv, Files: [3]*os.File{file(a.In), file(a.Out), file(a.Err)}}
	command.Started = func(pid int, applied priority.Applied) error {
		for _, note := range applied.Notes {
			a.print.Note(note)
		}
		known = a.announce(pid, p)
		var err error
		if running, err = priority.Other(pid); err != nil {
			return nil // it has ended
		}
		stop, _ = a.serve(ctx, job)
		return nil
	}
	defer a.ending.hold()()
	// The program handles signals itself: run passes them on and ends with the program.
	code, err := priority.Run(context.WithoutCancel(ctx), p, command)
	stop()
	known.Close() // the process is gone, and its entries with it
	if code == exitOK && err == nil {
		return nil
	}
	return &programError{code, err}
}

// announce publishes the policy of a process to the tidemark jobs on the same devices, so that they do not treat its
// I/O as foreign. Its devices are unknown: announce uses those of the working directory, the system, the home directory
// and the folder of temporary files.
func (a *app) announce(pid int, p iopolicy.Policy, places ...string) *throttle.Announcement {
	runtime, err := a.runtimeDir()
	if err != nil {
		return &throttle.Announcement{} // serving the socket says why
	}
	home, _ := a.Env("HOME")
	for _, place := range []string{".", "/", home, os.TempDir()} {
		if place != "" {
			places = append(places, place)
		}
	}
	known, err := throttle.Announce(runtime, pid, p, places...)
	if err != nil && !errors.Is(err, shared.ErrNoProcess) { // a short program has ended by now
		a.print.Note(err.Error())
	}
	return known
}

// file returns the file behind a stream, nil if there is none.
func file(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}

// programError is the exit code of a program, with an error if it could not be run.
type programError struct {
	code int
	err  error // nil: the program reported its error itself
}

func (e *programError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *programError) Unwrap() error { return e.err }
