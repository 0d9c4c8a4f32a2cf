package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/bench"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func (a *app) benchCommand() *cobra.Command {
	var dir string
	seconds := 2
	c := a.command(&cobra.Command{
		Use:   "bench",
		Short: "Measure this machine at each policy: compressing, hashing, cutting, and a disk",
		Long: `Measures what a backup is made of, on one processor and on all: compressing, opening and sealing, hashing, finding cut
points; and what the disk of a directory does: writing and flushing a file, reading it in order and at random places. There
are two files of up to 64 MiB, for which 144 MiB must be free; they are removed at the end, and when it is interrupted.

Without --policy (or with auto) at important, standard, utility and throttle in turn. On a machine where nothing else happens
the rates should hardly differ: that is what giving way costs when there is nobody to give way to.`,
		Example: `  tidemark bench
  tidemark bench --policy throttle --path /srv --seconds 10
  tidemark bench --path ''`,
	}, func(ctx context.Context, _ []string) error {
		return a.bench(ctx, bench.Config{Dir: dir, Time: time.Duration(seconds) * time.Second})
	}, options.GroupPolicy)
	c.Flags().StringVar(&dir, "path", ".", "directory whose disk is measured; empty for none")
	c.Flags().Var(&options.Whole{N: &seconds, Want: "write how long to measure each policy, in seconds, at least 1"}, "seconds", "how long to measure each policy, about")
	return c
}

func (a *app) bench(ctx context.Context, c bench.Config) error {
	if io := a.spec.IO(); !io.Auto {
		c.Policies = []iopolicy.Policy{io.Policy}
	}
	a.yield(options.Attended)
	var pass *iopolicy.Pass
	if c.Dir != "" {
		pass = a.gate(nil, c.Dir)
	}
	c.Pass = func(p iopolicy.Policy) (*iopolicy.Pass, func()) {
		notes, err := a.task.SetPolicy(p)
		if err != nil {
			notes = append(notes, err.Error())
		}
		for _, note := range notes {
			a.print.Note(note)
		}
		return pass, func() {}
	}
	results, err := bench.Run(ctx, c)
	if err != nil {
		return err
	}
	var seen []iopolicy.Policy
	for result, err := range results {
		if errors.Is(err, errInterrupted) {
			return fmt.Errorf("%w: %w", errMeasuring, err)
		}
		if err != nil {
			return err
		}
		first := !slices.Contains(seen, result.Policy)
		if first {
			seen = append(seen, result.Policy)
		}
		if err := a.print.Print(&output.Measurement{Result: result, First: first}); err != nil {
			return err
		}
	}
	return nil
}
