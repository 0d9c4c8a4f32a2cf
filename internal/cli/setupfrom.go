package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/setup"
)

// from writes the option file of a lost machine, and makes a key of this one.
func (s *setupRun) from(ctx context.Context) error {
	if err := s.checkFrom(); err != nil {
		return err
	}
	if err := s.flags.Set("repo", s.recover.repository); err != nil {
		return usagef("--from: %w", err)
	}
	if err := s.useFlags(); err != nil {
		return err
	}
	back := &output.WayBack{}
	err := s.withRepository(ctx, func(r *repo.Repository) error {
		if err := s.chooseSetup(ctx, r, back); err != nil {
			return err
		}
		return s.machineKey(ctx, r, back)
	})
	if errors.Is(err, repo.ErrNoRepository) {
		return fmt.Errorf("--from: %w %s: connect the disk that has it, or correct the path", errNoneThere, s.at)
	}
	if err != nil {
		return err
	}
	if s.terminal() != nil && s.place.Logon() != nil {
		s.dialog = &setup.Dialog{Person: s.terminal(), System: &setup.Host{}}
		if err := s.keepLogon(ctx); err != nil {
			return err
		}
	}
	if err := s.writeFrom(ctx, back); err != nil {
		return err
	}
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
	wish := &setup.Wish{Snapshot: s.recover.snapshot, Host: s.recover.host, Here: hostName(), User: userName()}
	back.Choice = wish.Choose(all)
	for _, one := range back.Unread {
		s.warnAlways(fmt.Sprintf("snapshot %s cannot be read, and may have a newer option file: %v", one.ID.Short(), one.Err))
	}
	switch {
	case back.Snapshot != nil:
		return nil
	case len(back.Hosts) == 0 && len(back.Unread) > 0:
		return errors.New("no snapshot there that can be read has an option file; others are damaged: see " +
			"'tidemark check'")
	case len(back.Hosts) == 0:
		return errors.New("no snapshot there has an option file: a backup that used one stores it. 'tidemark setup' makes " +
			"a new one, and 'tidemark restore' needs none")
	case s.recover.snapshot != "":
		return usagef("--snapshot %s: no snapshot of that ID has an option file", s.recover.snapshot)
	}
	return usagef("choose a machine with --host; the repository has the option files of %s",
		strings.Join(back.Hosts, ", "))
}

// machineKey makes a key file of this machine, unless there is one. A repository that cannot be written to gets none.
func (s *setupRun) machineKey(ctx context.Context, r *repo.Repository, back *output.WayBack) error {
	sources := s.place.Secrets()
	path := sources.MachineFile(r.ID())
	if _, err := os.Lstat(path); path == "" || !errors.Is(err, fs.ErrNotExist) {
		back.KeyFile = path
		return nil //nolint:nilerr // there is something
	}
	sources.Keys = options.Keys{}
	fresh, err := sources.Create(ctx, false)
	if err != nil {
		return err
	}
	if _, err := r.AddSlot(ctx, fresh.Secrets[0], label(), s.Stretch); err != nil {
		fresh.Discard()
		if ctx.Err() != nil {
			return err
		}
		back.Missing = append(back.Missing, fmt.Sprintf("a key of this machine: %v", err))
		return nil
	}
	back.KeyFile, err = fresh.Keep(r.ID())
	back.KeyMade = err == nil
	return err
}

// writeFrom writes the option file, unless there is one, and finds out what is missing.
func (s *setupRun) writeFrom(ctx context.Context, back *output.WayBack) error {
	lost := s.lost(ctx)
	back.File = options.UserFile(s.Env)
	if s.spec.File() != "" {
		back.File = s.spec.File()
	}
	content, err := optionfile.ReadRegular(back.File)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the option file: %w", err)
	case len(content) == 0:
		f, err := lost.OptionFile(back.File, back.Snapshot.Snapshot.Setup)
		if err == nil {
			err = f.Save()
		}
		if err != nil {
			return err
		}
		back.Written, content = true, f.New
	}
	var away []string
	jobs, invalid, err := job.LoadValid(back.File, content, s.Env, func(path string) ([]byte, error) {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && filepath.Base(path) != "dsm.sys" {
			away = append(away, path)
			return nil, nil // a missing file of rules is reported, and hides nothing else
		}
		return text, err
	})
	if err != nil {
		return fmt.Errorf("the option file %s cannot be used: %w", back.File, err)
	}
	slices.Sort(away)
	for _, path := range slices.Compact(away) {
		back.Missing = append(back.Missing, "the file "+path+" with rules")
	}
	back.Jobs = jobs
	if !back.Written {
		back.Missing = append(back.Missing, lost.Moved(back.Snapshot.Snapshot.Setup, jobs)...)
	}
	back.Missing = append(back.Missing, lost.Missing(content, jobs, invalid)...)
	for _, one := range back.Sources {
		back.Restore = append(back.Restore, lost.Restore(one.ID.Short(), jobs))
	}
	return nil
}

// lost describes this machine, as far as an option file needs it.
func (s *setupRun) lost(ctx context.Context) *job.Lost {
	l := &job.Lost{Repository: s.at.String(), Home: s.home}
	if s.flags.Changed("smb-password-file") {
		l.Logon = s.spec.Share().PasswordFile
	}
	l.Exists = func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	l.Leads = func(named string) bool {
		at, err := place.Parse(named)
		return err == nil && !at.OnServer() && at.Folder == s.at.Folder
	}
	l.HasKey = func(named string) bool {
		at, err := place.Parse(named)
		if err != nil || at.OnServer() {
			return false
		}
		st, err := at.Open(ctx, s.place.Access(at))
		if err != nil {
			return false
		}
		id := place.RepositoryID(ctx, st)
		return id != "" && l.Exists(s.place.Secrets().MachineFile(id))
	}
	return l
}
