// Package seal turns the master key of a repository into everything cryptographic: the IDs of blobs, the key of the
// chunker, the AEAD of a pack, the sealing of small objects, and the authentication of the config. SPEC.md beside this
// file is the exact description.
//
// It knows nothing of how the master key is kept (that is package keyfile) nor of what the sealed bytes mean.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"io"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	// KeySize is the length in bytes of the master key and of every key derived from it.
	KeySize = 32
	// SaltSize is the length in bytes of the random salt of a pack or a sealed object. 256 bits never repeat, so every
	// pack and object has a key of its own and its nonces may be counters.
	SaltSize = 32
)

// The contexts of BLAKE3's derive-key mode, one per sub-key. They are fixed for ever: a change needs a new version of
// the format.
const (
	contextBlob    = "github.com/tidemark-backup/tidemark v1 blob id"
	contextChunker = "github.com/tidemark-backup/tidemark v1 chunker"
	contextPack    = "github.com/tidemark-backup/tidemark v1 pack"
	contextObject  = "github.com/tidemark-backup/tidemark v1 object"
	contextConfig  = "github.com/tidemark-backup/tidemark v1 config"
)

// redacted is what any of the secrets here prints as.
const redacted = "[redacted]"

// MasterKey is the secret from which every key of a repository is derived. However it is printed, it does not show.
type MasterKey [KeySize]byte

// NewMasterKey returns a random key.
func NewMasterKey() (m MasterKey) {
	_, _ = rand.Read(m[:]) // never fails
	return m
}

// Format prints a placeholder under every verb.
func (MasterKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// String returns a placeholder.
func (MasterKey) String() string { return redacted }

// GoString returns a placeholder.
func (MasterKey) GoString() string { return redacted }

// MarshalText returns a placeholder, so that the key stays out of JSON and of structured logs.
func (MasterKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Keys holds the sub-keys of one repository. It is safe for concurrent use and, printed, does not show them.
type Keys struct {
	blob    *blake3.Hasher // keyed; a prototype that is only cloned
	config  *blake3.Hasher // likewise
	pack    kindKeys
	object  kindKeys
	chunker [KeySize]byte
}

// Derive computes the sub-keys of m.
func Derive(m MasterKey) *Keys {
	sub := func(context string) (key [KeySize]byte) {
		blake3.DeriveKey(context, m[:], key[:])
		return key
	}
	return &Keys{blob: keyed(sub(contextBlob)), config: keyed(sub(contextConfig)), chunker: sub(contextChunker),
		pack: newKindKeys(sub(contextPack)), object: newKindKeys(sub(contextObject))}
}

// keyed returns a hasher with a key.
func keyed(key [KeySize]byte) *blake3.Hasher { return must(blake3.NewKeyed(key[:])) }

// must returns v. An error would say that a key has another length than the algorithm wants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Format prints a placeholder under every verb.
func (Keys) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalText returns a placeholder.
func (Keys) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Hasher returns a new hasher of blob IDs.
func (k *Keys) Hasher() *Hasher { return &Hasher{state: k.blob.Clone()} }

// ChunkerKey returns the secret that decides where the chunker cuts, so that the sizes of chunks do not betray known
// content to someone without the key.
func (k *Keys) ChunkerKey() [KeySize]byte { return k.chunker }

// PackAEAD returns the AES-256-GCM of the pack with that kind and salt. The result may be used by several goroutines.
func (k *Keys) PackAEAD(kind byte, salt [SaltSize]byte) cipher.AEAD {
	return k.pack.aead(kind, salt[:])
}

// ConfigMAC authenticates the bytes of the config in front of its MAC.
func (k *Keys) ConfigMAC(p []byte) [KeySize]byte { return keyedSum(k.config, p) }

// FileID returns the plain BLAKE3-256 of a stored file, which is its name; see pack.ID for packs.
func FileID(p []byte) format.ID { return blake3.Sum256(p) }

// Hasher computes the IDs of blobs, one after the other. It is not safe for concurrent use: take one per goroutine.
type Hasher struct {
	state *blake3.Hasher
	id    format.ID // output buffer; a field, so that it need not be allocated for each blob
}

// ID returns the keyed BLAKE3-256 of p. It does not allocate.
func (h *Hasher) ID(p []byte) format.ID {
	h.state.Reset()
	_, _ = h.state.Write(p) // never fails
	h.state.Sum(h.id[:0])
	return h.id
}

// Format prints a placeholder under every verb: the state holds the key.
func (Hasher) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// keyedSum returns the keyed hash of p under the key of prototype.
func keyedSum(prototype *blake3.Hasher, p []byte) (sum [KeySize]byte) {
	h := prototype.Clone()
	_, _ = h.Write(p) // never fails
	h.Sum(sum[:0])
	return sum
}

// kindKeys derives the keys of files from those of their kinds, so that the key of one kind can be handed out
// alone, and a file cannot pass for one of another kind. The first hasher has the sub-key, the one at n the key of
// kind n. They are prototypes.
type kindKeys [maxKind + 1]*blake3.Hasher

// maxKind is the largest kind of a pack or an object of version 1.
const maxKind = byte(MarkObject)

func newKindKeys(sub [KeySize]byte) (k kindKeys) {
	k[0] = keyed(sub)
	for kind := byte(1); kind <= maxKind; kind++ {
		k[kind] = keyed(keyedSum(k[0], []byte{kind}))
	}
	return k
}

// aead returns the AES-256-GCM of one file. It may be of a kind that only a newer program knows.
func (k *kindKeys) aead(kind byte, salt []byte) cipher.AEAD {
	if kind > 0 && kind <= maxKind {
		return AEAD(keyedSum(k[kind], salt))
	}
	return AEAD(keyedSum(keyed(keyedSum(k[0], []byte{kind})), salt))
}

// AEAD returns AES-256-GCM with that key.
func AEAD(key [KeySize]byte) cipher.AEAD { return must(cipher.NewGCM(must(aes.NewCipher(key[:])))) }
