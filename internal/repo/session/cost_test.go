package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
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

// TestWorkersFillOneFrame: what many workers add is compressed as if one had added it. A flush waits for the frames
// that others store, and a buffer comes back for the next frame.
func TestWorkersFillOneFrame(t *testing.T) {
	const workers, each, size = 8, 64, 1 << 10
	to, _ := target(t, mem.New())
	opt := Options{Tuning: Tuning{Frame: 32 * size}}
	require.NoError(t, Run(t.Context(), to, opt, func(_ context.Context, s *Session) error {
		var all errgroup.Group
		for k := range workers {
			all.Go(func() error {
				blob := bytes.Repeat([]byte{byte(k)}, size)
				for i := range each {
					if err := s.Writer(pack.Data).Add(format.ID{byte(k), byte(i)}, blob); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, all.Wait())
		require.NoError(t, s.Writer(pack.Data).Flush())
		s.packers[0].mu.Lock()
		defer s.packers[0].mu.Unlock()
		require.Equal(t, workers*each/32, s.packers[0].open.Frames(), "none is partly filled")
		require.Equal(t, uint64(workers*each*size), s.Totals().DataRaw)
		require.LessOrEqual(t, len(s.writers[0].free), workers)
		return nil
	}))
}

// TestClaimsOfKnownBlobsAllocateNothing: they are asked for once for each batch of files.
func TestClaimsOfKnownBlobsAllocateNothing(t *testing.T) {
	to, x := target(t, mem.New())
	x.packs = append(x.packs, blobindex.PackInfo{})
	ids, fresh := make([]format.ID, 100), make([]bool, 100)
	for i := range ids {
		ids[i][0], ids[i][1] = byte(i), 1
		x.blobs[ids[i]] = 0
	}
	opt := Options{DryRun: true}
	require.NoError(t, Run(t.Context(), to, opt, func(_ context.Context, s *Session) error {
		s.checked[format.ID{}] = false
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
