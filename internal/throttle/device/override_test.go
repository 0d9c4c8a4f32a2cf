package device

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestParseMedium(t *testing.T) {
	for word, want := range map[string]Medium{
		"auto": Unknown, "": Unknown, "SSD": SSD, "hdd": HDD, "Remote": Remote, "memory": Memory,
		"unknown": Unknown, "flash": Unknown, "ssd ": Unknown, "2": Unknown,
	} {
		require.Equal(t, want, ParseMedium(word), word)
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
