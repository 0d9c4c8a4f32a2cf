package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Secret opens slots of one method: the bytes of a passphrase, or what keyfile's parsers return.
type Secret struct {
	Method keyfile.Method
	Value  []byte
}

// Slot is one key slot of the target.
type Slot struct {
	ID      format.ID
	Slot    *keyfile.Slot // nil if it cannot be read, or was not read
	Current bool          // it opened the repository
	Known   bool          // it opened the repository before, on this machine
	Err     error         // why it cannot be read
	size    int64         // of its file, in bytes
}

// Unread reports whether Open did not need the slot.
func (s *Slot) Unread() bool { return s.Slot == nil && s.Err == nil }

// unlocked is the result of opening a slot.
type unlocked struct {
	master seal.MasterKey
	keys   *seal.Keys
	slot   format.ID
}

// wrapSlot returns a slot in its stored form. With a passphrase that takes some tenths of a second.
func wrapSlot(master seal.MasterKey, secret Secret, params keyfile.Params, label string, now int64) ([]byte, error) {
	if params == (keyfile.Params{}) {
		params = keyfile.DefaultParams()
	}
	slot, err := keyfile.Wrap(master, secret.Method, secret.Value, params, label, now)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return keyfile.Encode(slot), nil
}

// storeSlot stores a slot and reads it back.
func storeSlot(ctx context.Context, st store.Store, raw []byte) (format.ID, error) {
	id := seal.FileID(raw)
	if err := object.Put(ctx, st, object.Named(store.Key, id), raw, true); err != nil {
		return format.ID{}, fmt.Errorf("store key: %w", err)
	}
	return id, nil
}

// Slots lists the key slots, oldest first; unreadable ones come last. If the target is away or fails temporarily, the
// error wraps store.ErrGone or store.ErrTemporary.
func (r *Repository) Slots(ctx context.Context) ([]Slot, error) {
	slots, err := loadSlots(ctx, r.st, r.opt.KnownSlot, newKDFBudget())
	if err != nil {
		return nil, err
	}
	for _, s := range slots {
		if errors.Is(s.Err, store.ErrGone) || errors.Is(s.Err, store.ErrTemporary) {
			return nil, fmt.Errorf("read key %s: %w", s.ID.Short(), s.Err)
		}
	}
	for i := range slots {
		slots[i].Current = slots[i].ID == r.current()
	}
	slices.SortStableFunc(slots, func(a, b Slot) int {
		switch {
		case a.Slot == nil || b.Slot == nil:
			return boolRank(a.Slot == nil) - boolRank(b.Slot == nil)
		case a.Slot.Created != b.Slot.Created:
			return int(max(-1, min(1, a.Slot.Created-b.Slot.Created)))
		}
		return a.ID.Compare(b.ID)
	})
	return slots, nil
}

// current returns the slot that opened the repository.
func (r *Repository) current() format.ID {
	r.slotMu.Lock()
	defer r.slotMu.Unlock()
	return r.slot
}

