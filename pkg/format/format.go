// Package format holds what every on-disk format of a tidemark repository shares: the identifier of a blob or a stored
// file, and the errors a decoder returns. The formats themselves live in the packages below it, one package each, with
// the specification beside the code.
//
// Nothing below pkg/format does I/O, starts a goroutine or imports anything from internal/: together these packages are
// the recovery kit with which a repository can be read without the rest of the program.
package format

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
)

// IDSize is the length of an ID in bytes: the output size of BLAKE3-256.
const IDSize = 32

// ID names immutable bytes. The ID of a blob is its keyed BLAKE3-256 (the key is derived from the repository's master
// key, so an ID says nothing to someone without it); the ID of a stored file is the plain BLAKE3-256 of the file as it
// lies in the store, so that anyone can verify it.
type ID [IDSize]byte

// String returns the 64 lower-case hexadecimal digits of id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Short returns the first eight hexadecimal digits, the form shown to people.
func (id ID) Short() string { return hex.EncodeToString(id[:4]) }

// IsZero reports whether id is all zero, which no content has in practice and which stands for "none".
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

// Decoders wrap one of these, so that a caller can tell damage from a newer program's work.
var (
	// ErrCorrupt: the bytes are not what an encoder of this format writes, or their authentication failed.
	ErrCorrupt = errors.New("data is damaged")
	// ErrUnsupported: the version is newer than this program, or a flag is set that must be understood and is not.
	ErrUnsupported = errors.New("written by a newer version of tidemark; update this program")
)
