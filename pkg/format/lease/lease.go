// Package lease is the codec of leases: a writer's expiring presence, by which machines that share a repository stay out
// of each other's way. The bytes here are the content of sealed objects; sealing is the caller's. SPEC.md beside this file
// is the exact description.
//
// It knows nothing of time: when a lease has expired is judged by its caller, with the target's clock.
package lease

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// ID tells leases apart. It is random, and is the name of the lease in the store.
type ID [16]byte

// NewID returns a random ID.
func NewID() (ID, error) {
	var id ID
	if _, err := rand.Read(id[:]); err != nil {
		return ID{}, fmt.Errorf("read random lease id: %w", err)
	}
	return id, nil
}

// String returns the 32 lower-case hexadecimal digits of id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Lease is what a writer says of itself. Whether it lives is told by the time at which the store says its file was
// last written; the times in here are by the writer's own clock and serve people.
type Lease struct {
	ID        ID // also the name of the file, so that no lease can be passed off as another
	Host      string
	PID       uint32 // process on Host
	Started   int64  // seconds since 1970-01-01T00:00:00Z
	Heartbeat int64  // of this writing, likewise

	Heeds []format.ID // marks that this writer has read and obeys; ascending, none twice
	Task  string      // what it does, if only one writer may do that at a time: "prune"
}

// Tags of the fields of a lease.
const (
	tagID        = 1
	tagHost      = 2
	tagPID       = 4
	tagStarted   = 6
	tagHeartbeat = 8
	tagHeeds     = 10
	tagTask      = 12
)

// Encode returns the content of a lease object. Heeds may be in any order and repeat.
func Encode(l *Lease) []byte {
	f := wire.NewFields(nil)
	f.Bytes(tagID, l.ID[:])
	f.String(tagHost, l.Host)
	f.Uint(tagPID, uint64(l.PID))
	f.Int(tagStarted, l.Started)
	f.Int(tagHeartbeat, l.Heartbeat)
	heeds := slices.Clone(l.Heeds)
	slices.SortFunc(heeds, format.ID.Compare)
	f.IDs(tagHeeds, slices.Compact(heeds))
	f.String(tagTask, l.Task)
	return f.Finish()
}

// Decode reads the content of a lease object. Its error wraps format.ErrCorrupt, or format.ErrUnsupported if the lease
// needs a newer program.
func Decode(p []byte) (*Lease, error) {
	l := &Lease{}
	err := wire.DecodeFields(p, func(tag uint64, value *wire.Reader) bool {
		switch tag {
		case tagID:
			copy(l.ID[:], value.Take(len(l.ID)))
		case tagHost:
			l.Host = value.Text()
		case tagPID:
			l.PID = uint32(value.UvarintMax(1<<32 - 1))
		case tagStarted:
			l.Started = value.Varint()
		case tagHeartbeat:
			l.Heartbeat = value.Varint()
		case tagHeeds:
			l.Heeds = value.IDs()
			for i := 1; i < len(l.Heeds); i++ {
				if l.Heeds[i-1].Compare(l.Heeds[i]) >= 0 {
					value.Fail("marks do not ascend")
				}
			}
		case tagTask:
			l.Task = value.Text()
		default:
			return false
		}
		return true
	})
	if err == nil && l.ID == (ID{}) {
		err = fmt.Errorf("it has no id: %w", format.ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("read lease: %w", err)
	}
	return l, nil
}
