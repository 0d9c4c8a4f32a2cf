package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/setup"
)

// fromFlags say from which repository the option file of a lost machine comes.
type fromFlags struct{ repository, host string }

// errNoSetup: a repository has no option file for this machine.
var errNoSetup = errors.New("no snapshot there has an option file: a backup that used one stores it. " +
	"'tidemark setup' makes a new one, and 'tidemark restore' needs none")

// from writes the option file of a lost machine, and makes a key of this one.
func (s *setupRun) from(ctx context.Context) error {
	if err := s.checkFrom(); err != nil {
		return err
	}
	if err := s.flags.Set("repo", s.recover.repository); err != nil {
		return usagef("--from: %w", err)
	}
	spec, _, err := options.Resolve(s.flags, s.Env, os.ReadFile)
	if err != nil {
		return err
	}
	s.use(spec)
	if s.at, err = s.location(); err != nil {
		return err
	}
	back := &output.WayBack{}
	lost := &job.Lost{Repository: s.at.String(), Exists: func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}}
	err = s.withRepository(ctx, func(r *repo.Repository) (err error) {
		if err := s.chooseSetup(ctx, r, back); err != nil {
			return err
		}
		lost.Job = back.Snapshot.Snapshot.Job
		back.KeyFile, back.KeyMade, err = s.machineKey(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	if s.terminal() != nil && s.logon != nil {
		s.dialog = &setup.Dialog{Person: s.terminal(), System: &setup.Host{}}
		if err := s.keepLogon(ctx); err != nil {
			return err
		}
	}
	if s.flags.Changed("smb-password-file") {
		lost.Logon = s.spec.Share().PasswordFile
	}
	content, err := s.writeFrom(lost, back)
	if err != nil {
		return err
	}
	jobs, invalid, err := job.LoadValid(back.File, content, s.Env, os.ReadFile)
	if err != nil {
		return fmt.Errorf("the option file was written to %s, but it cannot be used: %w", back.File, err)
	}
	for _, j := range jobs {
		back.Jobs = append(back.Jobs, output.BackJob{Name: j.Name, Schedule: j.Schedule.String(), Sources: j.Sources,
			Repository: j.Repository, Restore: job.Restore(j, back.Snapshot.Snapshot.Host)})
	}
	back.Missing = lost.Missing(content, jobs, invalid)
	return s.print.Print(back)
}

// checkFrom refuses flags that answer what the repository answers.
func (s *setupRun) checkFrom() (err error) {
	answers := []options.Group{options.GroupPolicy, options.GroupSelection, options.GroupJob}
	flags := []string{"repo", "source", "recovery-key-file", "recovery-confirmed"}
	s.flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(flags, f.Name) || slices.Contains(answers, options.GroupOf(f)) {
			err = usagef("--%s: --from takes all answers from the repository: leave it out, and change the option file "+
				"afterwards", f.Name)
		}
	})
	return err
}

// chooseSetup finds the snapshot with the option file.
func (s *setupRun) chooseSetup(ctx context.Context, r *repo.Repository, back *output.WayBack) error {
	all, err := r.Snapshots(ctx)
	if err != nil {
		return err
	}
	found, hosts := setup.Choose(all, s.recover.host, hostName(), userName())
	switch {
	case len(hosts) == 0:
		return errNoSetup
	case found == nil:
		return usagef("choose a machine with --host; the repository has the option files of %s", strings.Join(hosts, ", "))
	}
	back.Snapshot = *found
	return nil
}

// machineKey makes a key file of this machine, unless there is one.
func (s *setupRun) machineKey(ctx context.Context, r *repo.Repository) (path string, made bool, err error) {
	sources := s.secrets()
	if path = sources.MachineFile(r.ID()); path == "" {
		return "", false, nil
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, false, nil //nolint:nilerr // there is something
	}
	sources.Keys = options.Keys{}
	fresh, err := sources.Create(ctx, false)
	if err != nil {
		return "", false, err
	}
	if _, err := r.AddSlot(ctx, fresh.Secrets[0], label(), s.Stretch); err != nil {
		fresh.Discard()
		return "", false, err
	}
	path, err = fresh.Keep(r.ID())
	return path, err == nil, err
}

// writeFrom writes the option file, unless there is one, and returns its content.
func (s *setupRun) writeFrom(lost *job.Lost, back *output.WayBack) ([]byte, error) {
	back.File = options.UserFile(s.Env)
	if s.spec.File() != "" {
		back.File = s.spec.File()
	}
	content, err := optionfile.ReadRegular(back.File)
	if err == nil && len(content) > 0 {
		return content, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the option file: %w", err)
	}
	f, err := lost.OptionFile(back.File, back.Snapshot.Snapshot.Setup)
	if err != nil {
		return nil, err
	}
	back.Written = true
	return f.New, f.Save()
}
