package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/hook"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/sourcesnap"
)

// The names of the commands, as options.
const (
	snapshotBegin = "snapshot-command"
	snapshotEnd   = "snapshot-end-command"
)

// freeze has the sources of a job read from snapshots of their file systems, if that is wanted. own are the folders that hold
// snapshots; end removes these, and its error concerns only them.
func (a *app) freeze(ctx context.Context, f *backupFlags, job *backup.Job) (own []string, end func() error, err error) {
	end = func() error { return nil }
	kind := a.spec.SourceSnapshot().Kind
	if kind == sourcesnap.Off || job.Stdin != nil {
		return nil, end, nil
	}
	if kind == sourcesnap.Hook && (f.dryRun || f.noHooks) {
		a.print.Note("the sources are read live: --dry-run and --no-hooks run no " + snapshotBegin)
		return nil, end, nil
	}
	maker, err := a.snapshotMaker(kind)
	switch {
	case errors.Is(err, sourcesnap.ErrSystem) && kind == sourcesnap.Auto:
		a.print.Note("the sources are read live: this system has no snapshots of file systems that tidemark can make")
		return nil, end, nil
	case errors.Is(err, sourcesnap.ErrSystem):
		return nil, end, usagef("--source-snapshot %s: %w", kind, err)
	case err != nil:
		return nil, end, err
	}
	s, err := sourcesnap.Take(ctx, maker, job.Label.Sources, kind == sourcesnap.Auto)
	if errors.Is(err, hook.ErrUnsafe) {
		return nil, end, &usageError{err}
	} else if err != nil && kind != sourcesnap.Hook {
		err = fmt.Errorf("%w; --source-snapshot auto reads such sources live", err)
	}
	if err != nil {
		return nil, end, err
	}
	for _, note := range s.Notes {
		a.print.Note(human.Printable(note))
	}
	if s.Any() {
		job.Source.Copied = s.Since
		job.Source.Root.ReadFrom(s.Place)
	}
	return s.Own(), sync.OnceValue(func() error { return s.Close(context.WithoutCancel(ctx)) }), nil
}

// snapshotMaker returns what makes the snapshots of file systems.
func (a *app) snapshotMaker(kind string) (sourcesnap.Maker, error) {
	if kind != sourcesnap.Hook {
		return sourcesnap.New(kind) //nolint:wrapcheck // the caller says what for
	}
	set := a.spec.SourceSnapshot()
	if set.Begin == "" {
		return nil, usagef("--source-snapshot hook needs --%s", snapshotBegin)
	}
	run := func(ctx context.Context, line, option, source, place string) (string, error) {
		r, err := hook.Run(ctx, hook.Command{
			Line: line, Timeout: a.spec.Job().Hooks.Timeout, OptionFile: a.spec.FileOf(option),
			Env: map[string]string{"TIDEMARK_SOURCE": source, "TIDEMARK_SNAPSHOT": place},
		})
		if err != nil {
			err = fmt.Errorf("%s: %w", option, err)
		}
		if option == snapshotEnd || err != nil {
			a.noteHook(option, r, nil)
		}
		return string(r.Output), err
	}
	c := &sourcesnap.Commands{Begin: func(ctx context.Context, source string) (string, error) {
		return run(ctx, set.Begin, snapshotBegin, source, "")
	}}
	if set.End != "" {
		c.End = func(ctx context.Context, source, place string) error {
			_, err := run(ctx, set.End, snapshotEnd, source, place)
			return err
		}
	}
	return c, nil
}
