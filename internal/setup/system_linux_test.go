package setup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnescapeLabel(t *testing.T) {
	require.Equal(t, "Backup Disk", unescapeLabel(`Backup\x20Disk`))
	require.Equal(t, `a\x2`, unescapeLabel(`a\x2`))
	require.Equal(t, `a\xzz`, unescapeLabel(`a\xzz`))
}
