package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// foundSlots are the key slots of a target, in the order in which they are tried.
type foundSlots struct {
	slots []Slot
	read  func(ctx context.Context, slots []Slot) ([]Slot, error) // reads further slots, and sorts them
	spend *kdfBudget                                              // of the tries
	err   error
}

// findSlots finds the slots of a repository that is being opened. likely is the ID of one that is probably there, "" if
// none is known. alone reads no other one if that takes no passphrase. known is called when its result is needed.
func findSlots(ctx context.Context, st store.Store, likely string, alone bool, known func() string) foundSlots {
	f := foundSlots{spend: newKDFBudget()}
	load := func(ctx context.Context, s Slot) (*keyfile.Slot, error) { return loadSlot(ctx, st, s) }
	if id, err := format.ParseID(likely); err == nil && !store.EndsWithProcess(st) { // a request takes a round trip
		ahead := sync.OnceValues(func() (*keyfile.Slot, error) { return loadSlot(ctx, st, Slot{ID: id, size: -1}) })
		go ahead() //nolint:errcheck // load returns it
		load = func(ctx context.Context, s Slot) (*keyfile.Slot, error) {
			if s.ID == id {
				if slot, err := ahead(); err == nil {
					return slot, nil
				}
			}
			return loadSlot(ctx, st, s)
		}
	}
	f.read = func(ctx context.Context, slots []Slot) ([]Slot, error) { return readSlots(ctx, slots, load, known) }
	if f.slots, f.err = listSlots(ctx, st, known, f.spend); f.err != nil {
		return f
	}
	at := slices.IndexFunc(f.slots, func(s Slot) bool { return alone && s.ID.String() == likely })
	if at >= 0 {
		f.slots[0], f.slots[at] = f.slots[at], f.slots[0]
		f.slots[0].Slot, f.slots[0].Err = load(ctx, f.slots[0])
		if s := f.slots[0].Slot; s != nil && s.Method != keyfile.Passphrase {
			return f
		}
	}
	f.slots, f.err = f.read(ctx, f.slots)
	return f
}

// listSlots lists the key slots. Those beyond maxSlots are left out. known is called when its result is needed.
func listSlots(ctx context.Context, st store.Store, known func() string, e *kdfBudget) (listed []Slot, err error) {
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
		listed = append(listed, Slot{ID: id, size: info.Size})
	}
	return listed, nil
}

// loadSlots lists and reads all key slots.
func loadSlots(ctx context.Context, st store.Store, known string, e *kdfBudget) ([]Slot, error) {
	listed, err := listSlots(ctx, st, func() string { return known }, e)
	if err != nil {
		return nil, err
	}
	load := func(ctx context.Context, s Slot) (*keyfile.Slot, error) { return loadSlot(ctx, st, s) }
	return readSlots(ctx, listed, load, func() string { return known })
}

// readSlots reads those slots that were not read, and returns all in the order in which they are tried. Random secrets
// come first, because each passphrase takes a tenth of a second and much memory. Within each kind the known slot comes
// first, then the cheaper ones. An unreadable slot does not stop the others.
func readSlots(ctx context.Context, listed []Slot, load func(context.Context, Slot) (*keyfile.Slot, error),
	known func() string) ([]Slot, error) {
	var slots []Slot
	err := object.InOrder(ctx, len(listed), object.SmallAtOnce,
		func(ctx context.Context, i int) (Slot, error) {
			slot := listed[i]
			if slot.Unread() {
				slot.Slot, slot.Err = load(ctx, slot)
			}
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

func loadSlot(ctx context.Context, st store.Store, listed Slot) (*keyfile.Slot, error) {
	name := object.Named(store.Key, listed.ID)
	if listed.size > keyfile.MaxSize {
		return nil, fmt.Errorf("%s: %d bytes are too many: %w", name.Path(), listed.size, format.ErrCorrupt)
	}
	raw, err := object.ReadNamed(ctx, st, name, listed.size)
	if err != nil {
		return nil, err
	}
	slot, err := keyfile.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name.Path(), err)
	}
	return slot, nil
}

// unlock tries the slots until one yields the master key that authenticates the config.
func unlock(ctx context.Context, found *foundSlots, opt OpenOptions, conf []byte) (unlocked, error) {
	if found.err != nil {
		return unlocked{}, found.err
	}
	var damage, forged, away error
	for i := 0; i < len(found.slots); i++ {
		if found.slots[i].Unread() { // the known one does not open
			rest, err := found.read(ctx, found.slots[i:])
			if err != nil {
				return unlocked{}, err
			}
			if found.slots = append(found.slots[:i:i], rest...); i == len(found.slots) {
				break
			}
		}
		s := found.slots[i]
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
	keys := seal.Derive(master)
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
