package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/service"
	"github.com/tidemark-backup/tidemark/internal/setup"
)

// answerOther collects the answers that depend on others: which snapshots a schedule keeps, and what has to be mounted.
func (s *setupRun) answerOther(ctx context.Context, schedule string) (err error) {
	s.runs = schedule != "" && !strings.EqualFold(schedule, "never")
	if s.runs && !s.set("KEEPSNAPSHOTS", "keep") {
		keep := setup.DefaultKeep
		if s.dialog != nil {
			keep, err = s.dialog.Keep(ctx, func(text string) error {
				_, err := job.ParseKeep(text)
				return err
			})
		}
		if err == nil {
			err = s.give("keep", keep)
		}
	}
	if err != nil || s.set("REQUIREMOUNT", "require-mount") {
		return err
	}
	mounts := setup.MountsOf(s.system, s.result.Sources, s.home)
	if len(mounts) > 0 && s.dialog != nil {
		yes, err := s.dialog.RequireMounts(ctx, mounts)
		if err != nil || !yes {
			return err
		}
	}
	return s.give("require-mount", mounts...)
}

// finish prints what was set up, and installs the service if a person wants it.
func (s *setupRun) finish(ctx context.Context) (err error) {
	if s.runs && !service.Available() {
		if s.result.Cron, err = cronLine(s.result.File); err != nil {
			return err
		}
	}
	if err := s.print.Print(&s.result); err != nil {
		return err
	}
	if !s.runs || s.dialog == nil || s.result.Cron != "" {
		return nil
	}
	yes, err := s.dialog.Yes(ctx, "Install the service now, which backs up by the schedule?", true)
	if err != nil || !yes {
		return err
	}
	return s.installService(ctx, false)
}

// cronLine returns the line of a crontab that runs what is due.
func cronLine(optionFile string) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	quote := func(text string) string {
		return strings.ReplaceAll("'"+strings.ReplaceAll(text, "'", `'\''`)+"'", "%", `\%`) // cron ends a command at a %
	}
	return "*/5 * * * * " + quote(program) + " daemon --once --option-file " + quote(optionFile), nil
}