func (r *Repository) setCurrent(id format.ID) {
	r.slotMu.Lock()
	defer r.slotMu.Unlock()
	r.slot = id
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// AddSlot stores another slot for the master key and returns its ID. Zero params mean the defaults. If the secret
// already opens a slot, the error is ErrKeyExists.
func (r *Repository) AddSlot(ctx context.Context, secret Secret, label string, params keyfile.Params) (
	format.ID, error,
) {
	if err := r.CheckNew(ctx, secret); err != nil {
		return format.ID{}, err
	}
	raw, err := wrapSlot(r.master, secret, params, label, r.now().Unix())
	if err != nil {
		return format.ID{}, err
	}
	return storeSlot(ctx, r.st, raw)
}

// CheckNew returns the error of AddSlot for a secret, without adding it.
func (r *Repository) CheckNew(ctx context.Context, secret Secret) error {
	spend := newKDFBudget()
	slots, err := loadSlots(ctx, r.st, r.current().String(), spend)
	if err != nil {
		return err
	}
	for _, s := range slots {
		if s.Slot == nil || s.Slot.Method != secret.Method || !spend.allows(s) {
			continue
		}
		// A slot of another master key is left over from an interrupted Init and opens nothing.
		if master, err := s.Slot.Unwrap(secret.Value); err == nil && master == r.master {
			return fmt.Errorf("add key: it is key %s: %w", s.ID.Short(), ErrKeyExists)
		}
	}
	return nil
}

// RemoveSlot removes the slot whose ID begins with prefix. It keeps the slot that opened the repository (ErrKeyInUse)
// and the last readable one (ErrLastKey).
func (r *Repository) RemoveSlot(ctx context.Context, prefix string) (format.ID, error) {
	id, err := r.Removable(ctx, prefix)
	if err != nil {
		return format.ID{}, err
	}
	name := object.Named(store.Key, id)
	raw, unread := object.ReadNamed(ctx, r.st, name, -1)
	if err := r.st.Delete(ctx, name); err != nil {
		return format.ID{}, fmt.Errorf("remove key %s: %w", id.Short(), err)
	}
	// Two runs that concurrently remove each other's key would leave none. Each checks after its own removal, so at
	// least the later one detects it.
	_, err = r.st.Stat(ctx, object.Named(store.Key, r.current()))
	switch {
	case err == nil:
		return id, nil
	case !errors.Is(err, store.ErrNotExist):
		return format.ID{}, fmt.Errorf("key %s is removed; look whether the one that opened the repository is "+
			"still there: %w",
			id.Short(), err)
	case unread != nil:
		return format.ID{}, fmt.Errorf("remove key %s: %w", id.Short(), ErrKeyGone)
	}
	if err := object.Put(ctx, r.st, name, raw, true); err != nil {
		return format.ID{}, fmt.Errorf("remove key %s: %w; put it back: %w", id.Short(), ErrKeyGone, err)
	}
	return format.ID{}, fmt.Errorf("remove key %s, which was put back: %w", id.Short(), ErrKeyGone)
}

// Removable returns the slot that RemoveSlot would remove, or its error.
func (r *Repository) Removable(ctx context.Context, prefix string) (format.ID, error) {
	slots, err := r.Slots(ctx)
	if err != nil {
		return format.ID{}, err
	}
	var match []format.ID
	var found Slot
	readable := 0
	for _, s := range slots {
		if s.Slot != nil {
			readable++
		}
		if prefix != "" && strings.HasPrefix(s.ID.String(), strings.ToLower(prefix)) {
			match = append(match, s.ID)
			found = s
		}
	}
	switch {
	case len(match) == 0:
		return format.ID{}, fmt.Errorf("remove key %q: %w", prefix, ErrNoKey)
	case len(match) > 1:
		return format.ID{}, fmt.Errorf("remove key: %w", ambiguousID(prefix, match))
	case found.Slot != nil && readable == 1:
		return format.ID{}, fmt.Errorf("remove key %s: %w", found.ID.Short(), ErrLastKey)
	case found.Current:
		return format.ID{}, fmt.Errorf("remove key %s: %w", found.ID.Short(), ErrKeyInUse)
	}
	return found.ID, nil
}

// RenewRecoveryKey makes a new recovery key and returns it; it is not stored anywhere. The slots of earlier recovery
// keys are removed once the new one is stored.
func (r *Repository) RenewRecoveryKey(ctx context.Context, label string) (string, error) {
	text, secret := keyfile.NewRecoveryKey()
	old, err := r.Slots(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range old {
		if s.away() { // an unreadable slot may be the one to remove
			return "", fmt.Errorf("read key %s: %w", s.ID.Short(), s.Err)
		}
	}
	id, err := r.AddSlot(ctx, Secret{Method: keyfile.Recovery, Value: secret}, label, keyfile.Params{})
	if err != nil {
		return "", err
	}
	for _, s := range old {
		if s.Slot == nil || s.Slot.Method != keyfile.Recovery {
			continue
		}
		if err := store.Discard(ctx, r.st, object.Named(store.Key, s.ID)); err != nil {
			return text, fmt.Errorf("remove the old recovery key %s: %w", s.ID.Short(), err)
		}
		if s.Current {
			r.setCurrent(id)
		}
	}
	return text, nil
}
