package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/cli/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
)

// attempts is how often a person may mistype the passphrase.
const attempts = 3

// store opens the place of the repository.
func (a *app) store(ctx context.Context) (store.Store, error) {
	at, err := a.place()
	if err != nil {
		return nil, err
	}
	st, err := a.openPlace(ctx, at)
	if errors.Is(err, store.ErrNotExist) {
		return nil, fmt.Errorf("open repository at %s: %w", at, repo.ErrNoRepository)
	}
	if err != nil {
		return nil, fmt.Errorf("open repository at %s: %w", at, err)
	}
	return st, nil
}

// open opens the repository.
func (a *app) open(ctx context.Context) (*repo.Repository, error) {
	st, err := a.store(ctx)
	if err != nil {
		return nil, err
	}
	return a.openWith(ctx, st, a.secrets())
}

// openWith opens the repository in st with the secrets of sources.
func (a *app) openWith(ctx context.Context, st store.Store, sources *unlock.Sources) (_ *repo.Repository, err error) {
	for i := 1; ; i++ {
		opt := a.openOptions()
		if opt.Unlock, err = sources.Opener(ctx, repositoryID(ctx, st)); err != nil {
			return nil, fmt.Errorf("open repository at %s: %w", st.Location(), err)
		}
		r, err := repo.Open(ctx, st, opt)
		if errors.Is(err, repo.ErrWrongKey) && sources.Asked() && i < attempts {
			a.print.Show("That is not it.\n")
			continue
		}
		return r, err
	}
}

// repositoryID reads the ID from the config, which needs no key. Whatever is wrong with it is found when it is opened.
func repositoryID(ctx context.Context, st store.Store) string {
	raw, err := object.ReadFile(ctx, st, store.Name{Kind: store.Config}, -1)
	if err != nil {
		return ""
	}
	conf, _, err := config.Decode(raw)
	if err != nil {
		return ""
	}
	return conf.ID.String()
}

func (a *app) openOptions() repo.OpenOptions {
	c := a.spec.Cache()
	opt := repo.OpenOptions{CacheDir: c.Dir, NoCache: !c.Enabled || c.Dir == "", Notify: a.print.Note,
		Gate: a.gate}
	at, err := a.place()
	if c.MaxNamed || err == nil && at.remote(a.devices) {
		opt.FrameCacheDisk = c.MaxBytes
	}
	return opt
}

// secrets are the sources of keys that the options name.
func (a *app) secrets() *unlock.Sources {
	s := &unlock.Sources{Keys: a.spec.Keys(), Machine: a.machineKeys(), Flush: a.flush}
	if t := unlock.OpenTerminal(a.Err); t != nil {
		s.Asker = t
	}
	return s
}

// machineKeys is the folder of this machine's key files.
func (a *app) machineKeys() string {
	base, _ := a.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home, _ := a.Env("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "tidemark", "keys")
}

// label says who makes a key, for people.
func label() string { return userName() + "@" + hostName() }

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

func userName() string {
	u, err := user.Current()
	if err != nil {
		return fmt.Sprint(os.Getuid())
	}
	return u.Username
}
