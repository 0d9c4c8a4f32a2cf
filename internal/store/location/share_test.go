package location_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/location"
)

func TestWhatIsMeantAsAnAddress(t *testing.T) {
	for _, text := range []string{"smb://h/x", "SMB://h/x", "smb:/u:p@h", "Cifs://h/x", "smb:x"} {
		require.True(t, location.IsShare(text), text)
	}
	for _, text := range []string{"./smb:x", "/smb://x", "smbx", "x", ""} {
		require.False(t, location.IsShare(text), text)
	}
}
