// Package lease is the codec of leases: records of the presence of a writer, which expire. The bytes are the content of
// sealed objects; the caller seals them, and judges by the clock of the target when a lease has expired. The
// specification is in SPEC.md.
package lease

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// ID identifies a writer. It is random, and begins the name of the lease in the store.
type ID [16]byte

// NewID returns a random ID.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// String returns the 32 lower-case hexadecimal digits of id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Lease describes a writer. It expires by the modification time of its file in the store. The times in the record are
// by the writer's clock, for display.
type Lease struct {
	ID        ID // begins the name of the file, which binds the content to the name
	Host      string
	PID       uint32 // process on Host
	Started   int64  // seconds since 1970-01-01T00:00:00Z
	Heartbeat int64  // of this writing, likewise

	Acknowledged []format.ID // marks that this writer has read and obeys; ascending, none twice
	Task         string      // what it does, if only one writer may do that at a time: "prune"

	Renewal uint32 // how often the lease was renewed before this writing
}

// Name returns the name of the file that holds this renewal. Every renewal has its own name, the next one, and its file
// is put before the previous one is deleted. So the writer always has a lease, and another program can take its next
// name to keep it from being renewed.
func (l *Lease) Name() string { return fmt.Sprintf("%s%08x", l.ID, l.Renewal) }

// nameLength is the number of digits of a name, idLength of those that all names of a writer have in common.
const (
	idLength   = 2 * len(ID{})
	nameLength = idLength + 8
)

// IsName reports whether a file name has the form of that of a lease.
func IsName(name string) bool { return len(name) == nameLength }

// WriterOf returns the part of a file name that all renewals of one writer have in common.
func WriterOf(name string) string {
	if len(name) != nameLength {
		return name
	}
	return name[:idLength]
}

// NextName returns the name of the renewal after the one of this name; false if there is none.
func NextName(name string) (string, bool) {
	if len(name) != nameLength {
		return "", false
	}
	n, err := strconv.ParseUint(name[idLength:], 16, 32)
	if err != nil || n == math.MaxUint32 {
		return "", false
	}
	return fmt.Sprintf("%s%08x", name[:idLength], n+1), true
}

// probeLength is the number of digits of the name of a probe.
const probeLength = 8

// ProbeName returns a random name that is none of a lease, for a program that tries what the store does with such a
// name.
func ProbeName() string {
	var random [probeLength / 2]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// IsProbe reports whether a file name is that of a probe. Such a file is no lease.
func IsProbe(name string) bool { return len(name) == probeLength }

// Tags of the fields of a lease.
const (
	tagID           = 1
	tagHost         = 2
	tagPID          = 4
	tagStarted      = 6
	tagHeartbeat    = 8
	tagAcknowledged = 10
	tagTask         = 12
	tagRenewal      = 14
)

// Encode returns the content of a lease object. Acknowledged may be in any order and repeat.
func Encode(l *Lease) []byte {
	one, f := *l, wire.NewFields(nil)
	one.fields(f)
	return f.Finish()
}

// fields writes or reads l.
func (l *Lease) fields(f *wire.Fields) {
	f.Array(tagID, l.ID[:])
	l.Host = f.String(tagHost, l.Host)
	l.PID = uint32(f.UintMax(tagPID, uint64(l.PID), math.MaxUint32))
	l.Started = f.Int(tagStarted, l.Started)
	l.Heartbeat = f.Int(tagHeartbeat, l.Heartbeat)
	l.Acknowledged = f.Set(tagAcknowledged, l.Acknowledged, "marks")
	l.Task = f.String(tagTask, l.Task)
	l.Renewal = uint32(f.UintMax(tagRenewal, uint64(l.Renewal), math.MaxUint32))
}

// Decode reads the content of a lease object. Its error wraps format.ErrCorrupt, or format.ErrUnsupported if the lease
// needs a newer program.
func Decode(p []byte) (*Lease, error) {
	l := &Lease{}
	err := wire.ReadFields(p, l.fields)
	if err == nil && l.ID == (ID{}) {
		err = fmt.Errorf("it has no id: %w", format.ErrCorrupt)
	}
	if err != nil {
		return nil, fmt.Errorf("read lease: %w", err)
	}
	return l, nil
}
