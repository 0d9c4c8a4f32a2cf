package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/hook"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/scope"
	"github.com/tidemark-backup/tidemark/internal/sourcesnap"
)

// The names of the commands, as options.
const (
	snapshotBegin = "snapshot-command"
	snapshotEnd   = "snapshot-end-command"
)

// freeze has the sources of a job read from snapshots of their file systems, if that is wanted. end removes the
// snapshots, and its error concerns only them.
func (a *app) freeze(ctx context.Context, f *backupFlags, job *backup.Job) (end func() error, err error) {
	end = func() error { return nil }
	kind := a.spec.SourceSnapshot()
	if kind == sourcesnap.Off || job.Stdin != nil {
		return end, nil
	}
	if kind == sourcesnap.Hook && (f.job.Session.DryRun || f.noHooks) {
		a.print.Note("the sources are read live: --dry-run and --no-hooks run no " + snapshotBegin)
		return end, nil
	}
	maker, err := a.snapshotMaker(kind)
	switch {
	case errors.Is(err, sourcesnap.ErrSystem) && kind == sourcesnap.Auto:
		a.print.Note("the sources are read live: this system has no snapshots of file systems that tidemark can make")
		return end, nil
	case errors.Is(err, sourcesnap.ErrSystem):
		return end, usagef("--source-snapshot %s: %w", kind, err)
	case err != nil:
		return end, err
	}
	s, err := sourcesnap.Take(ctx, maker, job.Label.Sources, kind == sourcesnap.Auto)
	if err != nil && kind != sourcesnap.Hook {
		err = fmt.Errorf("%w; --source-snapshot auto reads such sources live", err)
	}
	if err != nil {
		return end, err
	}
	for _, note := range s.Notes {
		a.print.Note(human.Printable(note))
	}
	end = sync.OnceValue(func() error {
		defer a.ending.hold()()
		return s.Close(context.WithoutCancel(ctx))
	})
	if !s.Any() {
		return end, nil
	}
	mounts, err := localfs.Mounts()
	if err != nil {
		return end, errors.Join(fmt.Errorf("list the mounts: %w", err), end())
	}
	for _, path := range localfs.Firmlinks(os.ReadFile) { // a snapshot of the system volume has empty folders there
		mounts = append(mounts, localfs.Mount{Path: path})
	}
	job.Source.Frozen = backup.NewFrozen(s.Since)
	for _, source := range job.Label.Sources {
		real := scope.Resolve(source) // that of a mount has no links
		for i := range mounts {
			if rest, below := strings.CutPrefix(mounts[i].Path, strings.TrimSuffix(real, "/")+"/"); below && rest != "" {
				job.Source.Frozen.Mount(filepath.Join(source, rest))
			}
		}
	}
	job.Source.Root.ReadFrom(s.Place)
	return end, nil
}

// snapshotMaker returns what makes the snapshots of file systems.
func (a *app) snapshotMaker(kind string) (sourcesnap.Maker, error) {
	if kind != sourcesnap.Hook {
		return sourcesnap.New(kind)
	}
	set := a.spec.Job().Hooks
	if set.BeginSource == "" {
		return nil, usagef("--source-snapshot hook needs --%s", snapshotBegin)
	}
	run := func(ctx context.Context, line, option, source, place string) (string, error) {
		r, err := hook.Run(ctx, hook.Command{
			Line: line, Timeout: set.Timeout, Files: []string{a.spec.FileOf(option)},
			Env: map[string]string{"TIDEMARK_SOURCE": source, "TIDEMARK_SNAPSHOT": place}, Supervisor: a.Program,
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
		return run(ctx, set.BeginSource, snapshotBegin, source, "")
	}}
	if set.EndSource != "" {
		c.End = func(ctx context.Context, source, place string) error {
			_, err := run(ctx, set.EndSource, snapshotEnd, source, place)
			return err
		}
	}
	return c, nil
}
