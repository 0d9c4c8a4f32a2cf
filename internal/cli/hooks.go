package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/hook"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// withHooks runs a backup between the commands of the option file. backup returns the ID of the snapshot, "" if there
// is none.
func (a *app) withHooks(ctx context.Context, f *backupFlags, backup func() (snapshot string, err error)) error {
	set := a.spec.Job().Hooks
	if f.noHooks || f.job.Session.DryRun || set.Before+set.After+set.Failure == "" {
		_, err := backup()
		return err
	}
	at, err := a.place.Location()
	if err != nil {
		return err
	}
	if set.After != "" { // it undoes what the before-command did, even if the backup does not end
		defer a.ending.hold()()
	}
	around := a.commandsOf(a.spec, cmp.Or(a.spec.Server(), job.Default), at.String())
	around.Ended = a.noteHook
	return hook.Around(ctx, around, func() hook.Outcome {
		ended := make(chan hook.Outcome, 1)
		go func() {
			snapshot, err := backup()
			ended <- hook.Outcome{Word: outcomeWord(ctx, err), Snapshot: snapshot, Err: err}
		}()
		select {
		case o := <-ended:
			return o
		case <-a.ending.over:
			return hook.Outcome{Word: record.Stopped, Err: errInterrupted}
		}
	})
}

// commandsOf returns the commands around a backup by some options.
func (a *app) commandsOf(spec *options.Spec, job, repository string) hook.Commands {
	set := spec.Job().Hooks
	command := func(line string, files ...string) hook.Command {
		return hook.Command{Line: line, Timeout: set.Timeout, Files: files, Supervisor: a.Program,
			Env: map[string]string{"TIDEMARK_JOB": job, "TIDEMARK_REPOSITORY": repository}}
	}
	return hook.Commands{
		Before: command(set.Before, set.BeforeFiles...), After: command(set.After, set.AfterFiles...),
		Failure: command(set.Failure, spec.FileOf(hook.Failure)), Owed: a.stateFile("commands", job),
	}
}

// settleHooks runs the after-command that a killed run of a job of the service owes.
func (a *app) settleHooks(j *job.Job) (ran bool, err error) {
	return hook.Settle(context.Background(), a.commandsOf(j.Spec, cmp.Or(j.Server, job.Default), j.Repository))
}

// outcomeWord returns the outcome of a backup by its error.
func outcomeWord(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return record.Done
	case ctx.Err() != nil:
		return record.Stopped
	case errors.Is(err, errIncomplete):
		return record.Incomplete
	}
	return record.Failed
}

// stateFile returns a file of the state folder for a stanza of the option file; "" without a home folder.
func (a *app) stateFile(folder, stanza string) string {
	dir, err := a.serviceDir()
	if err != nil {
		return ""
	}
	file, _ := filepath.Abs(a.spec.File()) // an error leaves the name as it is
	return filepath.Join(dir, folder, fmt.Sprintf("%x", sha256.Sum256([]byte(file+"\n"+stanza)))[:16])
}

// noteHook prints the output of a command, and the error of one whose failure does not end the program.
func (a *app) noteHook(step string, r hook.Result, err error) {
	end := event.Hook{Type: "hook", Step: step, Output: strings.TrimSpace(human.Harmless(string(r.Output))),
		Truncated: r.Truncated, ExitCode: r.ExitCode}
	if err != nil {
		end.Error = err.Error()
	}
	switch text := end.Output; {
	case a.spec.Output().JSON:
		_ = a.print.Print(output.Hook(&end)) // the backup goes on
	case text != "":
		if r.Truncated {
			text = "...\n" + text
		}
		a.print.Note(step + ": " + text)
	}
	if err != nil && (step == hook.Failure || step == hook.Owed) {
		a.warnAlways(err.Error())
	}
}
