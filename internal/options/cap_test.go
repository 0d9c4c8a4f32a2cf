package options

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestCapTable(t *testing.T) {
	many := Workers{32, 16, 64, 8}
	for _, c := range []struct {
		policy iopolicy.Policy
		cpu    int
		have   Workers
		want   Workers
	}{
		{iopolicy.Important, 2, many, many},
		{iopolicy.Standard, 2, many, many},
		{iopolicy.Passive, 2, many, many},
		{iopolicy.Utility, 2, many, Workers{16, 8, 2, 4}},
		{iopolicy.Throttle, 16, many, Workers{16, 8, 16, 4}},
		{iopolicy.Throttle, 2, Workers{4, 8, 2, 2}, Workers{4, 8, 2, 2}},   // as chosen for a disk of this machine
		{iopolicy.Throttle, 2, Workers{16, 8, 2, 4}, Workers{16, 8, 2, 4}}, // another machine
		{iopolicy.Throttle, 4, Workers{2, 1, 4, 1}, Workers{2, 1, 4, 1}},   // a disk that turns
		{iopolicy.Throttle, 0, Workers{1, 1, 4, 1}, Workers{1, 1, 1, 1}},
		{iopolicy.Throttle, 4, Workers{}, Workers{}},
	} {
		require.Equal(t, c.want, c.have.Cap(c.policy, c.cpu), "%s on %d: %v", c.policy, c.cpu, c.have)
	}
}

func TestCapNeverAddsAndNeverStops(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		w := Workers{1 + r.IntN(64), 1 + r.IntN(64), 1 + r.IntN(64), 1 + r.IntN(64)}
		cpu := r.IntN(70)
		for p := iopolicy.Important; p <= iopolicy.Passive; p++ {
			got := w.Cap(p, cpu)
			require.Equal(t, got, got.Cap(p, cpu), "capped again")
			for _, pair := range [][2]int{{got.Scanners, w.Scanners}, {got.Readers, w.Readers},
				{got.Compressors, w.Compressors}, {got.Uploads, w.Uploads}} {
				require.LessOrEqual(t, pair[0], pair[1])
				require.Positive(t, pair[0])
			}
		}
	}
}
