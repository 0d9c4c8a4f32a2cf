package hook

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/tidemark-backup/tidemark/internal/record"
)

// The names of the commands, in the option file and in TIDEMARK_STEP.
const (
	Before  = "before-command"
	After   = "after-command"
	Failure = "failure-command"
	// Owed is an after-command for an earlier run that was killed, in reports only.
	Owed = "after-command of a killed run"
)

// Commands are the commands around a backup. One without a Line is left out.
type Commands struct {
	Before, After, Failure Command
	// Owed is a file that remembers a run which was killed; "": it is not remembered.
	Owed string
	// Ended gets the result of each command: its name, and its error if it failed.
	Ended func(step string, r Result, err error)
}

// Outcome is how a backup ended.
type Outcome struct {
	Word     string // such as record.Done
	Snapshot string // ID; "": none was made
	Err      error
}

// Around runs backup between the commands, as the package comment describes, and returns the error of the run. The
// commands get the outcome in variables TIDEMARK_STEP, TIDEMARK_OUTCOME, TIDEMARK_SNAPSHOT and TIDEMARK_MESSAGE. If
// root must not run one of them, nothing runs.
func Around(ctx context.Context, c Commands, backup func() Outcome) error {
	if err := errors.Join(c.Before.Check(), c.After.Check(), c.Failure.Check()); err != nil {
		return err
	}
	if c.After.Line == "" {
		c.Owed = "" // there is nothing to be undone
	}
	d, owed, err := claim(ctx, c.Owed)
	defer func() { _ = d.Close() }() // nothing was written since
	if err != nil {
		c.report(Owed, Result{}, err) // the state folder is no reason to lose a backup
	}
	c.Before.held, c.After.held = d, d
	if owed {
		owing := c
		owing.Ended = func(_ string, r Result, err error) { c.report(Owed, r, err) }
		_ = owing.run(ctx, After, c.After, Outcome{Word: record.Stopped, Err: errKilled}) // it is reported
	}
	var o Outcome
	if err := c.run(ctx, Before, c.Before, Outcome{}); err != nil {
		o = Outcome{Word: record.Failed, Err: fmt.Errorf("%w; the backup was not started", err)}
		if ctx.Err() != nil {
			o.Word = record.Stopped
		}
	} else {
		o = backup()
	}
	// What the before-command did must be undone, even after a signal.
	ctx = context.WithoutCancel(ctx)
	err = c.run(ctx, After, c.After, o)
	settle(d)
	if err != nil {
		switch o.Word {
		case record.Done:
			o.Err = err
		case record.Incomplete:
			o.Err = fmt.Errorf("%w; %v", err, o.Err) //nolint:errorlint // the run failed, and is no longer incomplete
		default:
			o.Err = fmt.Errorf("%w; %v", o.Err, err) //nolint:errorlint // the first error determines the exit code
		}
		if o.Word != record.Stopped {
			o.Word = record.Failed
		}
	}
	if o.Word == record.Failed {
		_ = c.run(ctx, Failure, c.Failure, o) // Ended reports it
	}
	return o.Err
}

// run runs one command and reports its result.
func (c *Commands) run(ctx context.Context, step string, command Command, o Outcome) error {
	if command.Line == "" {
		return nil
	}
	message := ""
	if o.Err != nil {
		message = o.Err.Error()
	}
	env := maps.Clone(command.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, map[string]string{"TIDEMARK_STEP": step, "TIDEMARK_OUTCOME": o.Word, "TIDEMARK_SNAPSHOT": o.Snapshot,
		"TIDEMARK_MESSAGE": message})
	command.Env = env
	result, err := Run(ctx, command)
	if err != nil {
		err = fmt.Errorf("%s: %w", step, err)
	}
	c.report(step, result, err)
	return err
}

func (c *Commands) report(step string, r Result, err error) {
	if c.Ended != nil {
		c.Ended(step, r, err)
	}
}
