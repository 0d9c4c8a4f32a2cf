package index

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// TestNumbersOfBlobs: each blob has the number that its place in the table of its pack gives it, the newest place
// counts, and the pack is found from the number.
func TestNumbersOfBlobs(t *testing.T) {
	dir := t.TempDir()
	x, err := OpenTemporary(dir, localfs.IOContext{})
	require.NoError(t, err)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "the file has no name")
	const packs, blobs = 3 * recentPacks, 50
	var all []index.Pack
	for i := range packs {
		list := make([]int, blobs)
		for j := range list {
			list[j] = i*blobs + j
		}
		seg, _ := segment(i, list)
		all = append(all, seg.Packs...)
	}
	first, next := make([]uint64, len(all)), uint64(7)
	for i := range all {
		first[i] = next
		next += uint64(blobsOf(all[i:i+1])) + 3 // what lies in between has no blob
	}
	require.NoError(t, x.Merge(all, first, nil))
	again := all[0] // under another pack, which came later
	again.ID = id(9_000_000)
	require.NoError(t, x.Merge([]index.Pack{again}, []uint64{next}, nil))
	seen := make(map[uint32]bool)
	for i := range all {
		n := uint32(first[i])
		pack := &all[i]
		if i == 0 {
			n, pack = uint32(next), &again
		}
		for _, f := range all[i].Table.Frames {
			skip := uint32(0)
			for _, b := range f.Blobs {
				var found [1]Numbered
				require.NoError(t, x.Lookup([]format.ID{b.ID}, found[:]))
				require.Equal(t, Numbered{Loc{Offset: f.Offset, Sealed: f.Sealed, Skip: skip, Len: b.Len}, n, true}, found[0])
				require.False(t, seen[n])
				seen[n] = true
				info, err := x.PackOf(n)
				require.NoError(t, err)
				require.Equal(t, PackInfo{ID: pack.ID, Salt: pack.Table.Salt, Size: pack.Size}, info)
				skip += b.Len
				n++
			}
		}
	}
	_, err = x.PackOf(6)
	require.ErrorIs(t, err, errNoPack)
	require.NoError(t, x.Close())
}

func TestTooManyBlobs(t *testing.T) {
	x, err := OpenTemporary(t.TempDir(), localfs.IOContext{})
	require.NoError(t, err)
	defer func() { require.NoError(t, x.Close()) }()
	seg, _ := segment(1, []int{1, 2, 3})
	first := make([]uint64, len(seg.Packs))
	first[len(first)-1] = math.MaxUint32
	require.ErrorIs(t, x.Merge(seg.Packs, first, nil), ErrTooMany)
}
