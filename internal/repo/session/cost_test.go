package session

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// TestPacksStayInsideTheirBuffers: neither many small blobs with their long trailer, nor frames that come when a pack
// is nearly complete, make a buffer grow. A buffer never shrinks again.
func TestPacksStayInsideTheirBuffers(t *testing.T) {
	const packSize = 1 << 20
	for name, size := range map[string]int{"tiny": 40, "small": 1000, "large": 100 << 10} {
		t.Run(name, func(t *testing.T) {
			st := mem.New()
			to, _ := target(t, st)
			opt := Options{Uploads: 2, Level: -1, Tuning: Tuning{Frame: 256 << 10, DataPack: packSize}}
			require.NoError(t, Run(t.Context(), to, opt, func(_ context.Context, s *Session) error {
				w := s.Writer(pack.Data)
				blob, ids, fresh := make([]byte, size), make([]format.ID, 1), make([]bool, 1)
				for i := range (8 << 20) / (size + 72) {
					_, _ = rand.Read(blob)
					binary.LittleEndian.PutUint32(ids[0][:], uint32(i))
					if err := s.Claim(ids, fresh); err != nil {
						return err
					}
					if err := w.Add(ids[0], blob); err != nil {
						return err
					}
				}
				if err := w.Flush(); err != nil {
					return err
				}
				if err := s.Flush(t.Context()); err != nil {
					return err
				}
				p := s.packers[slot(pack.Data)]
				for range len(p.buffers) {
					require.LessOrEqual(t, cap(<-p.buffers), packSize+trailerRoom+8<<10)
				}
				return nil
			}))
			packs, small := 0, 0
			for info, err := range st.List(t.Context(), store.Pack) {
				require.NoError(t, err)
				require.LessOrEqual(t, info.Size, int64(packSize+trailerRoom))
				if packs++; info.Size < packSize/2 {
					small++
				}
			}
			require.GreaterOrEqual(t, packs, 4)
			require.LessOrEqual(t, small, 1, "only the last one is not full")
		})
	}
}

// TestClaimsOfKnownBlobsAllocateNothing: they are asked for once for each batch of files.
func TestClaimsOfKnownBlobsAllocateNothing(t *testing.T) {
	to, x := target(t, mem.New())
	ids, fresh := make([]format.ID, 100), make([]bool, 100)
	for i := range ids {
		ids[i][0], ids[i][1] = byte(i), 1
		x.blobs[ids[i]] = 0
	}
	opt := Options{DryRun: true}
	require.NoError(t, Run(t.Context(), to, opt, func(_ context.Context, s *Session) error {
		s.checked[0] = false
		claim := func() {
			require.NoError(t, s.Claim(ids, fresh))
		}
		claim()
		require.NotContains(t, fresh, true)
		require.Less(t, testing.AllocsPerRun(20, claim), 20.0) // for a hundred; the race detector empties pools at random
		return nil
	}))
}

func TestFramesOfTreesStaySmall(t *testing.T) {
	def := Options{}.withDefaults().Tuning
	require.Equal(t, 4<<20, def.frame(pack.Data))
	require.Equal(t, 1<<20, def.frame(pack.Trees))
	small := Tuning{Frame: 1000}
	require.Equal(t, 1000, small.frame(pack.Data))
	require.Equal(t, 1000, small.frame(pack.Trees))
}
