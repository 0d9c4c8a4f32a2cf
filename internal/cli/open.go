package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/cli/unlock"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
)

// attempts is how often a passphrase can be entered.
const attempts = 3

// store opens the store of the repository.
func (a *app) store(ctx context.Context) (store.Store, error) {
	at, err := a.location()
	if err != nil {
		return nil, err
	}
	if !a.spec.Repository().Named {
		a.hintVariables()
	}
	st, err := at.Open(ctx, a.access(at))
	if errors.Is(err, store.ErrNotExist) {
		return nil, fmt.Errorf("open repository at %s: %w", at, a.noRepository(at))
	}
	if err != nil {
		return nil, fmt.Errorf("open repository at %s: %w", at, err)
	}
	return st, nil
}

// noRepository returns why there is nothing at a location: errGone if this machine has used a repository there.
func (a *app) noRepository(at location.Location) error {
	place := at.Folder
	if at.OnServer() {
		place = at.String()
	}
	if c := a.spec.Cache(); c.Dir != "" {
		if used := caches.LastOpened(c.Dir, place); !used.IsZero() {
			return fmt.Errorf("it was used last on %s, and %w", used.Format("2006-01-02"), errGone)
		}
	}
	return repo.ErrNoRepository
}

// open opens the repository.
func (a *app) open(ctx context.Context) (*repo.Repository, error) {
	st, err := a.store(ctx)
	if err != nil {
		return nil, err
	}
	r, err := a.openWith(ctx, st, a.secrets())
	if errors.Is(err, repo.ErrNoRepository) { // such as the folder on which the disk is mounted
		if at, where := a.location(); where == nil {
			return nil, fmt.Errorf("open repository at %s: %w", at, a.noRepository(at))
		}
	}
	return r, err
}

// openWith opens the repository in st with the secrets of sources.
func (a *app) openWith(ctx context.Context, st store.Store, sources *unlock.Sources) (*repo.Repository, error) {
	for i := 1; ; i++ {
		opt := a.openOptions()
		var known slotFile
		opt.ByID = func(id string, opt *repo.OpenOptions) (err error) {
			known = knownSlot(*opt, id)
			opt.KnownSlot = known.read()
			opt.Unlock, err = sources.Opener(ctx, id)
			return err
		}
		r, err := repo.Open(ctx, st, opt)
		if err == nil {
			known.write(r.SlotID())
			a.compareKeys(r)
			a.usesCache(r)
			a.keepTyped(sources)
		}
		if errors.Is(err, repo.ErrWrongKey) && sources.Asked() && i < attempts {
			a.print.Show("Wrong passphrase.\n")
			continue
		}
		if errors.Is(err, repo.ErrWrongKey) && known != "" {
			err = goneKeys(ctx, st, filepath.Dir(string(known)), err)
		}
		return r, err
	}
}

// usesCache notes that the run uses the cache folder of a repository.
func (a *app) usesCache(r *repo.Repository) {
	if c := a.spec.Cache(); c.Enabled && r.CacheFolder() != "" {
		a.opened = append(a.opened, usedCache{r.CacheFolder(), r.Store().Location()})
	}
}

// repositoryID reads the ID from the config, which needs no key; "" on an error.
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

// warnAlways prints a note that --quiet does not suppress: as text by Show, as JSON by Note.
func (a *app) warnAlways(text string) {
	a.print.Note(text)
	if a.spec.Output().Quiet {
		a.print.Show(text + "\n")
	}
}

func (a *app) openOptions() repo.OpenOptions {
	c := a.spec.Cache()
	opt := repo.OpenOptions{Cache: repo.CacheOptions{Dir: c.Dir, Temporary: !c.Enabled || c.Dir == ""},
		Notify: a.print.Note,
		Warn:   a.warnAlways, Gate: a.governor.Gate}
	opt.Cache.Frames = a.frames
	at, err := a.location()
	if c.MaxNamed || err == nil && isRemote(at, a.devices) {
		opt.Cache.TreeFrames = c.MaxBytes
	}
	return opt
}

// secrets returns the sources of keys.
func (a *app) secrets() *unlock.Sources {
	s := &unlock.Sources{Keys: a.spec.Keys(), Machine: a.machineKeys(), Flush: a.governor.Flush}
	if s.Keys == (options.Keys{}) && a.typed != nil {
		s.Keys.Password = *a.typed
	}
	if t := unlock.OpenTerminal(a.Err); t != nil {
		s.Asker = t
	}
	return s
}

// keepTyped keeps a passphrase that a person typed, for a command that opens the repository several times.
func (a *app) keepTyped(sources *unlock.Sources) {
	if text := sources.Typed(); text != "" && a.typed != nil {
		*a.typed = options.Secret(text)
	}
}

// machineKeys returns the folder of this machine's key files, "" without a home directory.
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

// label describes the creator of a key.
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
