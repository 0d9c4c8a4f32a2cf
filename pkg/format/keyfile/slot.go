// Package keyfile is the codec of key slots: stored files that each hold the master key of a repository, wrapped under
// one secret. It also reads and writes the text of a key file, and the recovery key for printing. The specification is
// in SPEC.md.
package keyfile

import (
	"fmt"
	"math"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Method says what kind of secret opens a slot. The values are stored.
type Method uint8

// The methods.
const (
	Passphrase Method = 1 // chosen by a person: stretched by argon2id
	KeyFile    Method = 2 // 32 random bytes in a file
	Recovery   Method = 3 // 20 random bytes, printed

	// PublicKey is reserved for slots that hold only the keys that a writer needs. Version 1 does not open them.
	PublicKey Method = 4
)

// String returns the method in words.
func (m Method) String() string {
	switch m {
	case Passphrase:
		return "passphrase"
	case KeyFile:
		return "key file"
	case Recovery:
		return "recovery key"
	case PublicKey:
		return "write-only key"
	}
	return fmt.Sprintf("method %d", uint8(m))
}

// Params are the parameters of argon2id for a passphrase. The other methods have none: their secrets are random.
type Params struct {
	Time      uint32 // passes over the memory
	MemoryKiB uint32
	Threads   uint8 // lanes
}

// DefaultParams returns the second recommended option of RFC 9106, section 4: 3 passes over 64 MiB in 4 lanes. The
// first, 2 GiB, does not fit the small machines that are backed up as well.
func DefaultParams() Params { return Params{Time: 3, MemoryKiB: 64 << 10, Threads: 4} }

// Limits of what a slot may cost its reader: anyone who can write to the store can create a slot.
const (
	// MaxTime is the largest number of passes.
	MaxTime = 1 << 10
	// MaxMemoryKiB is the largest memory: 4 GiB.
	MaxMemoryKiB = 4 << 20
	// MaxWorkKiB is the largest product of passes and memory, 64 GiB: about a minute on one core of 2020.
	MaxWorkKiB = 64 << 20
	// MinMemoryPerThread is the least memory in KiB for each lane; argon2 has no smaller.
	MinMemoryPerThread = 8
)

// WorkKiB returns passes times memory: the cost of trying a secret.
func (p Params) WorkKiB() uint64 { return uint64(p.Time) * uint64(p.MemoryKiB) }

func (p Params) check(method Method) error {
	if method != Passphrase {
		if p != (Params{}) {
			return fmt.Errorf("a %s takes no argon2id parameters, got %+v", method, p)
		}
		return nil
	}
	switch {
	case p.Time < 1 || p.Time > MaxTime:
		return fmt.Errorf("argon2id passes %d: want 1 to %d", p.Time, MaxTime)
	case p.Threads < 1:
		return fmt.Errorf("argon2id threads %d: want 1 to 255", p.Threads)
	case p.MemoryKiB < MinMemoryPerThread*uint32(p.Threads) || p.MemoryKiB > MaxMemoryKiB:
		return fmt.Errorf("argon2id memory %d KiB: want %d (%d threads) to %d KiB", p.MemoryKiB,
			MinMemoryPerThread*uint32(p.Threads), p.Threads, MaxMemoryKiB)
	case p.WorkKiB() > MaxWorkKiB:
		return fmt.Errorf("argon2id with %d passes over %d KiB: the product exceeds %d KiB",
			p.Time, p.MemoryKiB, MaxWorkKiB)
	}
	return nil
}

const (
	// Version is the version of the layout this package reads and writes.
	Version = 1
	// MaxSize is the largest slot in bytes that is accepted.
	MaxSize = 1 << 12
	// MaxLabel is the longest label in bytes.
	MaxLabel = 1 << 10
	// SaltSize is the length of a slot's random salt in bytes.
	SaltSize = 32

	magic          = "TDMKSLOT"
	headerSize     = len(magic) + 4 // version, method, flags
	checksumSize   = format.IDSize
	commitmentSize = 32
	wrappedSize    = seal.KeySize + 16 // GCM's tag
)

// Tags of the fields. The wrapping authenticates those below tagCommitment; new ones get higher tags.
const (
	tagTime       = 1
	tagMemory     = 3
	tagThreads    = 5
	tagSalt       = 7
	tagLabel      = 8
	tagEpoch      = 9
	tagCreated    = 10
	tagCommitment = 11
	tagWrapped    = 13
)

// Slot is the master key, wrapped under one secret. Its ID, which is its name in the store, is seal.FileID of its
// encoding.
type Slot struct {
	Method  Method
	Params  Params // zero unless Method is Passphrase
	Salt    [SaltSize]byte
	Label   string // for display: user@host of its creation
	Epoch   uint32 // number of the master key; version 1 has 0 only
	Created int64  // seconds since 1970-01-01T00:00:00Z

	commitment [commitmentSize]byte // distinguishes the right secret from wrong ones
	wrapped    [wrappedSize]byte
}

// Encode returns s as it is stored.
func Encode(s *Slot) []byte {
	f := wire.NewFields(s.appendAuthenticated(make([]byte, 0, 256)))
	f.Bytes(tagCommitment, s.commitment[:])
	f.Bytes(tagWrapped, s.wrapped[:])
	p := f.Finish()
	sum := seal.FileID(p)
	return append(p, sum[:]...)
}

// appendAuthenticated appends everything in front of the commitment: what the wrapping takes as associated data.
func (s *Slot) appendAuthenticated(p []byte) []byte {
	p = append(p, magic...)
	p = append(p, Version, byte(s.Method))
	p = wire.AppendUint16(p, 0)
	one, f := *s, wire.NewFields(p)
	one.authenticated(f)
	return f.Finish()
}

// authenticated writes or reads the fields in front of the commitment. It reports whether there was a salt.
func (s *Slot) authenticated(f *wire.Fields) (salt bool) {
	s.Params.Time = uint32(f.UintMax(tagTime, uint64(s.Params.Time), MaxTime))
	s.Params.MemoryKiB = uint32(f.UintMax(tagMemory, uint64(s.Params.MemoryKiB), MaxMemoryKiB))
	s.Params.Threads = uint8(f.UintMax(tagThreads, uint64(s.Params.Threads), math.MaxUint8))
	salt = f.Array(tagSalt, s.Salt[:])
	s.Label = f.String(tagLabel, s.Label)
	s.Epoch = uint32(f.UintMax(tagEpoch, uint64(s.Epoch), math.MaxUint32))
	s.Created = f.Int(tagCreated, s.Created)
	return salt
}

// Decode reads a stored slot. Its error wraps format.ErrCorrupt, or format.ErrUnsupported for a slot of a newer
// program; other slots may still be usable.
func Decode(p []byte) (*Slot, error) {
	s := &Slot{}
	if err := s.decode(p); err != nil {
		return nil, fmt.Errorf("read key slot: %w", err)
	}
	return s, nil
}

func (s *Slot) decode(p []byte) error {
	if len(p) > MaxSize {
		return fmt.Errorf("%d bytes are more than %d: %w", len(p), MaxSize, format.ErrCorrupt)
	}
	body, err := s.header(p)
	if err != nil {
		return err
	}
	whole := false
	err = wire.ReadFields(body, func(f *wire.Fields) {
		salt := s.authenticated(f)
		commitment := f.Array(tagCommitment, s.commitment[:])
		whole = f.Array(tagWrapped, s.wrapped[:]) && commitment && salt
	})
	if err != nil {
		return err
	}
	if s.Epoch != 0 {
		return fmt.Errorf("key epoch %d: %w", s.Epoch, format.ErrUnsupported)
	}
	if !whole {
		return fmt.Errorf("a field is missing: %w", format.ErrCorrupt)
	}
	if len(s.Label) > MaxLabel {
		return fmt.Errorf("label of %d bytes: %w", len(s.Label), format.ErrCorrupt)
	}
	if err := s.Params.check(s.Method); err != nil {
		return fmt.Errorf("%w: %w", err, format.ErrCorrupt)
	}
	return nil
}

// header checks magic, version, method, flags and checksum and returns the fields between them. It checks the version
// first, so that a newer layout is not reported as damage.
func (s *Slot) header(p []byte) (body []byte, err error) {
	r := wire.NewReader(p)
	if got := r.Take(len(magic)); string(got) != magic {
		return nil, fmt.Errorf("not a key slot: %w", format.ErrCorrupt)
	}
	version := r.Byte()
	if version > Version {
		return nil, fmt.Errorf("version %d: %w", version, format.ErrUnsupported)
	}
	s.Method = Method(r.Byte())
	flags := r.Uint16()
	body = r.Take(max(0, r.Len()-checksumSize))
	sum := r.ID()
	switch {
	case r.Err() != nil:
		return nil, r.Err()
	case version < Version:
		return nil, fmt.Errorf("version %d never existed: %w", version, format.ErrCorrupt)
	case sum != seal.FileID(p[:len(p)-checksumSize]):
		return nil, fmt.Errorf("checksum differs: %w", format.ErrCorrupt)
	case flags != 0:
		return nil, fmt.Errorf("flags %#04x: %w", flags, format.ErrUnsupported)
	case s.Method < Passphrase || s.Method > Recovery:
		return nil, fmt.Errorf("%s: %w", s.Method, format.ErrUnsupported)
	}
	return body, nil
}
