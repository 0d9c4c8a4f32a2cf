package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/folders"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/gatehouse"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/priority"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

func (a *app) runCommand() *cobra.Command {
	var process int
	c := a.command(&cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a program under an I/O policy, or give one to a process",
		Long: `Runs a program with the priority for the processor and for the disk's scheduler that belongs to a policy, and ends with
its exit code; 127 if there is no such program, 126 if it cannot be run, and 128 and its number if a signal ended it.
'tidemark tier' shows it and changes its policy while it runs.

With -p it gives the policy to a process that runs already: its threads, and the children it will have. Process 1 is refused,
which starts all others.

This is what the system can do for any program. Sleeping while others use the disk is for jobs of tidemark itself. Without
--policy (or with auto) the policy is utility.`,
		Example: `  tidemark run --policy throttle -- make -j8
  tidemark run --policy utility -p 1234`,
		Args:        cobra.ArbitraryArgs,
		Annotations: map[string]string{folders.TakesAddress: "COMMAND"},
	}, func(ctx context.Context, args []string) error {
		p := a.spec.IO().Policy
		if a.spec.IO().Auto {
			p = iopolicy.Utility
		}
		switch {
		case process != 0 && len(args) > 0:
			return usagef("-p and a command exclude each other: choose one")
		case process == 1:
			return usagef("process 1 starts all others, and each of them would keep the policy from then on: name the one that is to have it")
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
	c.Flags().VarP(options.PID(&process), "pid", "p", "give the policy to this process instead of running a command")
	return c
}

// prioritize gives a policy to a process.
func (a *app) prioritize(pid int, p iopolicy.Policy) error {
	applied, err := priority.ApplyTo(pid, p)
	if err != nil {
		return err
	}
	if err := a.announce(pid, p, fmt.Sprintf("/proc/%d/cwd", pid)).Leave(); err != nil {
		a.print.Note(err.Error())
	}
	return a.print.Print(&output.Priority{PID: pid, Applied: applied})
}

// run runs a program.
func (a *app) run(ctx context.Context, p iopolicy.Policy, argv []string) error {
	job := &program{policy: p}
	stop := func() {}
	command := priority.Command{Argv: argv, Files: [3]*os.File{file(a.In), file(a.Out), file(a.Err)}}
	command.Started = func(pid int, applied priority.Applied) error {
		for _, note := range applied.Notes {
			a.print.Note(note)
		}
		job.pid, job.known = pid, a.announce(pid, p)
		stop = a.serve(ctx, job, func() {})
		return nil
	}
	// A signal is the program's to obey: it gets those that come here, and we end when it does.
	code, err := priority.Run(context.WithoutCancel(ctx), p, command)
	stop()
	_ = job.known.Close() // the process is gone, and its entries with it
	if code == exitOK && err == nil {
		return nil
	}
	return &programError{code, err}
}

// announce tells jobs of tidemark that use the same devices what policy a program has, so that they do not take it for a
// stranger. Where it will do its I/O is not known: on the devices of this folder, of the system, and of the user.
func (a *app) announce(pid int, p iopolicy.Policy, places ...string) *gatehouse.Announcement {
	runtime, err := a.runtimeDir()
	if err != nil {
		return &gatehouse.Announcement{} // serving the socket says why
	}
	home, _ := a.Env("HOME")
	for _, place := range []string{".", "/", home, os.TempDir()} {
		if place != "" {
			places = append(places, place)
		}
	}
	known, err := gatehouse.Announce(runtime, pid, p, places...)
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

// program is a program that was started, as its socket shows and changes it.
type program struct {
	pid    int
	known  *gatehouse.Announcement
	mu     sync.Mutex
	policy iopolicy.Policy
}

// Status tells the policy.
func (p *program) Status() control.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return control.Status{Job: "run", Policy: p.policy.String()}
}

// SetPolicy gives the program another policy.
func (p *program) SetPolicy(to iopolicy.Policy) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	applied, err := priority.ApplyTo(p.pid, to)
	if err == nil {
		p.policy = to
		p.known.SetPolicy(to)
	}
	return applied.Notes, err
}

// programError is the exit code of a program that was run, and perhaps why it could not be.
type programError struct {
	code int
	err  error // nil: it has said itself what went wrong
}

func (e *programError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *programError) Unwrap() error { return e.err }
