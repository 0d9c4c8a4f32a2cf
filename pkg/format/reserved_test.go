package format_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// TestReserved: a reader of version 1 refuses all that README.md reserves, as a newer program's. A kind of
// packs is judged after the pack is authenticated: package pack tests that.
func TestReserved(t *testing.T) {
	keys := seal.Derive(seal.MasterKey{1})
	slot, err := keyfile.Wrap(seal.MasterKey{1}, keyfile.KeyFile, make([]byte, 32), keyfile.Params{}, "", 0)
	require.NoError(t, err)
	b := pack.NewBuilder(keys, pack.Data, nil)
	packed, _, err := b.Finish()
	require.NoError(t, err)
	sealed := keys.SealObject(seal.IndexObject, nil)

	configured := func(n int) []byte {
		return config.Encode(&config.Config{ID: config.ID{1}, Features: []config.Feature{config.Feature(n)},
			Chunker: config.Chunker{Algorithm: 1, Min: 1, Avg: 1, Max: 1}}, keys)
	}
	open := map[string]func(p []byte) error{
		"Feature": func(p []byte) error { _, _, err := config.Decode(p); return err },
		"Key slot": func(p []byte) error {
			sum := seal.FileID(p[:len(p)-format.IDSize])
			_, err := keyfile.Decode(append(p[:len(p)-format.IDSize:len(p)-format.IDSize], sum[:]...))
			return err
		},
		"Pack": func(p []byte) error {
			_, err := pack.OpenTable(keys, pack.ID(p), int64(len(p)), func(off int64, q []byte) error {
				copy(q, p[off:])
				return nil
			})
			return err
		},
		"Sealed object": func(p []byte) error { _, err := keys.OpenObject(seal.IndexObject, p); return err },
	}
	whole := map[string][]byte{"Key slot": keyfile.Encode(slot), "Pack": packed, "Sealed object": sealed}
	for column, p := range whole {
		require.NoError(t, open[column](p), column)
	}
	count := 0
	for _, row := range spectest.Table(t, "README.md", "Compatibility") {
		for column, open := range open {
			var what string
			var n int
			if row[column] == "" {
				continue
			}
			if _, err := fmt.Sscan(row[column], &n); err == nil {
				what = "feature"
			} else {
				_, err = fmt.Sscan(row[column], &what, &n)
				require.NoError(t, err, row[column])
			}
			p := append([]byte(nil), whole[column]...)
			switch what {
			case "feature":
				p = configured(n)
			case "method", "kind":
				p[9] = byte(n)
			case "flag":
				p[10] |= byte(n)
			case "byte":
				p[n] = 1
			case "field":
				s := *slot
				s.Epoch = 1
				require.EqualValues(t, 9, n)
				p = keyfile.Encode(&s)
			}
			if count++; column == "Pack" && what == "kind" {
				require.False(t, pack.Kind(n).Valid())
				continue
			}
			require.ErrorIs(t, open(p), format.ErrUnsupported, "%s: %s", column, row[column])
		}
	}
	require.GreaterOrEqual(t, count, 13)
}
