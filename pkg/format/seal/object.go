package seal

import (
	"crypto/rand"
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// ObjectKind says what a sealed object holds. The values are stored.
type ObjectKind uint8

// The kinds of sealed objects.
const (
	IndexObject    ObjectKind = 1
	SnapshotObject ObjectKind = 2
	LeaseObject    ObjectKind = 3
	MarkObject     ObjectKind = 4
)

// String returns the kind in words.
func (k ObjectKind) String() string {
	switch k {
	case IndexObject:
		return "index segment"
	case SnapshotObject:
		return "snapshot"
	case LeaseObject:
		return "lease"
	case MarkObject:
		return "mark"
	}
	return fmt.Sprintf("object of kind %d", uint8(k))
}

// The header of a sealed object: magic, version, kind, flags, key epoch, salt.
const (
	// ObjectVersion is the version of the layout this package reads and writes.
	ObjectVersion = 1
	// ObjectHeaderSize is the length of the header in bytes.
	ObjectHeaderSize = offsetSalt + SaltSize
	// ObjectOverhead is by how many bytes a sealed object is longer than its content.
	ObjectOverhead = ObjectHeaderSize + tagSize

	objectMagic   = "TDMKSEAL"
	offsetVersion = 8
	offsetKind    = 9
	offsetFlags   = 10
	offsetEpoch   = 11
	offsetSalt    = 12
	tagSize       = 16 // GCM
	nonceSize     = 12 // GCM
)

// SealObject encrypts and authenticates plain as one stored file. Two calls never give the same bytes.
func (k *Keys) SealObject(kind ObjectKind, plain []byte) []byte {
	var salt [SaltSize]byte
	_, _ = rand.Read(salt[:]) // never fails
	return k.sealObject(kind, salt, plain)
}

func (k *Keys) sealObject(kind ObjectKind, salt [SaltSize]byte, plain []byte) []byte {
	if kind < IndexObject || kind > MarkObject {
		panic(fmt.Sprintf("seal %s: no such kind", kind)) // a mistake of the caller
	}
	sealed := make([]byte, 0, len(plain)+ObjectOverhead)
	sealed = append(sealed, objectMagic...)
	sealed = append(sealed, ObjectVersion, byte(kind), 0, 0)
	sealed = append(sealed, salt[:]...)
	var nonce [nonceSize]byte // zero: the key seals nothing else
	return k.object.aead(byte(kind), salt[:]).Seal(sealed, nonce[:], plain, sealed[:ObjectHeaderSize])
}

// OpenObject returns the content of a sealed object of that kind. Its error wraps format.ErrCorrupt if the object is
// damaged, of another kind or of another repository, and format.ErrUnsupported if a newer program wrote it.
func (k *Keys) OpenObject(kind ObjectKind, sealed []byte) ([]byte, error) {
	header, err := checkHeader(kind, sealed)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", kind, err)
	}
	var nonce [nonceSize]byte
	plain, err := k.object.aead(byte(kind), header[offsetSalt:]).Open(nil, nonce[:], sealed[ObjectHeaderSize:], header)
	if err != nil {
		return nil, fmt.Errorf("open %s: authentication failed: %w", kind, format.ErrCorrupt)
	}
	return plain, nil
}

func checkHeader(kind ObjectKind, sealed []byte) (header []byte, err error) {
	r := wire.NewReader(sealed)
	header = r.Take(ObjectHeaderSize)
	if r.Len() < tagSize {
		return nil, fmt.Errorf("%d bytes are too short: %w", len(sealed), format.ErrCorrupt)
	}
	r.Reset(header)
	if string(r.Take(len(objectMagic))) != objectMagic {
		return nil, fmt.Errorf("not a sealed object: %w", format.ErrCorrupt)
	}
	if v := r.Byte(); v > ObjectVersion {
		return nil, fmt.Errorf("version %d: %w", v, format.ErrUnsupported)
	} else if v < ObjectVersion {
		return nil, fmt.Errorf("version %d never existed: %w", v, format.ErrCorrupt)
	}
	if got := ObjectKind(r.Byte()); got > MarkObject {
		return nil, fmt.Errorf("%s: %w", got, format.ErrUnsupported)
	} else if got != kind {
		return nil, fmt.Errorf("it holds a different thing (%s): %w", got, format.ErrCorrupt)
	}
	if flags, epoch := r.Byte(), r.Byte(); flags != 0 || epoch != 0 {
		return nil, fmt.Errorf("flags %#02x, key epoch %d: %w", flags, epoch, format.ErrUnsupported)
	}
	return header, r.Err()
}
