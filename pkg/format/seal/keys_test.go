package seal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
)

// testMaster is 0, 1, 2, ...: the master key of all vectors.
func testMaster() (m MasterKey) {
	for i := range m {
		m[i] = byte(i)
	}
	return m
}

func testKeys(t testing.TB) *Keys {
	t.Helper()
	keys := Derive(testMaster())
	return keys
}

// specKey derives a sub-key by what the specification says, without the code under test.
func specKey(t testing.TB, name string) []byte {
	t.Helper()
	context, ok := spectest.Texts(t, "SPEC.md", "Sub-keys", "Sub-key", "Context")[name]
	require.True(t, ok, "no sub-key %s in SPEC.md", name)
	master := testMaster()
	key := make([]byte, KeySize)
	blake3.DeriveKey(context, master[:], key)
	return key
}

func specHash(t testing.TB, key []byte, parts ...[]byte) (sum [32]byte) {
	t.Helper()
	h, err := blake3.NewKeyed(key)
	require.NoError(t, err)
	_, _ = h.Write(bytes.Join(parts, nil))
	h.Sum(sum[:0])
	return sum
}

// TestSubKeysFollowSpec computes every derived value from the contexts in SPEC.md.
func TestSubKeysFollowSpec(t *testing.T) {
	require.Equal(t, map[string]string{
		"blob": contextBlob, "chunker": contextChunker, "pack": contextPack, "object": contextObject,
		"config": contextConfig,
	}, spectest.Texts(t, "SPEC.md", "Sub-keys", "Sub-key", "Context"))
	keys := testKeys(t)
	text := []byte("what the tide brings")
	require.EqualValues(t, specHash(t, specKey(t, "blob"), text), keys.Hasher().ID(text))
	require.EqualValues(t, specHash(t, specKey(t, "config"), text), keys.ConfigMAC(text))
	require.EqualValues(t, specKey(t, "chunker"), keys.ChunkerKey())

	salt := [SaltSize]byte{1, 2, 3}
	nonce := make([]byte, nonceSize)
	for kind := range 256 {
		aead := keys.PackAEAD(byte(kind), salt)
		want := AEAD(specHash(t, specKind(t, "pack", byte(kind)), salt[:]))
		require.Equal(t, want.Seal(nil, nonce, text, nil), aead.Seal(nil, nonce, text, nil))
		require.Equal(t, nonceSize, aead.NonceSize())
		require.Equal(t, tagSize, aead.Overhead())
	}
}

// specKind derives the key of a kind by what the specification says.
func specKind(t testing.TB, name string, kind byte) []byte {
	t.Helper()
	key := specHash(t, specKey(t, name), []byte{kind})
	return key[:]
}

// TestKeyOfOneKindOpensNoOther: with the key of a kind, which may be handed out, all of that kind can be opened, and
// nothing of another one, even under the same salt.
func TestKeyOfOneKindOpensNoOther(t *testing.T) {
	keys := testKeys(t)
	salt, nonce := [SaltSize]byte{7}, make([]byte, nonceSize)
	for _, from := range []struct {
		name  string
		kinds byte
		seal  func(kind byte) []byte
	}{
		{"pack", 3, func(kind byte) []byte {
			aead := keys.PackAEAD(kind, salt)
			return aead.Seal(nil, nonce, []byte("x"), nil)
		}},
		{"object", maxKind, func(kind byte) []byte {
			return keys.sealObject(ObjectKind(kind), salt, []byte("x"))
		}},
	} {
		for kind := byte(1); kind <= from.kinds; kind++ {
			sealed, header := from.seal(kind), []byte(nil)
			if from.name == "object" {
				sealed, header = sealed[ObjectHeaderSize:], sealed[:ObjectHeaderSize]
			}
			for _, name := range []string{"pack", "object"} {
				for other := byte(1); other <= maxKind; other++ {
					aead := AEAD(specHash(t, specKind(t, name, other), salt[:]))
					_, err := aead.Open(nil, nonce, sealed, header)
					require.Equal(t, name == from.name && other == kind, err == nil, "%s of kind %d", name, other)
				}
			}
		}
	}
}

// TestGoldenKeys pins the derived values for ever.
func TestGoldenKeys(t *testing.T) {
	keys := testKeys(t)
	id := keys.Hasher().ID([]byte("tidemark"))
	spectest.Golden(t, "blob-id", id[:])
	chunker := keys.ChunkerKey()
	spectest.Golden(t, "chunker-key", chunker[:])
	mac := keys.ConfigMAC([]byte("tidemark"))
	spectest.Golden(t, "config-mac", mac[:])
	file := FileID([]byte("tidemark"))
	spectest.Golden(t, "file-id", file[:])
	for kind := byte(1); kind <= 2; kind++ {
		aead := keys.PackAEAD(kind, [SaltSize]byte{9})
		spectest.Golden(t, fmt.Sprint("pack-", kind),
			aead.Seal(nil, make([]byte, nonceSize), []byte("tidemark"), []byte("header")))
	}
}

