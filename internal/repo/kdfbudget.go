package repo

import (
	"fmt"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// The limits of one opening on key slots. Anyone who can write to the store can add slots, and each slot defines how
// much argon2id work a try of a passphrase costs. The slot that opened the repository before has no limit: its ID is
// the hash of its content, so it is unchanged.
const (
	// maxSlots is how many slots are read. A repository has one per person and machine, and a recovery key.
	maxSlots = 256
	// maxSlotMemoryKiB is the memory of one slot: four times that of keyfile.DefaultParams, about as much as a backup
	// takes.
	maxSlotMemoryKiB = 256 << 10
	// maxWorkKiB is the sum over all slots of passes times memory: that of 16 slots with keyfile.DefaultParams. Each
	// takes about a tenth of a second.
	maxWorkKiB = 16 * 3 * (64 << 10)
)

// kdfBudget is the remaining budget for the slots of one opening, and the slots that were refused.
type kdfBudget struct {
	workKiB uint64
	refused []string // each with the reason
}

func newKDFBudget() *kdfBudget { return &kdfBudget{workKiB: maxWorkKiB} }

// allows reports whether a slot may be tried, and subtracts its cost.
func (e *kdfBudget) allows(s Slot) bool {
	p := s.Slot.Params
	switch work := p.WorkKiB(); {
	case s.Known:
	case p.MemoryKiB > maxSlotMemoryKiB:
		e.refuse(s.ID, fmt.Sprintf("it asks for %d MiB of memory, at most %d MiB are given", p.MemoryKiB>>10,
			maxSlotMemoryKiB>>10))
		return false
	case work > e.workKiB:
		e.refuse(s.ID, fmt.Sprintf("its %d passes over %d MiB would take too long", p.Time, p.MemoryKiB>>10))
		return false
	default:
		e.workKiB -= work
	}
	return true
}

func (e *kdfBudget) refuse(id format.ID, why string) {
	e.refused = append(e.refused, fmt.Sprintf("%s (%s)", id.Short(), why))
}

// explain adds to an error the slots that were not tried. It returns err unchanged if all were tried.
func (e *kdfBudget) explain(err error) error {
	const shown = 3
	if err == nil || len(e.refused) == 0 {
		return err
	}
	list := strings.Join(e.refused[:min(shown, len(e.refused))], ", ")
	if more := len(e.refused) - shown; more > 0 {
		list += fmt.Sprintf(", and %d more", more)
	}
	return fmt.Errorf("%w; key slots that were not tried: %s: tidemark makes no such slots, so another program may "+
		"have put them there: remove them from the folder keys of the repository, or use a key file or the recovery key",
		err, list)
}
