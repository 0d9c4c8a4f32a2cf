package config

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

func testKeys(t testing.TB) *seal.Keys {
	t.Helper()
	var m seal.MasterKey
	for i := range m {
		m[i] = byte(i)
	}
	keys := seal.Derive(m)
	return keys
}

func sample() *Config {
	return &Config{
		Version: Version,
		ID:      ID{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
		Created: 1_790_000_000,
		Chunker: Chunker{Algorithm: 1, Min: 4 << 10, Avg: 16 << 10, Max: 64 << 10},
	}
}

func TestSpec(t *testing.T) {
	require.Equal(t, map[string]uint64{
		"id": tagID, "created": tagCreated, "chunker": tagChunker, "features": tagFeatures,
		"epoch": tagEpoch,
	}, spectest.Numbers(t, "SPEC.md", "Fields", "Field", "Tag"))
	require.Equal(t, map[string]uint64{
		"algorithm": tagAlgorithm, "min": tagMin, "avg": tagAvg, "max": tagMax,
	}, spectest.Numbers(t, "SPEC.md", "Chunker", "Field", "Tag"))
	require.Equal(t, map[string]uint64{"MaxSize": MaxSize, "MaxChunk": MaxChunk},
		spectest.Numbers(t, "SPEC.md", "Limits", "Name", "Value"))
	require.Equal(t, map[string]string{"magic": "0", "version": "8", "fields": "12", "mac": "12 + n"},
		spectest.Texts(t, "SPEC.md", "Layout", "Field", "Offset"))
	require.Equal(t, map[string]string{"magic": "8", "version": "4", "fields": "n", "mac": "32"},
		spectest.Texts(t, "SPEC.md", "Layout", "Field", "Size"))
	require.Equal(t, magic, spectest.Table(t, "SPEC.md", "Layout")[0]["Value"])
	require.Equal(t, []int{8, 4, 12, 32}, []int{len(magic), versionSize, headerSize, macSize})
}

// A reader of version 1 refuses what is reserved for later versions, and its error says why and what to do.
func TestReservedFeaturesNeedANewerProgram(t *testing.T) {
	names := map[string]uint64{}
	for _, f := range []Feature{WriteOnlyKeys, Parity, KeyEpochs, BareTrees} {
		names[f.String()] = uint64(f)
		c := sample()
		c.Features = []Feature{f}
		_, _, err := Decode(Encode(c, testKeys(t)))
		require.ErrorIs(t, err, format.ErrUnsupported)
		require.EqualError(t, err, "read config: the repository uses "+f.String()+
			": written by a newer version of tidemark; update this program")
	}
	require.Equal(t, names, spectest.Numbers(t, "SPEC.md", "Features", "Name", "Feature"))
}

func TestAnotherEpochNeedsANewerProgram(t *testing.T) {
	c := sample()
	c.Epoch = 1
	_, _, err := Decode(spectest.Golden(t, "config-epoch-1", Encode(c, testKeys(t))))
	require.ErrorIs(t, err, format.ErrUnsupported)
	require.ErrorContains(t, err, "the repository is at key epoch 1")
}

func TestGolden(t *testing.T) {
	stored := spectest.Golden(t, "config", Encode(sample(), testKeys(t)))
	got, mac, err := Decode(stored)
	require.NoError(t, err)
	require.Equal(t, sample(), got)
	require.Equal(t, stored[len(stored)-macSize:], mac[:])
	require.NoError(t, Verify(stored, testKeys(t)))
	require.Equal(t, magic, string(stored[:8]))
}

func TestVerify(t *testing.T) {
	stored := Encode(sample(), testKeys(t))
	spectest.FlipBits(stored, func(i int, mutated []byte) {
		err := Verify(mutated, testKeys(t))
		require.Error(t, err, "byte %d", i)
		if i < 8 || i >= headerSize {
			require.ErrorIs(t, err, format.ErrCorrupt, "byte %d", i)
		}
	})
	other := seal.Derive(seal.MasterKey{1})
	require.ErrorIs(t, Verify(stored, other), format.ErrCorrupt)
	for n := range len(stored) {
		require.ErrorIs(t, Verify(stored[:n], testKeys(t)), format.ErrCorrupt, "%d bytes", n)
	}
}

// raw builds a config from fields that Encode would not write.
func raw(version uint32, fields func(*wire.Fields)) []byte {
	f := wire.NewFields(wire.AppendUint32([]byte(magic), version))
	fields(f)
	return append(f.Finish(), make([]byte, macSize)...)
}

func TestDecodeRefuses(t *testing.T) {
	with := func(change func(*Config)) []byte {
		c := sample()
		change(c)
		return Encode(c, testKeys(t))
	}
	id := sample().ID
	chunker := func(tags ...uint64) func(*wire.Fields) {
		return func(f *wire.Fields) {
			for _, tag := range tags {
				f.Uint(tag, math.MaxUint32)
			}
		}
	}
	for name, c := range map[string]struct {
		input []byte
		want  error
	}{
		"nothing":         {nil, format.ErrCorrupt},
		"other magic":     {append([]byte("TIDEMARC"), make([]byte, 100)...), format.ErrCorrupt},
		"version 0":       {raw(0, func(*wire.Fields) {}), format.ErrCorrupt},
		"version 2":       {raw(2, func(*wire.Fields) {}), format.ErrUnsupported},
		"version 2 alone": {wire.AppendUint32([]byte(magic), 2), format.ErrUnsupported},
		"no fields":       {raw(1, func(*wire.Fields) {}), format.ErrCorrupt},
		"too long":        {append(with(func(*Config) {}), make([]byte, MaxSize)...), format.ErrCorrupt},
		"no id":           {with(func(c *Config) { c.ID = ID{} }), format.ErrCorrupt},
		"short id":        {raw(1, func(f *wire.Fields) { f.Bytes(tagID, id[:15]) }), format.ErrCorrupt},
		"long id":         {raw(1, func(f *wire.Fields) { f.Bytes(tagID, append(id[:], 0)) }), format.ErrCorrupt},
		"no algorithm":    {with(func(c *Config) { c.Chunker.Algorithm = 0 }), format.ErrCorrupt},
		"no minimum":      {with(func(c *Config) { c.Chunker.Min = 0 }), format.ErrCorrupt},
		"min above avg":   {with(func(c *Config) { c.Chunker.Min = c.Chunker.Avg + 1 }), format.ErrCorrupt},
		"avg above max":   {with(func(c *Config) { c.Chunker.Avg = c.Chunker.Max + 1 }), format.ErrCorrupt},
		"max above limit": {with(func(c *Config) { c.Chunker.Max = MaxChunk + 1 }), format.ErrCorrupt},
		"algorithm above 255": {
			raw(1, func(f *wire.Fields) { f.Record(tagChunker, chunker(tagAlgorithm)) }), format.ErrCorrupt,
		},
		"a feature":         {with(func(c *Config) { c.Features = []Feature{7} }), format.ErrUnsupported},
		"feature cut off":   {raw(1, func(f *wire.Fields) { f.Bytes(tagFeatures, []byte{0x80}) }), format.ErrCorrupt},
		"unknown odd field": {raw(1, func(f *wire.Fields) { f.Uint(9, 1) }), format.ErrUnsupported},
		"unknown odd field of the chunker": {
			raw(1, func(f *wire.Fields) { f.Record(tagChunker, chunker(9)) }), format.ErrUnsupported,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := Decode(c.input)
			require.ErrorIs(t, err, c.want)
			require.Nil(t, got)
		})
	}
}

