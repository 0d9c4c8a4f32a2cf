package repo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/founding"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// InitOptions says what repository is made.
type InitOptions struct {
	Secrets  []Secret       // one slot is made for each
	Recovery bool           // make a slot for a recovery key too, and return the key
	Label    string         // who makes the slots, as user@host
	Params   keyfile.Params // of passphrases; zero: keyfile.DefaultParams
	Chunker  config.Chunker
	Open     OpenOptions // how the new repository is opened; Unlock is not asked
}

// InitResult is what the maker of a repository must be shown.
type InitResult struct {
	RecoveryKey string // printable, exists nowhere else; empty if none was asked for
}

// Init makes a repository in st and opens it. The config is written last: until then there is no repository, and Init
// can be repeated. If one exists already the error wraps ErrExists.
func Init(ctx context.Context, st store.Store, opt InitOptions) (*Repository, *InitResult, error) {
	r, result, err := makeRepository(ctx, st, opt)
	if err != nil {
		return nil, nil, fmt.Errorf("make repository at %s: %w", st.Location(), err)
	}
	return r, result, nil
}

func makeRepository(ctx context.Context, st store.Store, opt InitOptions) (*Repository, *InitResult, error) {
	if len(opt.Secrets) == 0 && !opt.Recovery {
		return nil, nil, errors.New("no passphrase, key file or recovery key is given, so nobody could open it")
	}
	if err := Vacant(ctx, st); err != nil {
		return nil, nil, err
	}
	id, err := config.NewID()
	if err != nil {
		return nil, nil, err
	}
	now := time.Now().Unix()
	conf := &config.Config{Version: config.Version, ID: id, Created: now, Chunker: opt.Chunker}
	master, err := seal.NewMasterKey()
	if err != nil {
		return nil, nil, err
	}
	keys, err := seal.Derive(master)
	if err != nil {
		return nil, nil, err
	}
	rawConfig := config.Encode(conf, keys)
	if _, _, err := config.Decode(rawConfig); err != nil {
		return nil, nil, fmt.Errorf("choose parameters: %w", err)
	}
	result := &InitResult{}
	secrets := opt.Secrets
	if opt.Recovery {
		text, secret, err := keyfile.NewRecoveryKey()
		if err != nil {
			return nil, nil, err
		}
		result.RecoveryKey = text
		secrets = append(secrets[:len(secrets):len(secrets)], Secret{Method: keyfile.Recovery, Value: secret})
	}
	var wrapped [][]byte // all before the first is put, so that others do not see some of them for long
	for _, secret := range secrets {
		raw, err := wrapSlot(master, secret, opt.Params, opt.Label, now)
		if err != nil {
			return nil, nil, err
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
		err = founding.Await(ctx, st, slots, opt.Open.Notify)
	}
	if errors.Is(err, founding.ErrTaken) {
		err = fmt.Errorf("%w: %w", err, ErrExists)
	}
	if err != nil {
		withdraw(ctx, st, slots)
		return nil, nil, err
	}
	if err := putConfig(ctx, st, rawConfig, keys); err != nil {
		if errors.Is(err, ErrExists) { // otherwise the config may be there all the same, and they be its only keys
			withdraw(ctx, st, slots)
		}
		return nil, nil, err
	}
	return newRepository(ctx, st, conf, unlocked{master: master, keys: keys, slot: slots[0]}, opt.Open), result, nil
}

// Vacant refuses a place that holds a repository, as Init does, also one that has lost its config: beside a new master
// key its packs would be unreadable for ever. The error wraps ErrExists.
func Vacant(ctx context.Context, st store.Store) error {
	_, err := st.Stat(ctx, store.Name{Kind: store.Config})
	if err == nil {
		return ErrExists
	}
	if !errors.Is(err, store.ErrNotExist) {
		return fmt.Errorf("look for a repository: %w", err)
	}
	held, err := holdsData(ctx, st)
	if err == nil && held {
		err = fmt.Errorf("files of a repository are here and its config is missing; "+
			"put the config back from a copy, or choose another place: %w", ErrExists)
	}
	return err
}

// withdraw removes keys of which there is no config, so that they open nothing. What cannot be removed does no harm.
func withdraw(ctx context.Context, st store.Store, slots []format.ID) {
	for _, id := range slots {
		_ = st.Delete(context.WithoutCancel(ctx), object.Named(store.Key, id))
	}
}

// putConfig makes the repository exist, and finds out whether another program did so at the same moment.
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
		return fmt.Errorf("%w: %w", founding.ErrTaken, ErrExists)
	} else if err != nil {
		return fmt.Errorf("read back config: %w", err)
	}
	return nil
}
