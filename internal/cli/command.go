package cli

import (
	"context"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/folders"
	"github.com/tidemark-backup/tidemark/internal/cli/heap"
	"github.com/tidemark-backup/tidemark/internal/cli/misuse"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
)

// runner is what a command does once the options are known.
type runner func(ctx context.Context, args []string) error

// command completes c: it takes the option groups named beside the global ones, and runs do with the options resolved.
func (a *app) command(c *cobra.Command, do runner, groups ...options.Group) *cobra.Command {
	if len(groups) > 0 {
		completeOptions(c, options.Register(c.Flags(), groups...))
	}
	if c.Args == nil {
		c.Args = cobra.NoArgs
	}
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if err := folders.Arguments(c, args); err != nil {
			return &usageError{err}
		}
		if err := misuse.Arguments(c, check, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := a.resolve(c); err != nil {
			return err
		}
		return do(c.Context(), args)
	}
	return c
}

// resolve reads the options and chooses the form of the output.
func (a *app) resolve(c *cobra.Command) error {
	if err := folders.Flags(c.Flags()); err != nil {
		return &usageError{err}
	}
	spec, warnings, err := options.Resolve(c.Flags(), a.Env, os.ReadFile)
	if err != nil {
		return err
	}
	if err := folders.Options(spec.Files()); err != nil {
		return &usageError{err}
	}
	a.spec = spec
	a.task = newTask(spec.IO())
	out := spec.Output()
	if out.JSON {
		a.print = output.NewJSON(a.Out, a.Err, out.Quiet)
	} else {
		term, _ := a.Env("TERM")
		a.print = output.NewText(a.Out, a.Err, output.TextOptions{Quiet: out.Quiet, Verbose: out.Verbose,
			Interval: out.Interval, Term: term})
	}
	a.warn(warnings)
	a.boundMemory()
	return nil
}

func (a *app) warn(warnings []options.Warning) {
	for _, w := range warnings {
		a.print.Note("warning: " + w.String())
	}
}

// What the program needs beside the buffers of --memory, in bytes: stacks, the directories under way, index and cache
// pages; and for each processor a compressor with its tables, its history and its output. A runtime that may have more
// keeps a tenth of all that is in use, ballast too, as free pages.
const (
	besideBuffers = 36 << 20
	perProcessor  = 4 << 20
)

// boundMemory makes the garbage collector work harder as the program comes near its budget.
func (a *app) boundMemory() {
	a.ballast = heap.Bound(a.spec.Parallel(1, options.Media{}).Memory + besideBuffers + int64(runtime.NumCPU())*perProcessor)
}
