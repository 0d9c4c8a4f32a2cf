package mark

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

func sample() *Mark {
	return &Mark{
		Packs: []format.ID{{1}, {1, 1}, {2}}, Created: 1_790_000_000, Checked: []format.ID{{7}, {8}}, Host: "engine",
	}
}

func TestSpec(t *testing.T) {
	require.Equal(t, map[string]uint64{
		"packs": tagPacks, "created": tagCreated, "rule": tagRule, "checked": tagChecked, "host": tagHost,
		"damaged": tagDamaged, "forgotten": tagForgotten, "contents": tagContents,
	}, spectest.Numbers(t, "SPEC.md", "Fields", "Field", "Tag"))
}

func TestGolden(t *testing.T) {
	got, err := Decode(spectest.Golden(t, "mark", Encode(sample())))
	require.NoError(t, err)
	require.Equal(t, sample(), got)
}

func TestGoldenOfDamage(t *testing.T) {
	m := &Mark{Packs: []format.ID{{1}}, Created: 1_790_000_000, Host: "engine", Damaged: true}
	got, err := Decode(spectest.Golden(t, "damaged", Encode(m)))
	require.NoError(t, err)
	require.Equal(t, m, got)
}

func TestGoldenOfATombstone(t *testing.T) {
	m := &Mark{Created: 1_790_000_000, Forgotten: []format.ID{{3}, {4, 1}}}
	got, err := Decode(spectest.Golden(t, "tombstone", Encode(m)))
	require.NoError(t, err)
	require.Equal(t, m, got)
}

func TestGoldenOfATombstoneWithContents(t *testing.T) {
	m := &Mark{Created: 1_790_000_000, Forgotten: []format.ID{{3}, {4, 1}},
		Contents: map[format.ID][]byte{{4, 1}: []byte("x")}}
	got, err := Decode(spectest.Golden(t, "contents", Encode(m)))
	require.NoError(t, err)
	require.Equal(t, m, got)
	f := wire.NewFields(nil)
	f.IDs(tagForgotten, m.Forgotten)
	f.Strings(tagContents, []string{"x"})
	_, err = Decode(f.Finish())
	require.ErrorIs(t, err, format.ErrCorrupt, "which of the two is it?")
}

// TestMarkBeforeRules: a mark without a rule has looked at nothing.
func TestMarkBeforeRules(t *testing.T) {
	got, err := Decode(spectest.Vector(t, "before-rules"))
	require.NoError(t, err)
	require.Equal(t, &Mark{Packs: sample().Packs, Created: sample().Created}, got)
}

// TestMarkIsSorted: the same packs make the same mark, whatever their order, and the caller's lists stay as they were.
func TestMarkIsSorted(t *testing.T) {
	m := sample()
	m.Packs, m.Checked = []format.ID{{2}, {1, 1}, {1}, {2}}, []format.ID{{8}, {7}, {8}}
	require.Equal(t, Encode(sample()), Encode(m))
	require.Equal(t, []format.ID{{2}, {1, 1}, {1}, {2}}, m.Packs)
	require.Equal(t, []format.ID{{8}, {7}, {8}}, m.Checked)
	got, err := Decode(Encode(&Mark{}))
	require.NoError(t, err)
	require.Equal(t, &Mark{}, got)
}

// TestEmptyMarkIsUnderstoodOrRefused: also a mark that lists nothing asks for the duties.
func TestEmptyMarkIsUnderstoodOrRefused(t *testing.T) {
	err := wire.ReadFields(Encode(&Mark{}), func(f *wire.Fields) {
		for tag := range uint64(tagContents + 1) {
			if tag != tagRule {
				f.Bytes(tag, nil)
			}
		}
	})
	require.ErrorIs(t, err, format.ErrUnsupported)
}

func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		fill func(*wire.Fields)
		want error
	}{
		"a pack twice":      {func(f *wire.Fields) { f.IDs(tagPacks, []format.ID{{1}, {1}}) }, format.ErrCorrupt},
		"packs descend":     {func(f *wire.Fields) { f.IDs(tagPacks, []format.ID{{2}, {1}}) }, format.ErrCorrupt},
		"half a pack":       {func(f *wire.Fields) { f.Bytes(tagPacks, make([]byte, 48)) }, format.ErrCorrupt},
		"snapshots descend": {func(f *wire.Fields) { f.IDs(tagChecked, []format.ID{{2}, {1}}) }, format.ErrCorrupt},
		"forgotten descend": {func(f *wire.Fields) { f.IDs(tagForgotten, []format.ID{{2}, {1}}) }, format.ErrCorrupt},
		"newer rule":        {func(f *wire.Fields) { f.Uint(tagRule, 2) }, format.ErrUnsupported},
		"unknown odd":       {func(f *wire.Fields) { f.Uint(5, 1) }, format.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			f := wire.NewFields(nil)
			c.fill(f)
			got, err := Decode(f.Finish())
			require.ErrorIs(t, err, c.want)
			require.Nil(t, got)
		})
	}
	f := wire.NewFields(nil)
	f.Uint(1000, 1)
	_, err := Decode(f.Finish())
	require.NoError(t, err, "unknown even")
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(sample()))
	f.Add(Encode(&Mark{}))
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := Decode(p)
		if err != nil {
			require.True(t, errors.Is(err, format.ErrCorrupt) != errors.Is(err, format.ErrUnsupported), "%v", err)
			return
		}
		again, err := Decode(Encode(m))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
