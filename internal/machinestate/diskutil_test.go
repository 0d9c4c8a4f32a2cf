package machinestate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVolumeOf(t *testing.T) {
	for text, want := range map[string]string{
		"   Volume Name:    Blue\n   Mounted:      Yes\n   Mount Point:   /Volumes/Blue 1\n": "/Volumes/Blue 1",
		"   Volume Name:    Blue\n   Mounted:      No\n":                                     "",
		"   Mount Point:\n": "",
		"":                  "",
	} {
		path, ok := volumeOf(text)
		require.Equal(t, want != "", ok, text)
		require.Equal(t, want, path, text)
	}
}