// TestFileIDIsBLAKE3 compares with the official test vector for empty input.
func TestFileIDIsBLAKE3(t *testing.T) {
	require.Equal(t, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262", FileID(nil).String())
}

func TestKeysDiffer(t *testing.T) {
	keys := testKeys(t)
	other := Derive(MasterKey{1})
	p := []byte("same bytes")
	seen := map[[32]byte]string{}
	for name, sum := range map[string][32]byte{
		"blob": keys.Hasher().ID(p), "file": FileID(p), "config": keys.ConfigMAC(p), "chunker": keys.ChunkerKey(),
		"other blob": other.Hasher().ID(p), "other config": other.ConfigMAC(p), "other chunker": other.ChunkerKey(),
	} {
		require.NotContains(t, seen, sum, name)
		seen[sum] = name
	}
}

func TestNewMasterKey(t *testing.T) {
	a := NewMasterKey()
	b := NewMasterKey()
	require.True(t, a != b && a != MasterKey{})
}

// TestHasherReuse: one hasher gives the same IDs as new ones, over lengths around the block and chunk sizes of BLAKE3.
func TestHasherReuse(t *testing.T) {
	keys := testKeys(t)
	reused := keys.Hasher()
	data := make([]byte, 20_000)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for _, n := range []int{0, 1, 63, 64, 65, 1023, 1024, 1025, 8191, 8192, 8193, 20_000, 3} {
		require.Equal(t, keys.Hasher().ID(data[:n]), reused.ID(data[:n]), "%d bytes", n)
		require.EqualValues(t, specHash(t, specKey(t, "blob"), data[:n]), reused.ID(data[:n]), "%d bytes", n)
	}
}

func TestHasherDoesNotAllocate(t *testing.T) {
	h := testKeys(t).Hasher()
	for _, n := range []int{0, 100, 1 << 10, 64 << 10} {
		data := make([]byte, n)
		var id format.ID
		require.Zero(t, testing.AllocsPerRun(100, func() { id = h.ID(data) }), "%d bytes", n)
		require.False(t, id.IsZero())
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	keys := testKeys(t)
	want := keys.Hasher().ID([]byte("x"))
	done := make(chan format.ID)
	for range 4 {
		go func() {
			_ = keys.ConfigMAC([]byte("x"))
			_ = keys.PackAEAD(1, [SaltSize]byte{})
			_ = keys.SealObject(LeaseObject, []byte("x"))
			done <- keys.Hasher().ID([]byte("x"))
		}()
	}
	for range 4 {
		require.Equal(t, want, <-done)
	}
}

// TestSecretsPrintRedacted: no verb, JSON or log shows key bytes, also where a secret lies inside something else.
func TestSecretsPrintRedacted(t *testing.T) {
	master := testMaster()
	keys := testKeys(t)
	hasher := keys.Hasher()
	type box struct{ Inner any }
	for _, secret := range []any{
		master, &master, keys, *keys, hasher, *hasher, box{master}, []any{keys}, map[string]any{"key": master},
		[]MasterKey{master}, struct{ M MasterKey }{master}, struct{ K Keys }{*keys},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b", "%c", "%U"} {
			requireNoSecret(t, fmt.Sprintf(verb, secret), verb)
		}
		requireNoSecret(t, fmt.Sprintln(secret), "Sprintln")
		encoded, err := json.Marshal(secret)
		require.NoError(t, err)
		requireNoSecret(t, string(encoded), "json")
	}
	require.Equal(t, redacted, master.String())
	require.Equal(t, redacted, master.GoString())
	var log strings.Builder
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("opened", "master", master, "keys", keys)
	}
	requireNoSecret(t, log.String(), "slog")
	require.Contains(t, log.String(), redacted)
	_, _ = fmt.Fprint(io.Discard, keys)
}

// requireNoSecret looks for four neighbouring bytes of the master key in the ways they might be printed, and for any
// larger structure.
func requireNoSecret(t *testing.T, text, how string) {
	t.Helper()
	for _, trace := range []string{
		"4 5 6 7", "04050607", "0x4, 0x5", "4,5,6,7", "\x04\x05\x06\x07", `\x04\x05`, "AAECAw", "100 101 110",
		"U+0004", "size", "flags",
	} {
		require.NotContains(t, strings.ToLower(text), strings.ToLower(trace), "printed by %s", how)
	}
}
