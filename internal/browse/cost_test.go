package browse_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/store"
)

func TestCosts(t *testing.T) {
	p, err := browse.ParsePrices("put=5, get=0.4,delete=1,stored=0.02,out=0.09")
	require.NoError(t, err)
	s := &browse.Statistics{Mode: browse.WholeRepository, Kinds: []browse.KindSize{
		{Kind: store.Pack, Files: 60_000, Bytes: 999e9}, {Kind: store.Index, Files: 10, Bytes: 1e9},
		{Kind: store.Snapshot, Files: 2500},
	}}
	require.InDelta(t, 20, s.Month(p), 1e-9)
	runs := s.Runs(p)
	require.Len(t, runs, 3)
	require.Equal(t, uint64(6+7+2), runs[0].Requests.Put, "one list more for each further 1,000 snapshots")
	require.InDelta(t, (15*5+9*0.4+3)/1000, runs[0].Cost, 1e-9)
	require.Equal(t, uint64(1000e9), runs[1].Out)
	gets := 999_000_000_000/(4<<20) + 3*10 + 2500 + 6
	require.InDelta(t, 90+float64(gets)*0.4/1000+66*5/1000.0, runs[1].Cost, 1e-6)
	for _, wrong := range []string{"", "put", "put=", "put=x", "put=-1", "put=NaN", "put=Inf", "put=1,put=1", "gold=1"} {
		_, err := browse.ParsePrices(wrong)
		require.Error(t, err, wrong)
	}
}
