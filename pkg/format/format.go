// Package format holds what all on-disk formats of a tidemark repository share: the ID of a blob or a stored file, and
// the errors of decoders. Each format is a package below it, with its specification in SPEC.md.
//
// These packages do no I/O, start no goroutine and import nothing from internal/. With them alone a repository can be
// read: TestRestoreWithPkgAlone does that.
package format

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
)

// IDSize is the length of an ID in bytes: the output size of BLAKE3-256.
const IDSize = 32

// ID identifies immutable bytes. The ID of a blob is its keyed BLAKE3-256, with a key that is derived from the master
// key. The ID of a stored file is the plain BLAKE3-256 of its bytes, so that anyone can verify it. Of the ID
// of a pack one bit is its kind.
type ID [IDSize]byte

// String returns the 64 lower-case hexadecimal digits of id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Short returns the first eight hexadecimal digits, for display.
func (id ID) Short() string { return hex.EncodeToString(id[:4]) }

// IsZero reports whether id is all zero, which means "none".
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders IDs by their bytes: -1, 0 or +1.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// MarshalText writes the hexadecimal form, so that an ID in JSON is a string.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the hexadecimal form.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// ParseID reads exactly 64 hexadecimal digits.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*IDSize {
		return ID{}, fmt.Errorf("parse id %q: want %d hexadecimal digits, got %d", s, 2*IDSize, len(s))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("parse id %q: %w", s, err)
	}
	return id, nil
}

// Decoders wrap one of these errors, to distinguish damage from the format of a newer program.
var (
	// ErrCorrupt: the bytes are not what an encoder of this format writes, or their authentication failed.
	ErrCorrupt = errors.New("data is damaged")
	// ErrUnsupported: the version is newer than this program, or an unknown flag is set that must be understood.
	ErrUnsupported = errors.New("written by a newer version of tidemark; update this program")
)
