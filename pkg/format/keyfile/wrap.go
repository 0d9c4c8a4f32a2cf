package keyfile

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/zeebo/blake3"
	"golang.org/x/crypto/argon2"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// The contexts of BLAKE3's derive-key mode. They are fixed for ever.
const (
	contextKEK        = "github.com/tidemark-backup/tidemark v1 slot key"
	contextCommitment = "github.com/tidemark-backup/tidemark v1 slot commitment"
)

const (
	secretFileSize = 32 // bytes of a key file's secret
	recoverySize   = 20 // bytes of a recovery key's secret: 160 bits, 32 characters
	stretchedSize  = 32 // bytes that argon2id makes of a passphrase
)

// Wrap makes a slot that holds m under secret: the bytes of a passphrase as they were typed, or what NewSecretFile or
// NewRecoveryKey returned. params counts for a passphrase only; now is in seconds since 1970-01-01T00:00:00Z.
func Wrap(m seal.MasterKey, method Method, secret []byte, params Params, label string, now int64) (*Slot, error) {
	var salt [SaltSize]byte
	_, _ = rand.Read(salt[:]) // never fails
	return wrap(m, method, secret, params, label, now, salt)
}

func wrap(m seal.MasterKey, method Method, secret []byte, params Params, label string, now int64,
	salt [SaltSize]byte,
) (*Slot, error) {
	if method != Passphrase {
		params = Params{}
	}
	if err := errors.Join(checkSecret(method, secret), params.check(method)); err != nil {
		return nil, fmt.Errorf("wrap master key: %w", err)
	}
	if len(label) > MaxLabel {
		return nil, fmt.Errorf("wrap master key: label of %d bytes: want at most %d", len(label), MaxLabel)
	}
	s := &Slot{Method: method, Params: params, Salt: salt, Label: label, Created: now}
	kek, commitment := s.derive(secret)
	aead := seal.AEAD(kek)
	nonce := make([]byte, aead.NonceSize()) // zero: the salt makes the key unique, and it seals nothing else
	copy(s.wrapped[:], aead.Seal(nil, nonce, m[:], s.appendAuthenticated(nil)))
	s.commitment = commitment
	return s, nil
}

// Unwrap returns the master key. Its error wraps ErrWrongKey if the secret is another than the one the slot was made
// with; format.ErrCorrupt if the secret is right and the slot was tampered with.
func (s *Slot) Unwrap(secret []byte) (seal.MasterKey, error) {
	if err := s.Params.check(s.Method); err != nil {
		return seal.MasterKey{}, fmt.Errorf("open key slot: %w", err)
	}
	if checkSecret(s.Method, secret) != nil {
		return seal.MasterKey{}, fmt.Errorf("open key slot of a %s: %w", s.Method, ErrWrongKey)
	}
	kek, commitment := s.derive(secret)
	if subtle.ConstantTimeCompare(commitment[:], s.commitment[:]) != 1 {
		return seal.MasterKey{}, fmt.Errorf("open key slot of a %s: %w", s.Method, ErrWrongKey)
	}
	aead := seal.AEAD(kek)
	nonce := make([]byte, aead.NonceSize())
	plain, err := aead.Open(nil, nonce, s.wrapped[:], s.appendAuthenticated(nil))
	if err != nil {
		return seal.MasterKey{}, fmt.Errorf("open key slot: authentication failed: %w", format.ErrCorrupt)
	}
	return seal.MasterKey(plain), nil
}

func checkSecret(method Method, secret []byte) error {
	want := 0
	switch method {
	case Passphrase:
		if len(secret) == 0 {
			return errors.New("the passphrase is empty")
		}
		return nil
	case KeyFile:
		want = secretFileSize
	case Recovery:
		want = recoverySize
	default:
		return fmt.Errorf("no such method: %s", method)
	}
	if len(secret) != want {
		return fmt.Errorf("secret of a %s has %d bytes: want %d", method, len(secret), want)
	}
	return nil
}

// derive computes the wrapping key and the commitment. AES-GCM does not commit to its key: a crafted slot could open
// under two passphrases to two master keys. The commitment is a collision-resistant hash of the same input as the key,
// so a slot that matches it has one secret only. It reveals nothing about the key, because the contexts differ.
func (s *Slot) derive(secret []byte) (kek [seal.KeySize]byte, commitment [commitmentSize]byte) {
	stretched := secret
	if s.Method == Passphrase {
		p := s.Params
		stretched = argon2.IDKey(secret, s.Salt[:], p.Time, p.MemoryKiB, p.Threads, stretchedSize)
	}
	material := append([]byte{byte(s.Method)}, s.Salt[:]...)
	material = append(material, stretched...)
	blake3.DeriveKey(contextKEK, material, kek[:])
	blake3.DeriveKey(contextCommitment, material, commitment[:])
	return kek, commitment
}
