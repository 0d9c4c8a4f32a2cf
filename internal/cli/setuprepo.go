package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/setup"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/target"
)

// probeParent tests the folder of a location, or the nearest one above it that exists.
func (a *app) probeParent(ctx context.Context, at location.Location) (*target.Report, error) {
	for {
		report, err := a.probeTarget(ctx, at)
		switch {
		case err == nil || !errors.Is(err, target.ErrNotFolder):
			return report, err
		case at.OnServer():
			above, ok := at.Address.Parent()
			if !ok {
				return nil, err
			}
			at.Address = above
		case missingFolder(at.Folder):
			at.Folder = filepath.Dir(at.Folder)
		default:
			return nil, err
		}
	}
}

// missingFolder reports whether a folder does not exist and has a parent.
func missingFolder(folder string) bool {
	_, err := os.Stat(folder)
	return errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder)
}

// unfit returns the error for a target that is not usable.
func unfit(report *target.Report) error {
	if report.Verdict() != target.Unfit {
		return nil
	}
	var reasons []error
	for _, p := range report.Because() {
		reasons = append(reasons, fmt.Errorf("%s: %s (%s)", p.Name, p.Evidence, p.Remedy))
	}
	return fmt.Errorf("%w: %w", errUnfit, errors.Join(reasons...))
}

// repository opens the repository, or creates it, and has its recovery key confirmed.
func (s *setupRun) repository(ctx context.Context) (err error) {
	r, err := s.existing(ctx)
	fresh := errors.Is(err, repo.ErrNoRepository)
	if fresh {
		r, err = s.createRepository(ctx)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s.result.ID = r.ID()
	pending := s.place.Secrets().Pending(r.ID())
	if !fresh {
		s.print.Note(fmt.Sprintf("repository %s exists: it is used", r.ID()[:8]))
		if err := s.confirmEarlier(ctx, r, pending); err != nil {
			return err
		}
	} else if err := s.confirm(ctx, pending); err != nil {
		return err
	}
	s.result.Confirmed = !pending.Exists()
	return nil
}

// existing opens the repository. A run that ended while it created the repository has left the key file of this machine
// under a temporary name.
func (s *setupRun) existing(ctx context.Context) (*repo.Repository, error) {
	st, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	sources := s.place.Secrets()
	id := place.RepositoryID(ctx, st)
	for _, path := range sources.Unnamed(id) {
		other := &unlock.Sources{Keys: options.Keys{KeyFile: path}, Machine: sources.Machine, Flush: sources.Flush}
		r, err := s.place.OpenWith(ctx, st, other)
		if errors.Is(err, repo.ErrWrongKey) {
			continue
		}
		if err == nil {
			s.unseen = true
			err = sources.Name(path, id)
		}
		return r, err
	}
	return s.place.OpenWith(ctx, st, sources)
}

// createRepository creates the repository. The file for the recovery key is made before, so that the key is not lost.
func (s *setupRun) createRepository(ctx context.Context) (*repo.Repository, error) {
	keep, err := setup.Reserve(s.recovery.file)
	if err != nil {
		return nil, err
	}
	reveal := func(made *output.Created) error { return s.reveal(keep, made) }
	r, err := s.createWith(ctx, s.dialog != nil, repo.InitOptions{}, reveal)
	if err != nil {
		keep.Discard()
	}
	return r, err
}

// reveal shows a new repository. Its recovery key goes to the file that was reserved, or is shown.
func (s *setupRun) reveal(keep *setup.KeyFile, made *output.Created) error {
	if keep == nil {
		return s.app.reveal(made)
	}
	if err := keep.Write(made.RecoveryKey); err != nil {
		return errors.Join(err, s.app.reveal(made))
	}
	made.RecoveryKey = ""
	return s.print.Report(made)
}

// confirm has the recovery key confirmed that was just shown or written.
func (s *setupRun) confirm(ctx context.Context, pending unlock.Pending) error {
	switch {
	case s.recovery.file != "" || s.recovery.confirmed:
		return pending.Remove()
	case s.dialog == nil || !pending.Exists():
		return nil // each backup reminds of it
	}
	right, err := s.dialog.Recovery(ctx, pending.Confirm)
	if err == nil && !right {
		s.print.Show("Confirm it later with: tidemark key recovery --confirm\n")
	}
	return err
}

// confirmEarlier has the recovery key of an earlier run confirmed, or makes a new one.
func (s *setupRun) confirmEarlier(ctx context.Context, r *repo.Repository, pending unlock.Pending) error {
	if s.recovery.file != "" {
		return s.completeFile(ctx, r, pending)
	}
	if s.unseen {
		return s.renew(ctx, r, pending)
	}
	if s.dialog == nil || !pending.Exists() {
		return s.confirm(ctx, pending)
	}
	s.print.Show("\nThe recovery key of this repository was shown earlier, and is not confirmed.\n")
	right, err := s.dialog.Recovery(ctx, pending.Confirm)
	if err != nil || right {
		return err
	}
	if yes, err := s.dialog.Yes(ctx, "Make a new recovery key now?", true); err != nil || !yes {
		return err
	}
	return s.renew(ctx, r, pending)
}

// completeFile sees to it that the file for the recovery key has one, if an earlier run was interrupted before. The
// file is empty then, or holds the key that is not confirmed yet.
func (s *setupRun) completeFile(ctx context.Context, r *repo.Repository, pending unlock.Pending) error {
	content, err := os.ReadFile(s.recovery.file)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the file for the recovery key: %w", err)
	case len(content) > 0 && pending.Exists() && pending.Confirm(string(content)) == nil:
		return nil
	case s.unseen || pending.Exists() || err == nil && len(content) == 0:
		return s.renew(ctx, r, pending)
	case err != nil:
		s.print.Note("no recovery key is written: the repository has one that was confirmed; 'tidemark key recovery' " +
			"makes another")
	}
	return nil
}

