package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

type checkFlags struct {
	readData, withoutKey bool
	subset               string
	parallel             int
}

func (a *app) checkCommand() *cobra.Command {
	f := &checkFlags{}
	var c *cobra.Command
	c = a.command(&cobra.Command{
		Use:   "check [flags]",
		Short: "Find out whether the repository is whole",
		Long: `Checks that every snapshot can be read and that everything it needs is there. --read-data reads all data back and
compares it with its IDs, --read-data-subset a part: a share by chance (5%), a fixed part (3/10: ten runs with 1/10 to
10/10 read everything once), or an amount (500M).

--without-key needs no key, so the machine that holds the repository can run it: it compares every stored file with its
name. What it cannot see is a file that is missing.

The repository and the local cache are not changed.`,
		Example: `  tidemark check --read-data-subset 1/7
  tidemark check --without-key --repo /srv/backup`,
	}, func(ctx context.Context, _ []string) error {
		if f.subset == "" && c.Flags().Changed("read-data-subset") {
			return usagef("--read-data-subset: it is empty: write a share (5%%), a fixed part (3/10) or an amount (500M)")
		}
		if err := together(f.parallel); err != nil {
			return err
		}
		return a.check(ctx, f)
	}, options.GroupPolicy)
	c.Flags().BoolVar(&f.readData, "read-data", false, "read all data back")
	c.Flags().StringVar(&f.subset, "read-data-subset", "", "read a part of the data back: 5%, 3/10 or 500M")
	c.Flags().BoolVar(&f.withoutKey, "without-key", false, "compare stored files with their names; needs no key")
	c.Flags().IntVar(&f.parallel, "parallel", 0, "stored files looked at together (default 4)")
	return c
}

func (a *app) check(ctx context.Context, f *checkFlags) error {
	opt := check.Options{ReadData: f.readData, Parallel: f.parallel}
	if f.subset != "" {
		var err error
		if opt.Subset, err = check.ParseSubset(f.subset); err != nil {
			return &usageError{fmt.Errorf("--read-data-subset: %w", err)}
		}
		if f.readData {
			return usagef("--read-data and --read-data-subset exclude each other: choose one")
		}
		opt.ReadData = true
	}
	if f.withoutKey && opt.ReadData {
		return usagef("--without-key reads every stored file already: leave out --read-data and --read-data-subset")
	}
	l := report.NewJob(report.Check, time.Now)
	a.received.book(l)
	defer a.expose(ctx, "check", nil, l)()
	result, err := a.runCheck(ctx, f, opt, l)
	if result != nil {
		end := &output.Check{Ledger: l, Result: result, Halfway: err != nil, Verbose: a.spec.Output().Verbose > 0}
		for _, p := range result.Problems {
			err = errors.Join(err, a.print.Print(&output.Problem{Problem: &p}))
		}
		for _, note := range result.Notes {
			a.print.Note(note)
		}
		err = errors.Join(err, a.print.Tell(end))
	}
	if err == nil && !result.OK() {
		err = fmt.Errorf("the repository is damaged: %s found", human.Plural(uint64(len(result.Problems))+result.More, "problem"))
	}
	return err
}

func (a *app) runCheck(ctx context.Context, f *checkFlags, opt check.Options, l *report.Ledger) (*check.Result, error) {
	if f.withoutKey {
		st, err := a.store(ctx)
		if err != nil {
			return nil, err
		}
		defer a.print.Watch(ctx, l)()
		return check.WithoutKey(ctx, st, f.parallel, l)
	}
	r, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer a.print.Watch(ctx, l)()
	result, err := check.Run(ctx, r, opt, l)
	if err == nil {
		l.Phase(report.Done)
	}
	return result, errors.Join(err, r.Close())
}
