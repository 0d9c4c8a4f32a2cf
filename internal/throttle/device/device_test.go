package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedium(t *testing.T) {
	for m, want := range map[Medium]string{
		Unknown: "unknown", SSD: "ssd", HDD: "hdd", Remote: "remote", Memory: "memory", 77: "medium 77",
	} {
		require.Equal(t, want, m.String())
	}
	require.Zero(t, Info{}.Medium, "the zero value claims nothing")
	require.Equal(t, Unknown, Info{}.Medium)
}

func TestSlowest(t *testing.T) {
	order := []Medium{HDD, Remote, Unknown, SSD, Memory}
	for i, slow := range order {
		for _, fast := range order[i:] {
			require.Equal(t, slow, Slowest(slow, fast))
			require.Equal(t, slow, Slowest(fast, slow, fast))
		}
	}
	require.Equal(t, Unknown, Slowest())
}