// renew makes a new recovery key, writes or shows it, and has it confirmed.
func (s *setupRun) renew(ctx context.Context, r *repo.Repository, pending unlock.Pending) error {
	keep, err := setup.Reserve(s.recovery.file)
	if err != nil {
		return err
	}
	key, err := r.RenewRecoveryKey(ctx, label())
	if key == "" {
		keep.Discard()
		return err
	}
	s.recordUnconfirmed(r.ID(), key)
	s.place.RememberKeys(ctx, r)
	if keep != nil {
		err = errors.Join(err, keep.Write(key))
	}
	if keep == nil || err != nil {
		s.print.Show(output.RecoveryBlock(key))
		err = errors.Join(err, s.print.Report(output.Recovery(r.ID(), key)))
	}
	if err != nil {
		return err
	}
	return s.confirm(ctx, pending)
}

// keepLogon offers to keep the password of the server that a person typed, for backups without a person. The option
// file names its file.
func (s *setupRun) keepLogon(ctx context.Context) error {
	folder := s.place.MachineKeys()
	logon := s.place.Logon()
	if s.dialog == nil || logon == nil || !logon.Asked() || folder == "" {
		return nil
	}
	path := filepath.Join(folder, "smb-"+s.at.Address.Server()+".password")
	s.print.Show("\nBackups that run by themselves need the password of " + s.at.Address.Server() + ".\n")
	yes, err := s.dialog.Yes(ctx, "Keep it in "+path+", which only you can read?", true)
	if err != nil || !yes {
		return err
	}
	secret, err := logon.Secret(ctx, smb.Target{}) // it was found when the run connected
	if err != nil {
		return err
	}
	if err := setup.WriteSecret(path, secret.Password); err != nil {
		return err
	}
	if err := s.flags.Set("smb-password-file", path); err != nil {
		return err
	}
	return s.resolveAgain()
}

// resolveAgain reads the options again, after a flag or the option file has changed.
func (s *setupRun) resolveAgain() error {
	spec, _, err := options.Resolve(s.flags, s.Env, os.ReadFile)
	if err == nil {
		s.spec = spec
		s.place.Use(spec, s.governor)
	}
	return err
}

// firstBackup makes a backup if there is no snapshot of these sources.
func (s *setupRun) firstBackup(ctx context.Context) error {
	found, err := s.newest(ctx)
	if err != nil {
		return err
	}
	if found != nil {
		s.print.Note(fmt.Sprintf("snapshot %s of %s exists: no backup is made", found.ID.Short(),
			time.Unix(found.Snapshot.Time.Sec, 0).Format(time.DateTime)))
		return nil
	}
	if s.result.Plain {
		return s.backup(ctx, &backupFlags{}, nil)
	}
	return s.backup(ctx, &backupFlags{}, s.result.Sources)
}

// newest returns the newest snapshot of this machine with the same sources; nil: there is none.
func (s *setupRun) newest(ctx context.Context) (found *repo.Listed, err error) {
	err = s.withRepository(ctx, func(r *repo.Repository) error {
		all, err := r.Snapshots(ctx)
		if err != nil {
			return err
		}
		want := slices.Sorted(slices.Values(s.result.Sources))
		for i := range all {
			one := &all[i]
			if one.Err == nil && !one.Snapshot.Partial && one.Snapshot.Host == hostName() &&
				slices.Equal(slices.Sorted(slices.Values(one.Snapshot.Sources)), want) {
				found = one
			}
		}
		return nil
	})
	return found, err
}

// prove restores one file of the newest snapshot and compares it.
func (s *setupRun) prove(ctx context.Context) error {
	found, err := s.newest(ctx)
	if err != nil || found == nil {
		return err
	}
	s.result.Snapshot = found.ID.String()
	return s.withRepository(ctx, func(r *repo.Repository) error {
		opt := drill.Options{Snapshots: []repo.Listed{*found}, Seed: uint64(time.Now().UnixNano()), Folder: os.TempDir(),
			Host: hostName(), Gate: s.governor.Gate,
			Workers: s.spec.Parallel(sysinfo.CPUCount(), options.Media{}).Workers.Readers}
		l := report.NewJob(report.Restore, time.Now)
		stop := s.print.Watch(ctx, l)
		res, path, err := drill.One(ctx, r, opt, l)
		stop()
		if err != nil {
			return fmt.Errorf("restore one file: %w", err)
		}
		if res.Failed > 0 {
			return fmt.Errorf("%s was not restored as it is: see above, and run 'tidemark check --read-data'", path)
		}
		s.result.Proven, s.result.Bytes, s.result.Compared = path, res.Bytes, res.Live > 0
		return nil
	})
}
