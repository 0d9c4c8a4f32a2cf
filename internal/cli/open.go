package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/cli/unlock"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
)

// attempts is how often a person may mistype the passphrase.
const attempts = 3

// place returns the folder of the repository.
func (a *app) place() (string, error) {
	location := a.spec.Repository().Location
	if location == "" {
		return "", usagef("name a repository with --repo or TIDEMARK_REPOSITORY: this user has no home directory")
	}
	scheme, rest, found := strings.Cut(location, "://")
	switch {
	case found && scheme == "file":
		location = rest
	case found:
		return "", usagef("repository %s: this version keeps repositories in folders only", location)
	default:
		location = strings.TrimPrefix(location, "local:")
	}
	path, err := filepath.Abs(location)
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	return path, nil
}

// store opens the place of the repository.
func (a *app) store() (store.Store, error) {
	path, err := a.place()
	if err != nil {
		return nil, err
	}
	st, err := local.Open(path, a.gate(nil, path))
	if errors.Is(err, store.ErrNotExist) {
		return nil, fmt.Errorf("open repository at %s: %w", path, repo.ErrNoRepository)
	}
	if err != nil {
		return nil, fmt.Errorf("open repository at %s: %w", path, err)
	}
	return a.patient(st), nil
}

// patient repeats what fails for a moment, and counts what comes.
func (a *app) patient(st store.Store) store.Store {
	policy := retry.DefaultPolicy()
	policy.Notify = func(what string, err error, wait time.Duration) {
		a.print.Note(fmt.Sprintf("%s: %v; trying again in %s", what, err, human.About(wait)))
	}
	return retry.Wrap(&metered{st, &a.received}, policy)
}

// open opens the repository.
func (a *app) open(ctx context.Context) (*repo.Repository, error) {
	st, err := a.store()
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
	if c.MaxNamed || a.remote() {
		opt.FrameCacheDisk = c.MaxBytes
	}
	return opt
}

// remote reports whether the repository is, or will be, on another machine. Where that cannot be found out it is not.
func (a *app) remote() bool {
	path, err := a.place()
	if err != nil {
		return false
	}
	dir, err := localfs.OpenDir(path)
	for errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		dir, err = localfs.OpenDir(path)
	}
	if err != nil {
		return false
	}
	defer dir.Release()
	info, err := dir.FS()
	return err == nil && info.Remote
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
