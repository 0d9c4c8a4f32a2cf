package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Secret opens slots of one method: the bytes of a passphrase, or what keyfile's parsers return.
type Secret struct {
	Method keyfile.Method
	Value  []byte
}

// UnlockWith tries on each slot the first secret of the slot's method.
func UnlockWith(secrets ...Secret) func(*keyfile.Slot) ([]byte, error) {
	return func(s *keyfile.Slot) ([]byte, error) {
		for _, secret := range secrets {
			if secret.Method == s.Method {
				return secret.Value, nil
			}
		}
		return nil, nil
	}
}

// Slot is one key slot of the target.
type Slot struct {
	ID      format.ID
	Slot    *keyfile.Slot // nil if it cannot be read
	Current bool          // it opened the repository
	Known   bool          // it opened the repository before, on this machine
	Err     error         // why it cannot be read
}

// unlocked is the result of opening a slot.
type unlocked struct {
	master seal.MasterKey
	keys   *seal.Keys
	slot   format.ID
}

// foundSlots are the key slots of a target, in the order in which they are tried.
type foundSlots struct {
	slots []Slot
	spend *kdfBudget // of the tries
	err   error
}

// findSlots finds the slots of a repository that is being opened. likely is the ID of one that is probably there, "" if
// none is known.
func findSlots(ctx context.Context, st store.Store, likely string, known func() string) foundSlots {
	f := foundSlots{spend: newKDFBudget()}
	f.slots, f.err = loadSlots(readAhead(ctx, st, likely), st, known, f.spend)
	return f
}

// loadSlots reads the key slots in the order in which they are tried. Random secrets come first, because each
// passphrase takes a tenth of a second and much memory. Within each kind the known slot comes first, then the cheaper
// ones. An unreadable slot does not stop the others. Beyond maxSlots slots are not read. known is called when its
// result is needed.
func loadSlots(ctx context.Context, st store.Store, known func() string, e *kdfBudget) ([]Slot, error) {
	var listed []format.ID
	var infos []store.Info
	for info, err := range st.List(ctx, store.Key) {
		if err != nil {
			return nil, fmt.Errorf("list keys: %w", err)
		}
		id, err := format.ParseID(info.Name.ID)
		if err != nil {
			continue // not a name of this program
		}
		if len(listed) >= maxSlots && info.Name.ID != known() {
			e.refuse(id, fmt.Sprintf("no more than %d are read", maxSlots))
			continue
		}
		listed, infos = append(listed, id), append(infos, info)
	}
	var slots []Slot
	err := object.InOrder(ctx, len(infos), object.SmallAtOnce,
		func(ctx context.Context, i int) (Slot, error) {
			slot := Slot{ID: listed[i]}
			slot.Slot, slot.Err = loadSlot(ctx, st, infos[i])
			return slot, nil
		},
		func(_ int, slot Slot) error {
			if slot.Known = slot.ID.String() == known(); !errors.Is(slot.Err, store.ErrNotExist) { // else removed concurrently
				slots = append(slots, slot)
			}
			return nil
		})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	rank := func(s Slot) int {
		switch {
		case s.Slot == nil:
			return 3
		case s.Slot.Method == keyfile.Passphrase:
			return 2
		case s.Slot.Method == keyfile.Recovery:
			return 1
		}
		return 0
	}
	slices.SortFunc(slots, func(a, b Slot) int {
		switch d := rank(a) - rank(b); {
		case d != 0:
			return d
		case a.Known != b.Known:
			return boolRank(b.Known) - boolRank(a.Known)
		case a.Slot != nil && b.Slot != nil && a.Slot.Params.WorkKiB() != b.Slot.Params.WorkKiB():
			return cmp.Compare(a.Slot.Params.WorkKiB(), b.Slot.Params.WorkKiB())
		}
		return a.ID.Compare(b.ID)
	})
	return slots, nil
}

func loadSlot(ctx context.Context, st store.Store, info store.Info) (*keyfile.Slot, error) {
	if info.Size > keyfile.MaxSize {
		return nil, fmt.Errorf("%s: %d bytes are too many: %w", info.Name.Path(), info.Size, format.ErrCorrupt)
	}
	raw, err := readSlot(ctx, st, info)
	if err != nil {
		return nil, err
	}
	slot, err := keyfile.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Name.Path(), err)
	}
	return slot, nil
}