// TestUnknownEvenFieldIsSkipped: a newer program may add what an older one can ignore.
func TestUnknownEvenFieldIsSkipped(t *testing.T) {
	stored := Encode(sample(), testKeys(t))
	body := stored[:len(stored)-macSize]
	f := wire.NewFields(body)
	f.String(1000, "from the future")
	body = f.Finish()
	mac := testKeys(t).ConfigMAC(body)
	stored = append(body, mac[:]...)
	got, _, err := Decode(stored)
	require.NoError(t, err)
	require.Equal(t, sample(), got)
	require.NoError(t, Verify(stored, testKeys(t)))
}

func TestID(t *testing.T) {
	require.Equal(t, "deadbeef0102030405060708090a0b0c", sample().ID.String())
	text, err := json.Marshal(sample().ID)
	require.NoError(t, err)
	require.Equal(t, `"deadbeef0102030405060708090a0b0c"`, string(text))
	a := NewID()
	b := NewID()
	require.True(t, a != b && a != ID{})
}

func FuzzDecode(f *testing.F) {
	keys := testKeys(f)
	f.Add(Encode(sample(), keys))
	f.Add(raw(1, func(w *wire.Fields) { w.Bytes(tagFeatures, []byte{1, 2, 3}) }))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, p []byte) {
		c, _, err := Decode(p)
		if err != nil {
			require.True(t, errors.Is(err, format.ErrCorrupt) != errors.Is(err, format.ErrUnsupported), "%v", err)
			return
		}
		stored := Encode(c, keys)
		again, _, err := Decode(stored)
		require.NoError(t, err)
		require.Equal(t, c, again)
		require.NoError(t, Verify(stored, keys))
	})
}
