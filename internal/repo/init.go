package repo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// InitOptions configure a new repository.
type InitOptions struct {
	Secrets  []Secret       // each gets one slot
	Recovery bool           // also make a slot for a recovery key, and return the key
	Label    string         // user@host that the slots are labelled with
	Params   keyfile.Params // of passphrases; zero: keyfile.DefaultParams
	Chunks   chunker.Params // sizes of chunks; zero: chunker.DefaultParams
	Open     OpenOptions    // how the new repository is opened; Unlock is not called
	// use master key and chunk sizes of this one, so that a blob has the same ID in both; nil: a new key
	Like *Repository
}

// Init makes a repository in st and opens it. The config is written last: until then there is no repository, and Init
// can be repeated. If one exists already, the error wraps ErrExists. recovery is the printable recovery key, which is
// not stored anywhere; "" if none was requested.
func Init(ctx context.Context, st store.Store, opt InitOptions) (r *Repository, recovery string, err error) {
	if r, recovery, err = makeRepository(ctx, st, opt); err != nil {
		return nil, "", fmt.Errorf("make repository at %s: %w", st.Location(), err)
	}
	return r, recovery, nil
}

func makeRepository(ctx context.Context, st store.Store, opt InitOptions) (_ *Repository, recovery string, err error) {
	if len(opt.Secrets) == 0 && !opt.Recovery {
		return nil, "", errors.New("no passphrase, key file or recovery key is given, so the repository could not be opened")
	}
	if err := Vacant(ctx, st); err != nil {
		return nil, "", err
	}
	now := time.Now().Unix()
	conf := &config.Config{Version: config.Version, ID: config.NewID(), Created: now, Chunker: opt.chunker()}
	master := opt.masterKey()
	keys := seal.Derive(master)
	rawConfig := config.Encode(conf, keys)
	if _, _, err := config.Decode(rawConfig); err != nil {
		return nil, "", fmt.Errorf("choose parameters: %w", err)
	}
	secrets := opt.Secrets
	if opt.Recovery {
		text, secret := keyfile.NewRecoveryKey()
		recovery = text
		secrets = append(secrets[:len(secrets):len(secrets)], Secret{Method: keyfile.Recovery, Value: secret})
	}
	var wrapped [][]byte // all before the first is put: other programs then see the set incomplete only briefly
	for _, secret := range secrets {
		raw, err := wrapSlot(master, secret, opt.Params, opt.Label, now)
		if err != nil {
			return nil, "", err
		}
		wrapped = append(wrapped, raw)
	}
	var slots []format.ID
	for _, raw := range wrapped {
		slot, failed := storeSlot(ctx, st, raw)
		if err = failed; err != nil {
			break
		}
		slots = append(slots, slot)
	}
	if err == nil {
		err = awaitTurn(ctx, st, slots, opt.Open.Notify)
	}
	if errors.Is(err, errTaken) {
		err = fmt.Errorf("%w: %w", err, ErrExists)
	}
	if err != nil {
		withdraw(ctx, st, slots)
		return nil, "", err
	}
	if err := putConfig(ctx, st, rawConfig, keys); err != nil {
		// after another error the config may exist all the same, with these as its only keys
		if errors.Is(err, ErrExists) {
			withdraw(ctx, st, slots)
		}
		return nil, "", err
	}
	r := newRepository(ctx, st, conf, unlocked{master: master, keys: keys, slot: slots[0]}, opt.Open)
	for i, raw := range wrapped {
		slot, err := keyfile.Decode(raw)
		r.found = append(r.found, Slot{ID: slots[i], Slot: slot, Err: err})
	}
	return r, recovery, nil
}

func (o *InitOptions) masterKey() seal.MasterKey {
	if o.Like != nil {
		return o.Like.master
	}
	return seal.NewMasterKey()
}

func (o *InitOptions) chunker() config.Chunker {
	if o.Like != nil {
		return o.Like.config.Chunker
	}
	p := o.Chunks
	if p == (chunker.Params{}) {
		p = chunker.DefaultParams()
	}
	return config.Chunker{Algorithm: chunker.Algorithm, Min: p.Min, Avg: p.Avg, Max: p.Max}
}

// Vacant returns an error that wraps ErrExists if the store holds a repository, even one that has lost its config. With
// a new master key its packs would be unreadable for ever. Init makes the same check.
func Vacant(ctx context.Context, st store.Store) error {
	_, err := st.Stat(ctx, store.Name{Kind: store.Config})
	if err == nil {
		if err := foreign(ctx, st); err != nil {
			return fmt.Errorf("there is a file config already: %w; choose a folder that holds nothing else", err)
		}
		return ErrExists
	}
	if !errors.Is(err, store.ErrNotExist) {
		return fmt.Errorf("look for a repository: %w", err)
	}
	held, err := holds(ctx, st, store.Snapshot, store.Index, store.Pack)
	if err == nil && held {
		err = fmt.Errorf("files of a repository are here and its config is missing; "+
			"put the config back from a copy, or choose another place: %w", ErrExists)
	}
	return err
}

// foreign returns why the config is not one of this program. It returns nil if it is, or if that is unknown.
func foreign(ctx context.Context, st store.Store) error {
	raw, err := object.ReadFile(ctx, st, store.Name{Kind: store.Config}, -1)
	if err != nil {
		return nil //nolint:nilerr // its existence alone is reason enough to refuse
	}
	if _, _, err = config.Decode(raw); errors.Is(err, format.ErrCorrupt) {
		return err
	}
	return nil
}

// withdraw removes keys that have no config, so that they open nothing. A key that cannot be removed does no harm.
func withdraw(ctx context.Context, st store.Store, slots []format.ID) {
	for _, id := range slots {
		_ = st.Delete(context.WithoutCancel(ctx), object.Named(store.Key, id))
	}
}

// putConfig stores the config, which makes the repository exist. It detects another program that does so concurrently.
func putConfig(ctx context.Context, st store.Store, raw []byte, keys *seal.Keys) error {
	name := store.Name{Kind: store.Config}
	if err := st.Put(ctx, name, raw); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	back, err := object.ReadFile(ctx, st, name, -1)
	if err != nil {
		return fmt.Errorf("read back config: %w", err)
	}
	if _, _, err := config.Decode(back); err != nil {
		return fmt.Errorf("read back config: %w", err)
	}
	if err := config.Verify(back, keys); errors.Is(err, format.ErrCorrupt) {
		return fmt.Errorf("%w: %w", errTaken, ErrExists)
	} else if err != nil {
		return fmt.Errorf("read back config: %w", err)
	}
	return nil
}
