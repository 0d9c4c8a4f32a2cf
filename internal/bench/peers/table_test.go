package peers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is three rounds. One was slow for all programs.
func sample() *results {
	r := &results{Rounds: 3, Data: []dataset{{Name: "tiny", Objects: 10, Bytes: 2e9}}}
	for round, slow := range []float64{1, 10, 2} {
		add := func(peer, what string, seconds float64) {
			r.All = append(r.All, measurement{
				Data: "tiny", Peer: peer, Round: round, What: what,
				usage: usage{Seconds: seconds * slow, User: slow, System: slow / 2, Memory: 50e6},
			})
		}
		add("restic", onFirst, 4)
		add("restic", onCheck, 1)
		add("tidemark", onFirst, 1)
		add("tidemark", onCheck, 1+float64(round))
	}
	for _, peer := range []string{"restic", "tidemark"} {
		r.All = append(r.All,
			measurement{Data: "tiny", Peer: peer, What: onSizeFirst, Bytes: 5e6},
			measurement{Data: "tiny", Peer: peer, What: onSizeNext, Bytes: 6.5e6})
	}
	return r
}

// TestRatiosAreTakenRoundByRound: in a slow round both programs are slow, which the ratio must not show.
func TestRatiosAreTakenRoundByRound(t *testing.T) {
	r := sample()
	require.Equal(t, ""+
		"| | first | check |\n"+
		"|---|---|---|\n"+
		"| tidemark | 2.00 (3.00) | 6.00 (3.00) |\n"+
		"| restic | 8.00 (3.00) | 2.00 (3.00) |\n", r.absolute())
	require.Equal(t, ""+
		"| | first | check |\n"+
		"|---|---|---|\n"+
		"| restic | 0.25 (0.25-0.25) | 2.00 (1.00-3.00) |\n", r.ratios(func(m measurement) float64 { return m.Seconds }))
	require.Equal(t, ""+
		"| | repository, first | repository, next | growth |\n"+
		"|---|---|---|---|\n"+
		"| tidemark | 5.0 | 6.5 | 1.5 |\n"+
		"| restic | 5.0 | 6.5 | 1.5 |\n", r.sizes())
	require.Contains(t, r.memory(), "| tidemark | 50 | 50 |")
	require.Contains(t, r.markdown(), "### tiny: 10 objects, 2.00 GB")
	require.Contains(t, r.markdown(), "everything is warm")
	require.Empty(t, r.of("mixed").All)
	require.Equal(t, "nothing\n", r.of("mixed").absolute())
}

func TestNoRatiosWithoutUs(t *testing.T) {
	r := &results{All: sample().All[:2]}
	require.Empty(t, r.ratios(func(m measurement) float64 { return m.Seconds }))
}
