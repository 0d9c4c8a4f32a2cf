package seal

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
)

var kinds = []ObjectKind{IndexObject, SnapshotObject, LeaseObject, MarkObject}

func TestObjectLayoutFollowsSpec(t *testing.T) {
	rows := spectest.Table(t, "SPEC.md", "Sealed object")
	offset := 0
	offsets, sizes, values := map[string]int{}, map[string]int{}, map[string]string{}
	for _, row := range rows {
		require.Equal(t, strconv.Itoa(offset), row["Offset"], "offset of %s", row["Field"])
		offsets[row["Field"]], values[row["Field"]] = offset, row["Value"]
		if row["Size"] != "rest" {
			size, err := strconv.Atoi(row["Size"])
			require.NoError(t, err)
			sizes[row["Field"]] = size
			offset += size
		}
	}
	require.Equal(t, map[string]int{
		"magic": 0, "version": offsetVersion, "kind": offsetKind, "flags": offsetFlags, "epoch": offsetEpoch,
		"salt": offsetSalt, "ciphertext": ObjectHeaderSize,
	}, offsets)
	require.Equal(t, map[string]int{
		"magic": len(objectMagic), "version": 1, "kind": 1, "flags": 1, "epoch": 1, "salt": SaltSize,
	}, sizes)
	require.Equal(t, objectMagic, values["magic"])
	require.Equal(t, strconv.Itoa(ObjectVersion), values["version"])
	require.Equal(t, 60, ObjectOverhead, "said in the sections Reading and Limits")

	want := map[string]uint64{}
	for _, kind := range kinds {
		want[kind.String()] = uint64(kind)
	}
	require.Equal(t, want, spectest.Numbers(t, "SPEC.md", "Kinds", "Content", "Kind"))
}

// TestObjectOpensBySpec opens a sealed object with nothing but what the specification says.
func TestObjectOpensBySpec(t *testing.T) {
	sealed := testKeys(t).SealObject(MarkObject, []byte("content"))
	aead := AEAD(specHash(t, specKind(t, "object", 4), sealed[12:44]))
	plain, err := aead.Open(nil, make([]byte, 12), sealed[44:], sealed[:44])
	require.NoError(t, err)
	require.Equal(t, "content", string(plain))
}

func TestGoldenObjects(t *testing.T) {
	keys := testKeys(t)
	for _, kind := range kinds {
		plain := []byte("content of a golden object")
		sealed := keys.sealObject(kind, [SaltSize]byte{byte(kind), 0xaa}, plain)
		stored := spectest.Golden(t, "object-"+strconv.Itoa(int(kind)), sealed)
		opened, err := keys.OpenObject(kind, stored)
		require.NoError(t, err)
		require.Equal(t, plain, opened)
	}
}

// TestReservedObjects: what the specification reserves is refused as a newer program's.
func TestReservedObjects(t *testing.T) {
	keys := testKeys(t)
	for name, c := range map[string]struct {
		offset int
		value  byte
		want   string
	}{
		"epoch-1":    {offsetEpoch, 1, "key epoch 1"},
		"public-key": {offsetFlags, 1, "flags 0x01"},
		"parity":     {offsetKind, 5, "object of kind 5"},
	} {
		sealed := keys.sealObject(IndexObject, [SaltSize]byte{1}, []byte("reserved"))
		sealed[c.offset] = c.value
		_, err := keys.OpenObject(IndexObject, spectest.Golden(t, "reserved-"+name, sealed))
		require.ErrorIs(t, err, format.ErrUnsupported, name)
		require.ErrorContains(t, err, c.want)
	}
}

func TestObjectRoundTrip(t *testing.T) {
	keys := testKeys(t)
	for _, kind := range kinds {
		for _, n := range []int{0, 1, 15, 16, 17, 100_000} {
			plain := bytes.Repeat([]byte{byte(n)}, n)
			sealed := keys.SealObject(kind, plain)
			require.Len(t, sealed, n+ObjectOverhead)
			again := keys.SealObject(kind, plain)
			require.NotEqual(t, sealed, again, "a salt must not repeat")
			opened, err := keys.OpenObject(kind, sealed)
			require.NoError(t, err)
			require.True(t, bytes.Equal(plain, opened))
		}
	}
}

// TestObjectDetectsEveryBitFlip: a flipped bit is damage, or, in version and flags, what a newer program might write.
func TestObjectDetectsEveryBitFlip(t *testing.T) {
	keys := testKeys(t)
	sealed := keys.SealObject(SnapshotObject, []byte("snapshot"))
	spectest.FlipBits(sealed, func(i int, mutated []byte) {
		_, err := keys.OpenObject(SnapshotObject, mutated)
		require.Error(t, err, "byte %d", i)
		want := format.ErrCorrupt
		switch {
		case i == offsetVersion && mutated[i] != 0, i == offsetKind && mutated[i] > maxKind,
			i == offsetFlags, i == offsetEpoch:
			want = format.ErrUnsupported
		}
		require.ErrorIs(t, err, want, "byte %d", i)
	})
}

func TestObjectDetectsWrongLength(t *testing.T) {
	keys := testKeys(t)
	sealed := keys.SealObject(SnapshotObject, []byte("snapshot"))
	for n := range len(sealed) {
		_, err := keys.OpenObject(SnapshotObject, sealed[:n])
		require.ErrorIs(t, err, format.ErrCorrupt, "%d bytes", n)
	}
	_, err := keys.OpenObject(SnapshotObject, append(sealed, 0))
	require.ErrorIs(t, err, format.ErrCorrupt)
}

func TestObjectOfAnotherKindOrRepository(t *testing.T) {
	keys := testKeys(t)
	sealed := keys.SealObject(IndexObject, []byte("index"))
	_, err := keys.OpenObject(LeaseObject, sealed)
	require.ErrorIs(t, err, format.ErrCorrupt)
	require.ErrorContains(t, err, "open lease: it holds a different thing (index segment)")

	// Also if the byte that names the kind is changed with it.
	sealed[offsetKind] = byte(LeaseObject)
	_, err = keys.OpenObject(LeaseObject, sealed)
	require.ErrorIs(t, err, format.ErrCorrupt)

	other := Derive(MasterKey{1})
	sealed = other.SealObject(IndexObject, []byte("index"))
	_, err = keys.OpenObject(IndexObject, sealed)
	require.ErrorIs(t, err, format.ErrCorrupt)
}

func TestSealRefusesUnknownKind(t *testing.T) {
	for _, kind := range []ObjectKind{0, MarkObject + 1, 255} {
		require.Panics(t, func() { testKeys(t).SealObject(kind, nil) })
	}
}

func FuzzOpenObject(f *testing.F) {
	keys := testKeys(f)
	for _, kind := range kinds {
		sealed := keys.sealObject(kind, [SaltSize]byte{}, []byte("plain"))
		f.Add(uint8(kind), sealed)
		f.Add(uint8(kind), sealed[:ObjectHeaderSize])
	}
	f.Fuzz(func(t *testing.T, kind uint8, sealed []byte) {
		plain, err := keys.OpenObject(ObjectKind(kind), sealed)
		if err != nil {
			return
		}
		again := keys.sealObject(ObjectKind(kind), [SaltSize]byte(sealed[offsetSalt:]), plain)
		require.Equal(t, sealed, again)
	})
}
