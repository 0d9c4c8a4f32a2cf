package place

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
)

// ErrGone: there was a repository.
var ErrGone = errors.New("there is no repository now: is its disk connected and mounted? If it was removed for good, " +
	"make a new one with 'tidemark init'")

// Attempts is how often a passphrase can be entered.
const Attempts = 3

// Store opens the store of the repository.
func (p *Place) Store(ctx context.Context) (store.Store, error) {
	at, err := p.Location()
	if err != nil {
		return nil, err
	}
	st, err := at.Open(ctx, p.Access(at))
	if errors.Is(err, store.ErrNotExist) {
		return nil, fmt.Errorf("open repository at %s: %w", at, p.noRepository(at))
	}
	if err != nil {
		return nil, fmt.Errorf("open repository at %s: %w", at, err)
	}
	return st, nil
}

// noRepository returns why there is nothing at a location: ErrGone if this machine has used a repository there.
func (p *Place) noRepository(at location.Location) error {
	if !p.Before.IsZero() {
		return fmt.Errorf("at the time of --as-of: %w", repo.ErrNoRepository)
	}
	place := at.Folder
	if at.OnServer() {
		place = at.String()
	}
	if c := p.spec.Cache(); c.Dir != "" {
		if _, used, err := caches.Last(c.Dir, place); err == nil && !used.IsZero() {
			gone := fmt.Errorf("it was used last on %s, and %w", used.Format("2006-01-02"), ErrGone)
			if at.MayHavePast() {
				gone = fmt.Errorf("%w; a bucket with versions still has what was removed: see 'tidemark restore --as-of'", gone)
			}
			return gone
		}
	}
	return repo.ErrNoRepository
}

// Open opens the repository.
func (p *Place) Open(ctx context.Context) (*repo.Repository, error) {
	st, err := p.Store(ctx)
	if err != nil {
		return nil, err
	}
	r, err := p.OpenWith(ctx, st, p.Secrets())
	if errors.Is(err, repo.ErrNoRepository) { // such as the folder on which the disk is mounted
		if at, where := p.Location(); where == nil {
			return nil, fmt.Errorf("open repository at %s: %w", at, p.noRepository(at))
		}
	}
	return r, err
}

// OpenWith opens the repository in st with the secrets of sources.
func (p *Place) OpenWith(ctx context.Context, st store.Store, sources *unlock.Sources) (*repo.Repository, error) {
	for i := 1; ; i++ {
		opt := p.openOptions()
		last, _, _ := caches.Last(opt.Cache.Dir, st.Location()) // without it, the slots are tried in another order
		known := knownSlot(opt, last)
		opt.KnownSlot, opt.KnownSuffices = known.read(), known.suffices()
		opt.ByID = func(id string, opt *repo.OpenOptions) (err error) {
			known = knownSlot(*opt, id)
			opt.KnownSlot = known.read()
			opt.Unlock, err = sources.Opener(ctx, id)
			return err
		}
		r, err := repo.Open(ctx, st, opt)
		if err == nil {
			p.compareKeys(r) // makes the folder
			p.keepLock(r)
			known.write(r.SlotID())
			p.usesCache(r)
			p.keepTyped(sources)
		}
		if errors.Is(err, repo.ErrWrongKey) && sources.Asked() && i < Attempts {
			p.cfg.Show("Wrong passphrase.\n")
			continue
		}
		if errors.Is(err, repo.ErrWrongKey) || errors.Is(err, unlock.ErrNoSecret) {
			err = goneKeys(ctx, st, known, err)
		}
		return r, err
	}
}

// usesCache notes that the run uses the cache folder of a repository.
func (p *Place) usesCache(r *repo.Repository) {
	if c := p.spec.Cache(); c.Enabled && r.CacheFolder() != "" {
		p.opened[r.CacheFolder()] = r.Store().Location()
	}
}

// RepositoryID reads the ID from the config, which needs no key; "" on an error.
func RepositoryID(ctx context.Context, st store.Store) string {
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

// openOptions returns how the repository is opened.
func (p *Place) openOptions() repo.OpenOptions {
	c := p.spec.Cache()
	opt := repo.OpenOptions{Cache: repo.CacheOptions{Dir: c.Dir, Temporary: !c.Enabled || c.Dir == ""},
		Notify: p.cfg.Note, Warn: p.cfg.Warn, Gate: p.governor.Gate}
	if !p.Before.IsZero() {
		opt.Cache.Dir = "" // it also records the snapshots that were seen
	}
	opt.Cache.Frames = p.Frames
	if c.MaxNamed || p.Remote() {
		opt.Cache.TreeFrames = c.MaxBytes
	}
	return opt
}

// Secrets returns the sources of keys.
func (p *Place) Secrets() *unlock.Sources {
	s := &unlock.Sources{Keys: p.spec.Keys(), Machine: p.MachineKeys(), Flush: p.governor.Flush}
	if s.Keys == (options.Keys{}) && p.typed != nil {
		s.Keys.Password = *p.typed
	}
	if t := unlock.OpenTerminal(p.cfg.Terminal); t != nil {
		s.Ask = t.Ask
	}
	return s
}

// KeepTyped has the place keep the passphrase that a person types, for a run that opens the repository several times.
func (p *Place) KeepTyped() { p.typed = new(options.Secret) }

// keepTyped keeps a passphrase that a person typed, for a command that opens the repository several times.
func (p *Place) keepTyped(sources *unlock.Sources) {
	if text := sources.Typed(); text != "" && p.typed != nil {
		*p.typed = options.Secret(text)
	}
}

// MachineKeys returns the folder of this machine's key files, "" without a home directory.
func (p *Place) MachineKeys() string {
	base, _ := p.cfg.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home, _ := p.cfg.Env("HOME")
		if !filepath.IsAbs(home) {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "tidemark", "keys")
}

// Create creates the repository of opt, whose secrets come from sources.
func (p *Place) Create(ctx context.Context, sources *unlock.Sources, opt repo.InitOptions) (r *repo.Repository,
	recovery string, err error) {
	at, err := p.Location()
	if err != nil {
		return nil, "", err
	}
	p.keepTyped(sources)
	st, err := at.Create(ctx, p.Access(at))
	if err != nil {
		return nil, "", fmt.Errorf("create repository at %s: %w", at, err)
	}
	opt.Open = p.openOptions()
	r, recovery, err = repo.Init(ctx, st, opt)
	switch {
	case err == nil:
		p.usesCache(r)
		p.compareKeys(r)
		p.keepLock(r)
		knownSlot(opt.Open, r.ID()).write(r.SlotID())
	case errors.Is(err, store.ErrNoSpace): // there are no snapshots to forget
		err = &store.Problem{What: "no space left for a repository at " + at.String(),
			Do: "free some space there, or choose another place, and " + store.RunAgain, Kinds: []error{store.ErrNoSpace}}
	}
	return r, recovery, err
}

// InMemory creates a repository in memory, for a dry run without one.
func (p *Place) InMemory(ctx context.Context, opt repo.InitOptions) (*repo.Repository, error) {
	opt.Open = p.openOptions()
	opt.Open.Cache.Temporary, opt.Open.Cache.Dir = true, ""
	r, _, err := repo.Init(ctx, mem.New(), opt)
	return r, err
}
