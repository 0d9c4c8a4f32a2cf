package device

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestParseMedium(t *testing.T) {
	for word, want := range map[string]Medium{
		"auto": Unknown, "": Unknown, "SSD": SSD, "hdd": HDD, "Remote": Remote, "memory": Memory,
	} {
		got, err := ParseMedium(word)
		require.NoError(t, err, word)
		require.Equal(t, want, got, word)
	}
	for _, word := range []string{"unknown", "flash", "ssd ", "2"} {
		_, err := ParseMedium(word)
		require.ErrorIs(t, err, ErrMedium)
		require.ErrorContains(t, err, "take auto, ssd, hdd, remote or memory")
	}
}

func TestPolicyColumns(t *testing.T) {
	for m, want := range map[Medium]iopolicy.Medium{
		SSD: iopolicy.SSD, HDD: iopolicy.HDD, Remote: iopolicy.HDD, Unknown: iopolicy.HDD, Memory: iopolicy.HDD,
		77: iopolicy.HDD,
	} {
		require.Equal(t, want, m.IOMedium())
	}
}
