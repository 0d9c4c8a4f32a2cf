package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/speedtest"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func (a *app) benchCommand() *cobra.Command {
	var dir string
	seconds := 2
	c := a.command(&cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of this machine and a disk at each I/O policy",
		Long: `Measures the steps of a backup, on one processor and on all: compressing, encrypting and decrypting, hashing,
and finding cut points. Then measures the disk of a directory: writing and flushing a file, reading it in order and at
random offsets. The two files take up to 64 MiB each, and 144 MiB must be free; they are removed at the end, also after
an interrupt.

Without --policy (or with auto) it measures important, standard, utility and throttle in turn. On an idle machine the
rates should hardly differ: any difference is what the policy costs when there is no other I/O to yield to.`,
		Example: `  tidemark bench
  tidemark bench --policy throttle --path /srv --seconds 10
  tidemark bench --path ''`,
	}, func(ctx context.Context, _ []string) error {
		return a.bench(ctx, speedtest.Config{Dir: dir, Time: time.Duration(seconds) * time.Second})
	}, options.GroupPolicy)
	c.Flags().StringVar(&dir, "path", ".", "measure the disk of this directory; empty: no disk")
	c.Flags().Var(options.Whole(&seconds, "write a number of seconds, at least 1"), "seconds",
		"approximate time to measure each policy, in seconds")
	return c
}

func (a *app) bench(ctx context.Context, c speedtest.Config) error {
	if io := a.spec.IO(); !io.Auto {
		c.Policies = []iopolicy.Policy{io.Policy}
	}
	a.applyPolicy(options.Attended)
	var pass *iopolicy.Pass
	if c.Dir != "" {
		pass = a.governor.Gate(nil, c.Dir)
	}
	c.Pass = func(p iopolicy.Policy) (*iopolicy.Pass, func()) {
		change, err := a.governor.Job.SetPolicy(p, 0)
		if err != nil {
			change.Notes = []string{err.Error()}
		}
		for _, note := range change.Notes {
			a.print.Note(note)
		}
		return pass, func() {}
	}
	results, err := speedtest.Run(ctx, c)
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
		device, medium := "", ""
		if result.What.Disk() {
			device, medium = a.governor.Gates().Device(pass)
		}
		if err := a.print.Print(output.Measurement(&result, first, device, medium)); err != nil {
			return err
		}
	}
	return nil
}
