package check_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/check"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// TestACheckNamesPacksThatRepeatOthers: a pack that is said to hold what others hold is named without reading it. It is
// a problem only once it was read and holds other bytes.
func TestACheckNamesPacksThatRepeatOthers(t *testing.T) {
	st, _, _ := sample(t)
	r, err := stored.Open(t, st)
	require.NoError(t, err)
	b := pack.NewBuilder(r.Keys(), pack.Data, nil)
	repeated := 0
	for _, info := range files(t, st) {
		if info.Name.Kind != store.Index {
			continue
		}
		plain, err := object.Load(t.Context(), st, r.Keys(), info.Name, info.Size)
		require.NoError(t, err)
		seg, err := index.Decode(plain)
		require.NoError(t, err)
		for _, p := range seg.Packs {
			for _, f := range p.Table.Frames {
				if p.Table.Kind == pack.Data && repeated < 20 {
					repeated += len(f.Blobs)
					require.NoError(t, b.Append(&pack.Payload{Codec: pack.Stored, Blobs: f.Blobs, Raw: f.Raw,
						Data: make([]byte, f.Raw)}))
				}
			}
		}
	}
	data, table, err := b.Finish()
	require.NoError(t, err)
	junk := index.Pack{ID: pack.ID(data), Size: uint64(len(data)), Table: table}
	require.NoError(t, st.Put(t.Context(), object.Named(store.Pack, junk.ID), data))
	sealed, id := object.Seal(r.Keys(), store.Index, index.Encode(nil, &index.Segment{Packs: []index.Pack{junk}}))
	require.NoError(t, st.Put(t.Context(), object.Named(store.Index, id), sealed))

	res := run(t, st, check.Options{})
	require.True(t, res.OK(), "a double is no damage")
	require.Len(t, res.Notes, 1)
	require.Contains(t, res.Notes[0], junk.ID.String())
	require.Equal(t, []format.ID{junk.ID}, named(t, res.Notes[0]))

	res = run(t, st, check.Options{ReadData: true})
	require.False(t, res.OK())
	for _, p := range res.Problems {
		require.Contains(t, p.Object, junk.ID.String())
	}
}

// named returns the packs that a note names.
func named(t *testing.T, note string) (ids []format.ID) {
	t.Helper()
	for _, word := range strings.FieldsFunc(note, func(r rune) bool { return r == ' ' || r == ',' }) {
		if id, err := format.ParseID(word); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