// unlock tries the slots until one yields the master key that authenticates the config.
func unlock(found foundSlots, opt OpenOptions, conf []byte) (unlocked, error) {
	if found.err != nil {
		return unlocked{}, found.err
	}
	var damage, forged, away error
	for _, s := range found.slots {
		if s.Err != nil {
			if damage = s.Err; s.away() {
				away = s.Err
			}
			continue
		}
		if opt.Unlock == nil {
			continue
		}
		secret, err := opt.Unlock(s.Slot)
		if err != nil {
			return unlocked{}, fmt.Errorf("%w%s", err, damagedIn(found.slots))
		}
		if secret == nil || !found.spend.allows(s) {
			continue
		}
		key, err := tryslot(s, secret, conf)
		if s.Slot.Method == keyfile.Passphrase {
			// Stretching a passphrase took 64 MiB or more. Until the next garbage collection they would add to all
			// later memory and be the peak of a short run.
			debug.FreeOSMemory()
		}
		switch {
		case err == nil:
			return key, nil
		case errors.Is(err, ErrWrongKey):
		case errors.Is(err, errForeign):
			forged = err
		default:
			damage = err
		}
	}
	if away != nil { // this slot may be the one that fits
		return unlocked{}, fmt.Errorf("read key: %w", away)
	}
	return unlocked{}, found.spend.explain(whyLocked(found.slots, damage, forged))
}

// away reports whether the slot could not be read because the target failed.
func (s *Slot) away() bool {
	return s.Err != nil && !object.IsDamage(s.Err) && !errors.Is(s.Err, format.ErrUnsupported)
}

// Damaged reports whether the content of the slot is not what was stored.
func (s *Slot) Damaged() bool { return s.Err != nil && object.IsDamage(s.Err) }

// FoundSlots returns the key slots that Open found, in no order; nil if there are more than it reads.
func (r *Repository) FoundSlots() []Slot {
	if len(r.found) >= maxSlots {
		return nil
	}
	return r.found
}

// errForeign: the slot opens, but its master key does not authenticate the config.
var errForeign = fmt.Errorf("the key fits its slot but not the config: %w", format.ErrCorrupt)

// tryslot opens one slot. A slot that opens may belong to another master key: an interrupted Init leaves slots without
// a config.
func tryslot(s Slot, secret, conf []byte) (unlocked, error) {
	master, err := s.Slot.Unwrap(secret)
	if err != nil {
		return unlocked{}, fmt.Errorf("key %s: %w", s.ID.Short(), err)
	}
	keys, err := seal.Derive(master)
	if err != nil {
		return unlocked{}, err
	}
	if err := config.Verify(conf, keys); err != nil {
		return unlocked{}, fmt.Errorf("%w (%w)", errForeign, err)
	}
	return unlocked{master: master, keys: keys, slot: s.ID}, nil
}

// whyLocked selects the error to return when no slot opened the repository.
func whyLocked(slots []Slot, damage, forged error) error {
	switch {
	case len(slots) == 0:
		return fmt.Errorf("all key slots are missing; put a file from a copy of the folder keys back: %w", format.ErrCorrupt)
	case forged != nil:
		return fmt.Errorf("%w; put the file config and the folder keys back from a copy of the repository", forged)
	case damage != nil:
		return fmt.Errorf("%w; a key slot cannot be read: %w%s%s", ErrWrongKey, damage, damagedIn(slots), keysIn(slots))
	}
	return fmt.Errorf("%w%s", ErrWrongKey, keysIn(slots))
}

// damagedIn names the damaged slots: one may be that of a key that was tried.
func damagedIn(slots []Slot) (text string) {
	for i := range slots {
		if slots[i].Damaged() {
			text += fmt.Sprintf("; a key is damaged: put the file keys/%s back from a copy of the repository", slots[i].ID)
		}
	}
	return text
}

// keysIn lists the keys that open the repository. A slot may have been deleted, so that its key is none of them.
func keysIn(slots []Slot) string {
	const shown = 4
	var list []string
	for i := range slots {
		switch s := slots[i].Slot; {
		case s == nil:
		case s.Method == keyfile.Recovery:
			list = append(list, s.Method.String())
		default:
			list = append(list, fmt.Sprintf("%s of %q", s.Method, s.Label))
		}
	}
	if len(list) == 0 {
		return ""
	}
	if more := len(list) - shown; more > 0 {
		list = append(list[:shown], fmt.Sprintf("%d more", more))
	}
	return "; give one of the keys that it has: " + strings.Join(list, ", ")
}

// putSlot wraps the master key under secret, stores the slot, reads it back and tries it.
func putSlot(ctx context.Context, st store.Store, master seal.MasterKey, secret Secret, params keyfile.Params,
	label string, now int64,
) (format.ID, error) {
	raw, err := wrapSlot(master, secret, params, label, now)
	if err != nil {
		return format.ID{}, err
	}
	return storeSlot(ctx, st, raw)
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
	slots, err := loadSlots(ctx, r.st, func() string { return r.opt.KnownSlot }, newKDFBudget())
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
	return putSlot(ctx, r.st, r.master, secret, params, label, r.now().Unix())
}

// CheckNew returns the error of AddSlot for a secret, without adding it.
func (r *Repository) CheckNew(ctx context.Context, secret Secret) error {
	spend := newKDFBudget()
	slots, err := loadSlots(ctx, r.st, func() string { return r.current().String() }, spend)
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
	text, secret, err := keyfile.NewRecoveryKey()
	if err != nil {
		return "", err
	}
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
